"""A model's chat template, rendered around the segments of messages, and the look at it.

Contents never pass through the template: it renders slots, which segments replace afterwards. So
no message can change what stands around it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from cosearch.core.protocols import Message, Segment

_SLOT = "cosearchslot{}x"
_SLOT_PATTERN = re.compile(r"cosearchslot(\d+)x")
_CLOSED = re.compile(r"</[^<>]+>\s*\Z")
THINKING = ("enable_thinking", "thinking")
"""Options by which templates ask if the model thinks before it answers."""
TODAY = "strftime_now"
"""The function by which templates write today's date."""


class ChatTemplate:
    """Raises ValueError, when it is made, for a template under which no turn can be played.

    ``options`` go to the template as they are. ``strftime_now`` is the text that stands where the
    template would write today's date.
    """

    def __init__(self, folder: str | Path, tokenizer: Any, options: Mapping[str, Any]) -> None:
        if not tokenizer.chat_template:
            raise ValueError(
                f"{folder}: the tokenizer has no chat template; name an instruct model"
            )
        self._folder = folder
        self._tokenizer = tokenizer
        self.options = dict(options)
        if isinstance(date := self.options.get(TODAY), str):
            self.options[TODAY] = lambda _form: date
        self._around = cache(self._around_uncached)
        self._check_date()
        self._check_switches()
        self._check_opening()

    def chat(self, messages: Sequence[Message]) -> list[Segment]:
        """The conversation up to and including the opening of the assistant's turn."""
        texts = self._around(tuple(message.role for message in messages))
        found = [Segment(texts[0], trusted=True)]
        for message, text in zip(messages, texts[1:], strict=True):
            found += [*message.segments, Segment(text, trusted=True)]
        return found

    def reply(self, segments: Sequence[Segment]) -> list[Segment]:
        """What follows an assistant's turn, with ``segments`` as the user's message in it."""
        _, _, before, after = self._around(("user", "assistant", "user"))
        return [Segment(before, trusted=True), *segments, Segment(after, trusted=True)]

    def _around_uncached(self, roles: tuple[str, ...], opening: bool = True) -> list[str]:
        """The texts before, between and after the contents of messages of these roles."""
        messages = [
            {"role": role, "content": _SLOT.format(number)} for number, role in enumerate(roles)
        ]
        parts = _SLOT_PATTERN.split(self._rendered(messages, opening, self.options))
        if parts[1::2] != [str(number) for number in range(len(roles))]:
            raise ValueError(
                f"{self._folder}: its chat template shows messages {', '.join(parts[1::2]) or '-'}"
                f" of a conversation of {', '.join(roles)}, and each is needed once and in order"
            )
        return parts[::2]

    def _rendered(
        self, messages: Sequence[dict[str, str]], opening: bool, options: Mapping[str, Any]
    ) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=opening, **options
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            raise ValueError(
                f"{self._folder}: its chat template refuses a conversation of {roles}: {error}"
            ) from error
        return text

    def _asked(self, options: Mapping[str, Any]) -> str:
        """A first question up to the assistant's turn, under other options."""
        return self._rendered([{"role": "user", "content": _SLOT.format(0)}], True, options)

    def _check_date(self) -> None:
        if TODAY in self.options:
            return
        one, other = (
            self._asked(self.options | {TODAY: lambda _form, day=day: day}) for day in ("1", "2")
        )
        if one != other:
            raise ValueError(
                f"{self._folder}: its chat template writes today's date, so prompts would change"
                f" from day to day; fix it in chat_options, as in {{{TODAY}: 26 July 2024}}"
            )

    def _check_switches(self) -> None:
        for name in THINKING:
            if name in self.options:
                continue
            told = {flag: self._asked(self.options | {name: flag}) for flag in (True, False)}
            if told[True] != told[False] and self._asked(self.options) != told[False]:
                raise ValueError(
                    f"{self._folder}: under its chat template the model thinks before it answers,"
                    f" in a block that no grammar of turns has; set chat_options: {{{name}: false}}"
                )

    def _check_opening(self) -> None:
        """The generation prompt must be what stands before an assistant's text in a history."""
        opening = self._around(("user",))[1]
        header = self._around(("user", "assistant", "user"))[1]
        last = self._around(("user", "assistant"), opening=False)[1]
        extra = opening.removeprefix(header)
        if opening.startswith(header) and (
            not extra.strip() or opening == last or _CLOSED.search(extra)
        ):
            return
        if header.startswith(opening) and not header.removeprefix(opening).strip():
            return
        raise ValueError(
            f"{self._folder}: its chat template opens a turn with {opening!r} and shows earlier"
            f" turns after {header!r}; the grammar of turns does not expect the difference: choose"
            " chat_options that leave it out, or a model whose turns begin with its own words"
        )
