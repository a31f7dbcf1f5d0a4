"""The text codec over a Hugging Face tokenizer and its chat template.

Untrusted text never becomes a control token. Where it spells an added token or a tag of the
grammars, it is split after that word's first character and the parts are encoded on their own, so
the ids still decode to the same text. This holds for any tokenizer, also for one that does not flag
its control tokens as special.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from cosearch.core.formats import TAGS
from cosearch.core.protocols import Message, Segment
from cosearch.engines.loading import copy_tokenizer, load_tokenizer

_SLOT = "cosearchslot{}x"
_SLOT_PATTERN = re.compile(r"cosearchslot(\d+)x")


class HfCodec:
    """Implements ``core.protocols.Codec``. ``chat_options`` go to the chat template as they are."""

    def __init__(self, folder: str | Path, *, chat_options: dict[str, Any] | None = None) -> None:
        self._folder = Path(folder)
        self.tokenizer: Any = load_tokenizer(folder)
        if not self.tokenizer.chat_template:
            raise ValueError(f"{folder}: the tokenizer has no chat template")
        self._chat_options = chat_options or {}
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        controls = {token for token in self.tokenizer.get_added_vocab() if len(token) > 1}
        controls |= set(TAGS) & set(vocabulary)
        self._control_ids = {vocabulary[token] for token in controls}
        self._control_ids.discard(self.tokenizer.unk_token_id)  # what unknown words of data become
        longest_first = sorted(controls, key=lambda token: (-len(token), token))
        self._control = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        eos = self.tokenizer.eos_token_id
        if eos is None:
            raise ValueError(f"{folder}: the tokenizer names no eos_token")
        self.eos_ids: frozenset[int] = frozenset({eos})
        self._encode_run = lru_cache(maxsize=1 << 16)(self._encode_run_uncached)
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
        """Ids of bare segments.

        Segments are joined first, so that words and numbers at their edges become the tokens they
        would be in plain text. A trusted line end closes a run, and runs are encoded (and
        remembered) on their own: documents that end in one cost the same in every prompt.
        """
        return [token for run in _runs(segments) for token in self._encode_run(run)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def save(self, folder: str | Path) -> None:
        """Put tokenizer and chat template beside exported weights, as the model came with them."""
        copy_tokenizer(self.tokenizer, self._folder, Path(folder))

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
        """What the template puts around the user text that follows an assistant's turn."""
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
        return self._encode_run((Segment(text, trusted=True),))

    def _encode_run_uncached(self, run: tuple[Segment, ...]) -> tuple[int, ...]:
        pieces, trusted_controls = self._split(run)
        ids = self._encode_pieces(pieces)
        if sum(token in self._control_ids for token in ids) <= trusted_controls:
            return ids
        # The tokenizer's normaliser made a control token of text that is none, such as "<REASON>".
        # Single characters cannot become one.
        return self._encode_pieces(
            piece for s in run for piece in ((s.text,) if s.trusted else s.text)
        )

    def _split(self, run: Sequence[Segment]) -> tuple[list[str], int]:
        """Pieces of a run without forged controls, and how many trusted controls they hold."""
        text = "".join(segment.text for segment in run)
        data = "".join("01"[not segment.trusted] * len(segment.text) for segment in run)
        pieces: list[str] = []
        piece_start = position = trusted_controls = 0
        while match := self._control.search(text, position):
            if "1" in data[slice(*match.span())]:
                position = match.start() + 1
                pieces.append(text[piece_start:position])
                piece_start = position
            else:
                position = match.end()
                trusted_controls += 1
        return [*pieces, text[piece_start:]], trusted_controls

    def _encode_pieces(self, pieces: Iterable[str]) -> tuple[int, ...]:
        """Ids of pieces encoded one by one; a lone surrogate, which no tokenizer takes, is "?"."""
        ids: list[int] = []
        for piece in filter(None, pieces):
            valid = piece.encode("utf-8", "replace").decode("utf-8")
            ids.extend(self.tokenizer(valid, add_special_tokens=False).input_ids)
        return tuple(ids)


def check_plain(codec: HfCodec, folder: str | Path, chats: Sequence[Sequence[Message]]) -> None:
    """Raises ValueError where ``AutoTokenizer`` gives a chat other ids than the codec does."""
    plain: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    for messages in chats:
        told = [
            {"role": one.role, "content": "".join(part.text for part in one.segments)}
            for one in messages
        ]
        ids = plain.apply_chat_template(told, add_generation_prompt=True, return_dict=False)
        if list(ids) != codec.chat(messages):
            raise ValueError(
                f"{folder}: AutoTokenizer reads its tokenizer.json as {type(plain).__name__} and"
                " gives other ids than training did; train again from a folder that it reads well"
            )


def _runs(segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
    """Segments in stretches that end with a trusted line end."""
    run: list[Segment] = []
    for segment in segments:
        run.append(segment)
        if segment.trusted and segment.text.endswith("\n"):
            yield tuple(run)
            run = []
    if run:
        yield tuple(run)
