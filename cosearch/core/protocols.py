"""What the core asks of engines: requests that trajectories await, the text codec, and a judge."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cosearch.core.types import Candidate, Generation, Passage, Sampling


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt. In untrusted text (questions, passages, queries) tags and chat markers
    are encoded as ordinary characters."""

    text: str
    trusted: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, made of segments."""

    role: str
    segments: tuple[Segment, ...]


class Codec(Protocol):
    """Turns text into token ids and back for one policy, by its tokenizer and chat template."""

    eos_ids: frozenset[int]

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a conversation up to and including the opening of the assistant's turn."""

    def reply(self, segments: Sequence[Segment], *, after_eos: bool) -> list[int]:
        """Ids between an assistant turn and the next one, with ``segments`` as the user's message.

        ``after_eos``: the assistant's end token was sampled, so it is not added again.
        """

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Ids of bare segments, without any template."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens included."""


@dataclass(frozen=True, slots=True)
class Generate:
    """Sample a completion of ``prompt_ids`` from the policy that plays ``role``."""

    role: str
    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int

    @property
    def engine(self) -> str:
        """Name of the engine that answers this request."""
        return self.role

    def __await__(self) -> Generator["Request", Any, Generation]:
        result: Generation = yield self
        return result


@dataclass(frozen=True, slots=True)
class Choose:
    """Pick ``count`` of ``inputs`` one after another from the scoring policy that plays ``role``.

    The policy is a Plackett-Luce model: each pick is drawn from the softmax, after temperature,
    over the scores of the inputs that are not picked yet. The generation's ``ids`` are positions in
    ``inputs``. Temperature 0 picks by score, and breaks ties in the order of ``inputs``.
    """

    role: str
    inputs: tuple[tuple[int, ...], ...]
    """Token ids of each candidate's pair with the query."""
    count: int
    sampling: Sampling
    seed: int

    @property
    def engine(self) -> str:
        """Name of the engine that answers this request."""
        return self.role

    def __await__(self) -> Generator["Request", Any, Generation]:
        result: Generation = yield self
        return result


@dataclass(frozen=True, slots=True)
class Retrieve:
    """Top ``n`` passages of the fixed retriever for ``query``, best first."""

    query: str
    n: int

    @property
    def engine(self) -> str:
        """Name of the engine that answers this request."""
        return "retriever"

    def __await__(self) -> Generator["Request", Any, Sequence[Candidate]]:
        result: Sequence[Candidate] = yield self
        return result


Request = Generate | Choose | Retrieve

Engine = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers a batch of requests of its own type, in order. It raises when infrastructure fails."""

ShowProgress = Callable[[int, int], None]
"""Long work calls it with how many items are done and how many there are in all."""


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """What a judge sees of a ranker call: q0, its golds, q_t, and the passages as shown."""

    question: str
    golds: tuple[str, ...]
    query: str
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's score in [0, 1], and what its prompt lacked: whole documents that did not fit, and
    texts that were cut."""

    score: float
    dropped_documents: int
    cut_documents: int


class RankingJudge(Protocol):
    """Says how useful the documents of a ranker call are (row "LLM-as-judge" of Table 3)."""

    def __call__(self, cases: Sequence[JudgeCase]) -> Sequence[Judgement]:
        """A judgement per case, in order. It raises when infrastructure fails."""


class NotFinite(RuntimeError):
    """A trainer's loss or gradient is not a finite number, so it made no step.

    ``reason`` says which of the two; ``batch`` is the file that holds the batch, if it was saved.
    """

    def __init__(self, reason: str, batch: Path | None) -> None:
        super().__init__(reason if batch is None else f"{reason}; batch saved: {batch}")
        self.reason = reason
        self.batch = batch
