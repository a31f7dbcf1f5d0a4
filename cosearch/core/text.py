"""Text measures: normalisation, token F1, exact match and token containment (Section 3).

There are two tokenisations. Answers and queries are compared over *normalised words*
(lower-case, no punctuation, no articles). Passages are searched for answers over *match tokens*
(NFD, case-folded runs of letters, digits and marks, or one other sign), as open-domain QA does.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

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

YES_NO_WORDS = frozenset({"yes", "no", "noanswer"})
"""Golds whose F1 is 0 or 1 under the ``squad`` rule."""


def normalize(text: str) -> str:
    """Lower-case, drop punctuation and the words a/an/the, squeeze blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def query_words(query: str) -> list[str]:
    """Words of a sub-query for grouping (Algorithm 2): lower-case and composed (NFC), without
    articles. Format characters (soft hyphens, joiners) are dropped; every punctuation mark, symbol
    and control character becomes a blank, so that a typographic apostrophe counts like a typed one.
    """
    spelled = unicodedata.normalize("NFC", drop_format(query).lower())
    words = "".join(" " if _parts_words(char) else char for char in spelled).split()
    return [word for word in words if word not in ARTICLES]


def drop_format(text: str) -> str:
    """``text`` without characters that only say how it is set: Unicode's category Cf."""
    return "".join(char for char in text if unicodedata.category(char) != "Cf")


def _parts_words(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "PS" or category == "Cc"


def bag_f1(left: Sequence[str], right: Sequence[str]) -> float:
    """``2 * shared / (|left| + |right|)`` over bags; 1 for two empty bags, 0 for one empty bag.

    Counts are divided once, because ``2pr/(p+r)`` gives 0.7999999999999999 for pairs that are
    exactly 0.8, and would split groups that belong together.
    """
    total = len(left) + len(right)
    if total == 0:
        return 1.0
    return 2 * sum((Counter(left) & Counter(right)).values()) / total


def token_f1(left: str, right: str) -> float:
    """Bag F1 of two strings over their normalised words."""
    return bag_f1(normalize(left).split(), normalize(right).split())


def answer_f1(prediction: str, golds: Sequence[str], *, yes_no_rule: str) -> float:
    """Best token F1 over the golds.

    ``yes_no_rule``: ``bag`` compares every gold as a bag of words; ``squad`` gives 0 unless equal
    when either side is yes/no/noanswer.
    """
    return max((_f1_under_rule(prediction, gold, yes_no_rule) for gold in golds), default=0.0)


def _f1_under_rule(prediction: str, gold: str, yes_no_rule: str) -> float:
    left, right = normalize(prediction), normalize(gold)
    if yes_no_rule == "squad" and left != right and ({left, right} & YES_NO_WORDS):
        return 0.0
    return bag_f1(left.split(), right.split())


def exact_match(prediction: str, golds: Sequence[str]) -> float:
    """1.0 iff the normalised prediction equals some normalised gold, else 0.0."""
    return float(any(normalize(prediction) == normalize(gold) for gold in golds))


def fold_marks(text: str) -> str:
    """``text`` without accents, format characters and separators of thousands, and with plain
    quotes and dashes, so that "Beyonce" matches "Beyoncé" and "1,234" matches "1234" (off in the
    paper preset). Dashes are Unicode's category Pd and the minus sign."""
    decomposed = unicodedata.normalize("NFD", drop_format(text))
    folded = "".join(_fold_dash(c) for c in decomposed if unicodedata.category(c)[0] != "M")
    return _THOUSANDS.sub(_only_digits, folded.translate(_QUOTES))


def _fold_dash(char: str) -> str:
    return "-" if unicodedata.category(char) == "Pd" or char == _MINUS else char


def _only_digits(number: re.Match[str]) -> str:
    return number[0].replace(number[1], "")


def match_tokens(text: str) -> list[str]:
    """Match tokens of ``text``: runs of letters/digits/marks, or one other non-space sign."""
    tokens: list[str] = []
    in_run = False
    for char in unicodedata.normalize("NFD", text).casefold():
        category = unicodedata.category(char)[0]
        if category in "LNM" and in_run:
            tokens[-1] += char
        elif category not in "ZC":
            tokens.append(char)
        in_run = category in "LNM"
    return tokens


def contains_run(tokens: Sequence[str], run: Sequence[str]) -> bool:
    """True iff ``run`` occurs contiguously in ``tokens``; an empty run never occurs.

    Tokens hold no blanks, so a search for a substring answers it, which takes linear time.
    """
    return bool(run) and f" {' '.join(run)} " in f" {' '.join(tokens)} "
