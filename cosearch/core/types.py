"""Records of the pipeline. They are frozen: a later step adds a record and changes none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Question:
    """One row of a data set, or a reader's question, whose ``golds`` (answer, aliases) is empty."""

    id: str
    dataset: str
    text: str
    golds: tuple[str, ...]
    supporting: tuple[str, ...] = ()
    """Ids or titles of passages that hold the evidence, where the data set names them."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A retrieval unit: about 100 words of one article."""

    id: str
    title: str
    text: str


Cuts = tuple[tuple[int, int], ...]
"""The place of each passage whose text a prompt cut, from 0, and how many characters it kept."""


def as_read(passages: Sequence[Passage], cuts: Cuts) -> tuple[Passage, ...]:
    """``passages`` as a prompt with these ``cuts`` holds them."""
    kept = dict(cuts)
    return tuple(
        replace(passage, text=passage.text[: kept[place]]) if place in kept else passage
        for place, passage in enumerate(passages)
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member of D_N: a passage, and the retriever's score of it (inner product)."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """Decoding parameters of one call, recorded as used. ``temperature`` 0 means greedy."""

    temperature: float
    top_p: float
    top_k: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Generation:
    """What a policy sampled: ids (the stop token included), their log-probabilities after
    temperature, and whether it stopped by itself. ``weights`` is how many updates its weights had.
    Raises ValueError unless ids and log-probabilities have one length."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stopped: bool
    sampling: Sampling
    weights: int

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.logprobs):
            raise ValueError(f"{len(self.ids)} sampled ids, {len(self.logprobs)} log-probabilities")


class SpanKind(StrEnum):
    """What a stretch of a trajectory's tokens is."""

    PROMPT = "prompt"
    REASON = "reason"
    QUERY = "query"
    ANSWER = "answer"
    TAG = "tag"
    OBSERVATION = "observation"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens ``start:end`` of a trajectory are of one kind and belong to turn ``turn``."""

    kind: SpanKind
    turn: int
    start: int
    end: int


class Terminal(StrEnum):
    """Why a trajectory ended. A fault of the infrastructure ends the round and is none of these."""

    ANSWERED = "answered"
    MALFORMED = "malformed"
    SEARCH_BUDGET = "search_budget"
    TOKEN_BUDGET = "token_budget"


@dataclass(frozen=True, slots=True)
class RankerOutput:
    """One generation of the ranker policy. ``fault`` is None iff it was well formed (f = 1).

    A ranker that writes has a prompt. One that scores has ``inputs``, a pair of the query with
    each candidate, and its generation's ids are the positions it picked.
    """

    prompt_ids: tuple[int, ...]
    generation: Generation
    text: str
    fault: str | None
    dropped_candidates: int
    inputs: tuple[tuple[int, ...], ...] = ()
    cuts: Cuts = ()
    """Places are positions in D_N."""

    def read(self, candidates: Sequence[Candidate]) -> tuple[Passage, ...]:
        """The passages of D_N as the ranker read them, without those that were dropped."""
        held = [one.passage for one in candidates[: len(candidates) - self.dropped_candidates]]
        return as_read(held, self.cuts)


@dataclass(frozen=True, slots=True)
class Note:
    """What an auxiliary model wrote for the agent to read in place of D_K. A fixed note has empty
    ``prompt_ids`` and no ``generation``. ``dropped_documents`` and ``cuts`` are those of the prompt
    of that model; places are those of D_K in the order shown."""

    prompt_ids: tuple[int, ...]
    generation: Generation | None
    text: str
    dropped_documents: int = 0
    cuts: Cuts = ()


@dataclass(frozen=True, slots=True)
class SearchCall:
    """One search of one trajectory: D_N, and the positions in it of D_K in the order shown.

    ``dropped_documents``: how many from the end of D_K did not fit; a note counts as one document.
    Places of ``cuts`` are those of D_K in the order shown.
    """

    turn: int
    query: str
    candidates: tuple[Candidate, ...]
    ranking: tuple[int, ...]
    output: RankerOutput | None
    dropped_documents: int = 0
    note: Note | None = None
    cuts: Cuts = ()

    def shown(self) -> tuple[Passage, ...]:
        """What the agent read: D_K without the documents that were dropped, with the texts as they
        were cut; or the note in its place, as a passage without title."""
        if self.note is not None:
            return () if self.dropped_documents else (Passage("", "", self.note.text),)
        held = self.ranking[: len(self.ranking) - self.dropped_documents]
        return as_read([self.candidates[position].passage for position in held], self.cuts)

    @property
    def well_formed(self) -> bool:
        """The ranker's format flag f. It is true for a ranker that does not generate."""
        return self.output is None or self.output.fault is None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout. ``ids``, ``loss_mask`` and ``logprobs`` have equal length; the mask is 1 exactly
    on tokens that the policy sampled. ``notices`` counts malformed turns that a notice answered.
    Raises ValueError unless the three columns have one length."""

    question: Question
    sample: int
    ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[Span, ...]
    turns: tuple[str, ...]
    calls: tuple[SearchCall, ...]
    answer: str | None
    terminal: Terminal
    fault: str | None
    sampling: Sampling
    weights: int
    notices: int

    def __post_init__(self) -> None:
        lengths = {len(self.ids), len(self.loss_mask), len(self.logprobs)}
        if len(lengths) != 1:
            raise ValueError(f"ids, loss_mask and logprobs of {self.question.id} differ: {lengths}")

    @property
    def well_formed(self) -> bool:
        """The agent's format flag f: True if the trajectory ended with an answer. Then every turn
        was well formed, except those that a notice answered."""
        return self.terminal is Terminal.ANSWERED


@dataclass(frozen=True, slots=True)
class Sample:
    """What a trainer learns from. It has no reference to an agent, a ranker or a reward.

    ``ids`` is prompt plus completion; ``loss_mask``, ``old_logprobs`` and ``advantages`` align with
    it token by token (one advantage per action). For a policy that scores, ``ids`` are the
    positions it picked from ``inputs``, which holds the token ids of every candidate's pair.
    ``group`` names the samples whose rewards were compared; it is empty for a sample without one.
    Raises ValueError unless the four columns have one length.
    """

    ids: Sequence[int]
    loss_mask: Sequence[int]
    old_logprobs: Sequence[float]
    advantages: Sequence[float]
    inputs: tuple[tuple[int, ...], ...] = ()
    group: str = ""

    def __post_init__(self) -> None:
        columns = (self.ids, self.loss_mask, self.old_logprobs, self.advantages)
        lengths = [len(column) for column in columns]
        if len(set(lengths)) != 1:
            raise ValueError(
                f"ids, loss_mask, old_logprobs, advantages of a sample differ in length: {lengths}"
            )
