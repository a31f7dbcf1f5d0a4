"""What the core asks of engines: requests that trajectories await, and the text codec."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cosearch.core.types import Candidate, Generation, Sampling


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt. Untrusted text (questions, passages, queries) is data: whatever tags or
    chat markers it contains are encoded as ordinary characters."""

    text: str
    trusted: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, made of segments."""

    role: str
    segments: tuple[Segment, ...]


class Codec(Protocol):
    """Text <-> token ids for one policy, around its tokenizer and chat template."""

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


Request = Generate | Retrieve

Engine = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers a batch of requests of its own type, in order. Raises on infrastructure faults."""
