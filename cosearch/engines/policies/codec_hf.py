"""The text codec over a Hugging Face tokenizer and its chat template.

Untrusted text never becomes a control token. Where it spells an added token or a tag of the
grammars, it is split after that word's first character and the parts are encoded on their own, so
the ids still decode to the same text. This holds for any tokenizer, also for one that does not flag
its control tokens as special.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cosearch.core.formats import TAGS
from cosearch.core.protocols import Message, Segment
from cosearch.engines.loading import copy_tokenizer, load_tokenizer
from cosearch.engines.policies.chat_template import ChatTemplate
from cosearch.engines.policies.look_text import look_at_text, turn_ends
from cosearch.engines.policies.pieces import PieceEncoder


class HfCodec:
    """Implements ``core.protocols.Codec``. ``chat_options`` go to the chat template.

    Raises ValueError, when it is made, for a tokenizer or a chat template that cannot carry a
    conversation: what is looked at stands in ``look_text`` and ``chat_template``.
    """

    def __init__(
        self, folder: str | Path, *, chat_options: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = Path(folder)
        self.tokenizer: Any = load_tokenizer(folder)
        self.template = ChatTemplate(folder, self.tokenizer, chat_options or {})
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        controls = {token for token in self.tokenizer.get_added_vocab() if len(token) > 1}
        controls |= set(TAGS) & set(vocabulary)
        self._control_ids = {vocabulary[token] for token in controls}
        self._control_ids.discard(self.tokenizer.unk_token_id)  # what unknown words of data become
        longest_first = sorted(controls, key=lambda token: (-len(token), token))
        self._control = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._pieces = PieceEncoder(self.tokenizer, self._control)
        self._encode_run = lru_cache(maxsize=1 << 16)(self._encode_run_uncached)
        self.eos_ids: frozenset[int] = turn_ends(self, self._control_ids)
        look_at_text(self)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of ``messages`` up to and including the opening of the assistant's turn."""
        return self.encode(self.template.chat(messages))

    def reply(self, segments: Sequence[Segment], *, after_eos: bool) -> list[int]:
        """Ids between an assistant turn and the next one; see the protocol."""
        ids = self.encode(self.template.reply(segments))
        if not after_eos:
            return ids
        end = next(place for place, token in enumerate(ids) if token in self.eos_ids)
        return ids[end + 1 :]

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Ids of bare segments.

        Segments are joined first, so that words and numbers at their edges become the tokens they
        would be in plain text. A trusted line end closes a run, and runs are encoded (and
        remembered) on their own: documents that end in one cost the same in every prompt.
        """
        ids: list[int] = []
        for run in _runs(segments):
            ids.extend(self._encode_run(run, self._opens(ids)))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens included."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def save(self, folder: str | Path) -> None:
        """Put tokenizer and chat template beside exported weights, as the model came with them."""
        copy_tokenizer(self.tokenizer, self.folder, Path(folder))

    def _opens(self, ids: Sequence[int]) -> bool:
        """Whether the tokenizer would put a blank before what follows ``ids``; it is always False
        for one that puts none, so that equal runs are encoded once."""
        if not self._pieces.blanks:
            return False
        return not ids or (self._pieces.again and ids[-1] in self._control_ids)

    def _encode_run_uncached(self, run: tuple[Segment, ...], opens: bool) -> tuple[int, ...]:
        pieces, trusted_controls = self._split(run)
        ids = self._encode_pieces(pieces, opens)
        if sum(token in self._control_ids for token in ids) <= trusted_controls:
            return ids
        # The tokenizer's normaliser made a control token of text that is none, such as "<REASON>".
        # Single characters cannot become one.
        single = [piece for s in run for piece in ((s.text,) if s.trusted else s.text)]
        return self._encode_pieces(single, opens)

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

    def _encode_pieces(self, pieces: Iterable[str], opens: bool) -> tuple[int, ...]:
        """Ids of pieces encoded one by one; a lone surrogate, which no tokenizer takes, is "?"."""
        ids: list[int] = []
        for piece in filter(None, pieces):
            valid = piece.encode("utf-8", "replace").decode("utf-8")
            ids.extend(self._pieces.encode(valid, opens=opens if not ids else self._opens(ids)))
        return tuple(ids)


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
