"""Text measures: normalisation, token F1, exact match and token containment (Section 3).

There are two tokenisations. Answers and queries are compared over *normalised words*
(lower-case, no punctuation, no articles). Passages are searched for answers over *match tokens*
(NFD, case-folded runs of letters, digits and marks, or one other sign), as open-domain QA does.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

ARTICLES = frozenset({"a", "an", "the"})
"""Words that answers and queries are compared without."""

_ARTICLES = re.compile(rf"\b({'|'.join(sorted(ARTICLES))})\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2039\u203a\u2032\u00b4`\u02b9\u02bb\u02bc\u02bd\uff07"
_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u02ba\u2e42\u301d\u301e\u301f\uff02"
_QUOTES = str.maketrans(dict.fromkeys(_SINGLE_QUOTES, "'") | dict.fromkeys(_DOUBLE_QUOTES, '"'))
_MINUS = "\N{MINUS SIGN}"
_THOUSANDS = re.compile(
    # One to three digits, then groups of three behind one and the same separator: a comma, an
    # apostrophe, the Arabic sign, or a blank that does not break or is thin.
    r"(?<!\d)\d{1,3}([,'\u066c\u00a0\u2007\u2009\u202f])\d{3}(?:\1\d{3})*(?!\d)"
)

KEPT_TEXTS = 1 << 16
"""How many texts of each kind keep their normal form. Passages of the usual hundred words take at
most 100 MB. No result depends on it."""

YES_NO_WORDS = frozenset({"yes", "no", "noanswer"})
"""Golds whose F1 is 0 or 1 under the ``squad`` rule."""


class _Respelled(dict[int, str]):
    """A table for ``str.translate`` by a rule over a character and its Unicode category, which is
    asked once for each character."""

    def __init__(self, rule: Callable[[str, str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = made = self._rule(char, unicodedata.category(char))
        return made


_WITHOUT_FORMAT = _Respelled(lambda char, kind: "" if kind == "Cf" else char)
_WORDS_PARTED = _Respelled(lambda char, kind: " " if kind[0] in "PS" or kind == "Cc" else char)
_FOLDED = _Respelled(
    lambda char, kind: "" if kind[0] == "M" else "-" if kind == "Pd" or char == _MINUS else char
)
_SIGNS_PARTED = _Respelled(
    lambda char, kind: char if kind[0] in "LNM" else " " if kind[0] in "ZC" else f" {char} "
)


def normalize(text: str) -> str:
    """Lower-case, drop punctuation and the words a/an/the, squeeze blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def query_words(query: str) -> list[str]:
    """Words of a sub-query for grouping (Algorithm 2): lower-case and composed (NFC), without
    articles. Format characters (soft hyphens, joiners) are dropped; every punctuation mark, symbol
    and control character becomes a blank, so that a typographic apostrophe counts like a typed one.
    """
    spelled = unicodedata.normalize("NFC", drop_format(query).lower())
    return [word for word in spelled.translate(_WORDS_PARTED).split() if word not in ARTICLES]


def drop_format(text: str) -> str:
    """``text`` without characters that only say how it is set: Unicode's category Cf."""
    return text.translate(_WITHOUT_FORMAT)


def bag_f1(left: Sequence[str], right: Sequence[str]) -> float:
    """``2 * shared / (|left| + |right|)`` over bags; 1 for two empty bags, 0 for one empty bag.

    Counts are divided once, because ``2pr/(p+r)`` gives 0.7999999999999999 for pairs that are
    exactly 0.8, and would split groups that belong together.
    """
    return counted_f1(Counter(left), Counter(right))


def counted_f1(left: Counter[str], right: Counter[str]) -> float:
    """``bag_f1`` of bags whose words are counted already."""
    total = left.total() + right.total()
    if total == 0:
        return 1.0
    return 2 * sum(min(count, right[word]) for word, count in left.items()) / total


def token_f1(left: str, right: str) -> float:
    """Bag F1 of two strings over their normalised words."""
    return counted_f1(_answer(left)[1], _answer(right)[1])


def answer_f1(prediction: str, golds: Sequence[str], *, yes_no_rule: str) -> float:
    """Best token F1 over the golds.

    ``yes_no_rule``: ``bag`` compares every gold as a bag of words; ``squad`` gives 0 unless equal
    when either side is yes/no/noanswer.
    """
    return max((_f1_under_rule(prediction, gold, yes_no_rule) for gold in golds), default=0.0)


def _f1_under_rule(prediction: str, gold: str, yes_no_rule: str) -> float:
    (left, left_words), (right, right_words) = _answer(prediction), _answer(gold)
    if yes_no_rule == "squad" and left != right and ({left, right} & YES_NO_WORDS):
        return 0.0
    return counted_f1(left_words, right_words)


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 iff the normalised prediction equals some normalised gold, else 0.0."""
    said = _answer(prediction)[0]
    return float(any(said == _answer(gold)[0] for gold in golds))


@lru_cache(maxsize=KEPT_TEXTS)
def _answer(text: str) -> tuple[str, Counter[str]]:
    """An answer's normal form and how often it has each word."""
    words = normalize(text)
    return words, Counter(words.split())


def fold_marks(text: str) -> str:
    """``text`` without accents, format characters and separators of thousands, and with plain
    quotes and dashes, so that "Beyonce" matches "Beyoncé" and "1,234" matches "1234" (off in the
    paper preset). Dashes are Unicode's category Pd and the minus sign."""
    decomposed = unicodedata.normalize("NFD", drop_format(text))
    return _THOUSANDS.sub(_only_digits, decomposed.translate(_FOLDED).translate(_QUOTES))


def _only_digits(number: re.Match[str]) -> str:
    return number[0].replace(number[1], "")


def match_tokens(text: str) -> list[str]:
    """Match tokens of ``text``: runs of letters/digits/marks, or one other non-space sign."""
    return unicodedata.normalize("NFD", text).casefold().translate(_SIGNS_PARTED).split()


def spaced(tokens: Sequence[str]) -> str:
    """Tokens with a blank before, between and behind them. They hold no blanks, so a run of tokens
    occurs in others iff its spaced form is a substring of theirs, which takes linear time."""
    return f" {' '.join(tokens)} "
