"""The words of the page that a newcomer does not know, and their meaning where they stand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

_BUTTON = Markup('<button type="button" class="word" popovertarget="word-{}">{}</button>')
_WHOLE = Markup('<span class="whole">{}{}{}</span>')
_OPENING, _CLOSING = "([", ")],.:;"
"""Signs that stay on the line of their word."""


@dataclass(frozen=True)
class Words:
    """``meanings``: word -> its meaning. ``spellings``: every way to write a word -> the word."""

    meanings: Mapping[str, str]
    spellings: Mapping[str, str]

    @classmethod
    def of(cls, entries: Mapping[str, Mapping[str, Any]]) -> "Words":
        """The words of words.yaml. Raises ValueError for a spelling that two words have."""
        spellings: dict[str, str] = {}
        for word, entry in entries.items():
            for spelling in (word, *entry.get("also", ())):
                if spellings.setdefault(spelling, word) != word:
                    raise ValueError(f"words.yaml: {spelling!r} is a spelling of two words")
        return cls({word: entry["means"] for word, entry in entries.items()}, spellings)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Any spelling as a whole word, the longest first."""
        longest = sorted(self.spellings, key=lambda spelling: (-len(spelling), spelling))
        return re.compile(rf"(?<![\w@])(?:{'|'.join(map(_any_case, longest))})(?![\w@])")

    def marker(self) -> "Marker":
        """A marker for one part of the page, in which every word is explained once."""
        return Marker(self, self.pattern)


@dataclass(frozen=True)
class Marker:
    """Makes words into buttons that open their meaning; it remembers which it has made."""

    words: Words
    pattern: re.Pattern[str]
    done: set[str] = field(default_factory=set)

    def mark(self, text: str) -> Markup:
        """``text``, escaped, with a button in place of every word that has none yet."""
        parts, end = [], 0
        for found in self.pattern.finditer(text):
            word = self._word(found[0])
            if word not in self.done:
                self.done.add(word)
                before, after = text[end : found.start()], text[found.end() :]
                opening = before[len(before.rstrip(_OPENING)) :]
                closing = after[: len(after) - len(after.lstrip(_CLOSING))]
                button = _BUTTON.format(slug(word), found[0])
                held = _WHOLE.format(opening, button, closing) if opening or closing else button
                parts += [escape(before.removesuffix(opening)), held]
                end = found.end() + len(closing)
        return Markup("").join([*parts, escape(text[end:])])

    def rest(self, texts: list[str]) -> list[Markup]:
        """Buttons of the words in ``texts`` that have none yet."""
        found = [one for text in texts for one in self.pattern.findall(text)]
        return [self.mark(one) for one in found if self._word(one) not in self.done]

    def _word(self, found: str) -> str:
        return self.words.spellings.get(found) or self.words.spellings[found.lower()]


def slug(word: str) -> str:
    """A word as part of an id: letters and digits, everything else as its number."""
    return "".join(sign if sign.isalnum() else f"-{ord(sign):x}-" for sign in word)


def _any_case(spelling: str) -> str:
    return f"(?i:{re.escape(spelling)})" if spelling.islower() else re.escape(spelling)
