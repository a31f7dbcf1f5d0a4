"""The growing context of one trajectory: token ids, what was sampled, and typed spans over it.

The ids that a policy sampled are the ids that it is trained on; its text is never tokenised again.
Everything is appended, so the prompt of turn t is a prefix of the prompt of turn t+1.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from cosearch.core.formats import Answer, CharSpan, Grammar, Malformed, Search, parse_turn
from cosearch.core.protocols import Codec
from cosearch.core.types import (
    Generation,
    Question,
    Sampling,
    SearchCall,
    Span,
    SpanKind,
    Terminal,
    Trajectory,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a trajectory ends, with its answer or the fault of its last turn, where it has one."""

    terminal: Terminal
    answer: str | None = None
    fault: str | None = None


def sampled_body(generation: Generation, codec: Codec) -> tuple[int, ...]:
    """The sampled ids without the stop token at their end."""
    return generation.ids[:-1] if has_stop_token(generation, codec) else generation.ids


def has_stop_token(generation: Generation, codec: Codec) -> bool:
    """Whether the policy sampled its own end token; the next prompt then does not add it again."""
    return bool(generation.ids) and generation.ids[-1] in codec.eos_ids


@dataclass(slots=True)
class Transcript:
    """Columns of equal length, and spans that partition them. The core's only mutable record."""

    codec: Codec
    grammar: Grammar
    ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    calls: list[SearchCall] = field(default_factory=list)
    opening: str = ""
    """What the next turn begins with: the ids so far end with this text."""
    weights: int = 0
    """How many updates the weights had that sampled the latest turn."""

    def append_given(
        self, kind: SpanKind, turn: int, ids: Sequence[int], opening: str = ""
    ) -> None:
        """Append tokens that the policy did not sample: a prompt, an observation, a notice. At
        their end stands the ``opening`` of the next turn."""
        self.opening = opening
        start = len(self.ids)
        self._extend(ids, [0.0] * len(ids), mask=0)
        self._mark(kind, turn, start, len(self.ids))

    def append_turn(self, generation: Generation) -> Search | Ending:
        """Append what the policy sampled, with typed spans, and return what it leads to.

        A turn that the length limit cut ends the trajectory, whatever its text says.
        """
        start, turn = len(self.ids), len(self.turns)
        self._extend(generation.ids, generation.logprobs, mask=1)
        self.weights = generation.weights
        body = sampled_body(generation, self.codec)
        text = self.opening + self.codec.decode(body)
        self.turns.append(text)
        action = parse_turn(text, self.grammar)
        cursor = start
        for kind, chars in _contents(action):
            chars = chars[0] - len(self.opening), chars[1] - len(self.opening)
            first, last = (start + edge for edge in _token_span(self.codec, body, chars))
            self._mark(SpanKind.TAG, turn, cursor, first)
            self._mark(kind, turn, first, last)
            cursor = last
        self._mark(SpanKind.TAG, turn, cursor, len(self.ids))
        return _outcome(action) if generation.stopped else Ending(Terminal.TOKEN_BUDGET)

    def finish(
        self, question: Question, sample: int, sampling: Sampling, ending: Ending
    ) -> Trajectory:
        """The frozen record of the trajectory."""
        return Trajectory(
            question=question,
            sample=sample,
            ids=tuple(self.ids),
            loss_mask=tuple(self.loss_mask),
            logprobs=tuple(self.logprobs),
            spans=tuple(self.spans),
            turns=tuple(self.turns),
            calls=tuple(self.calls),
            answer=ending.answer,
            terminal=ending.terminal,
            fault=ending.fault,
            sampling=sampling,
            weights=self.weights,
            notices=sum(span.kind is SpanKind.NOTICE for span in self.spans),
        )

    def _extend(self, ids: Sequence[int], logprobs: Sequence[float], *, mask: int) -> None:
        self.ids.extend(ids)
        self.loss_mask.extend([mask] * len(ids))
        self.logprobs.extend(logprobs)

    def _mark(self, kind: SpanKind, turn: int, start: int, end: int) -> None:
        if end > start:
            self.spans.append(Span(kind, turn, start, end))


def _outcome(action: Search | Answer | Malformed) -> Search | Ending:
    """What a whole turn leads to: a search, or the end of the trajectory."""
    if isinstance(action, Search):
        return action
    if isinstance(action, Answer):
        return Ending(Terminal.ANSWERED, answer=action.text)
    return Ending(Terminal.MALFORMED, fault=action.reason)


def _contents(action: Search | Answer | Malformed) -> list[tuple[SpanKind, CharSpan]]:
    """Where the blocks of a turn stand, in order; empty for a malformed turn."""
    if isinstance(action, Search):
        return [(SpanKind.REASON, action.reason_at), (SpanKind.QUERY, action.query_at)]
    if isinstance(action, Answer):
        return [(SpanKind.REASON, action.reason_at), (SpanKind.ANSWER, action.answer_at)]
    return []


def _token_span(codec: Codec, ids: Sequence[int], chars: CharSpan) -> tuple[int, int]:
    """The tokens that write characters ``chars``; a token across an edge counts to what follows."""

    def whole_before(char: int) -> int:
        return bisect_right(range(1, len(ids) + 1), char, key=lambda n: len(codec.decode(ids[:n])))

    return whole_before(chars[0]), whole_before(chars[1])
