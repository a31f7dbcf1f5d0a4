"""The text codec over a Hugging Face tokenizer and its chat template.

Untrusted text never yields a control token: every added token that occurs in it literally is
split after its first character and the parts are encoded on their own, so the ids still decode to
the same text. This holds for any tokenizer, whether or not it flags a token as special.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from cosearch.core.protocols import Message, Segment

_SLOT = "cosearchslot{}x"
_SLOT_PATTERN = re.compile(r"cosearchslot(\d+)x")


class HfCodec:
    """Implements ``core.protocols.Codec``. ``chat_options`` go to the chat template as they are."""

    def __init__(self, folder: str | Path, *, chat_options: dict[str, Any] | None = None) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if not self.tokenizer.chat_template:
            raise ValueError(f"{folder}: the tokenizer has no chat template")
        self._chat_options = chat_options or {}
        added = [token for token in self.tokenizer.get_added_vocab() if len(token) > 1]
        self._added = re.compile("|".join(map(re.escape, sorted(added))) or r"(?!)")
        eos = self.tokenizer.eos_token_id
        if eos is None:
            raise ValueError(f"{folder}: the tokenizer names no eos_token")
        self.eos_ids: frozenset[int] = frozenset({eos})
        self._encode_piece = lru_cache(maxsize=1 << 16)(self._encode_uncached)
        self._before, self._after = self._reply_frame()

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of ``messages`` up to and including the opening of the assistant's turn."""
        slots = [
            {"role": message.role, "content": _SLOT.format(number)}
            for number, message in enumerate(messages)
        ]
        return self._fill(self._template(slots, opening=True), messages)

    def reply(self, segments: Sequence[Segment], *, after_eos: bool) -> list[int]:
        """Ids between an assistant turn and the next one; see the protocol."""
        before = self._before
        if after_eos:
            eos = self.tokenizer.eos_token
            before = before.split(eos, 1)[1] if eos in before else before
        return [*self._trusted(before), *self.encode(segments), *self._trusted(self._after)]

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Ids of bare segments."""
        ids: list[int] = []
        for segment in segments:
            ids.extend(self._trusted(segment.text) if segment.trusted else self._data(segment.text))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def _fill(self, rendered: str, messages: Sequence[Message]) -> list[int]:
        """Encode a rendered template, each slot replaced by its message's segments."""
        ids: list[int] = []
        for number, part in enumerate(_SLOT_PATTERN.split(rendered)):
            if number % 2:
                ids.extend(self.encode(messages[int(part)].segments))
            else:
                ids.extend(self._trusted(part))
        return ids

    def _reply_frame(self) -> tuple[str, str]:
        """What the template puts between an assistant's text and the next user text, and after it."""
        slots = [
            {"role": role, "content": _SLOT.format(number)}
            for number, role in enumerate(("user", "assistant", "user"))
        ]
        rendered = self._template(slots, opening=True)
        _, rest = rendered.split(_SLOT.format(1))
        before, after = rest.split(_SLOT.format(2))
        return before, after

    def _template(self, messages: list[dict[str, str]], *, opening: bool) -> str:
        text: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=opening, **self._chat_options
        )
        return text

    def _trusted(self, text: str) -> tuple[int, ...]:
        return self._encode_piece(text)

    def _data(self, text: str) -> list[int]:
        """Ids of untrusted text: no piece that is encoded contains a whole added token."""
        ids: list[int] = []
        start = 0
        while match := self._added.search(text, start):
            ids.extend(self._encode_piece(text[start : match.start() + 1]))
            start = match.start() + 1
        return [*ids, *self._encode_piece(text[start:])]

    def _encode_uncached(self, text: str) -> tuple[int, ...]:
        if not text:
            return ()
        text = text.encode("utf-8", "replace").decode("utf-8")
        return tuple(self.tokenizer(text, add_special_tokens=False).input_ids)
