"""The observation pipeline: what happens between a search and what the agent reads.

A stage takes a search and returns it with something added. The pipeline of CoSearch is
``retrieve -> generative ranker``; that of Retrieval Only ends with the retriever's order; the
oracle (Algorithm 3) ranks by the gold answers and needs no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from cosearch.core.formats import Malformed, Ranking, parse_ranking
from cosearch.core.prompts import Fill, Prompting, fit_documents
from cosearch.core.protocols import Codec, Generate, Retrieve, Segment
from cosearch.core.relevance import RelevanceRule
from cosearch.core.seeds import derive
from cosearch.core.transcript import sampled_body
from cosearch.core.types import (
    Candidate,
    Cuts,
    Generation,
    Note,
    Passage,
    Question,
    RankerOutput,
    Sampling,
    SearchCall,
)


@dataclass(frozen=True, slots=True)
class PendingSearch:
    """A search on its way through the stages: D_N, the ranking so far, the ranker's output, and a
    note that the agent reads in place of D_K. ``calls`` are the earlier searches of the trajectory,
    ``turns`` are the texts of its turns, and the last of them asks for this search."""

    question: Question
    query: str
    turn: int
    seed: int
    candidates: tuple[Candidate, ...] = ()
    ranking: tuple[int, ...] = ()
    output: RankerOutput | None = None
    note: Note | None = None
    calls: tuple[SearchCall, ...] = ()
    turns: tuple[str, ...] = ()

    def passages(self) -> list[Passage]:
        """D_K in the order shown."""
        return [self.candidates[position].passage for position in self.ranking]

    def done(self, dropped_documents: int, cuts: Cuts = ()) -> SearchCall:
        """The record of the finished search; ``cuts`` are those of the agent's observation."""
        return SearchCall(
            self.turn,
            self.query,
            self.candidates,
            self.ranking,
            self.output,
            dropped_documents,
            self.note,
            cuts,
        )


class ObservationStage(Protocol):
    """One step of the observation pipeline."""

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """``search`` with this stage's result added."""


Pipeline = Sequence[ObservationStage]
"""The stages between a query and an observation, in order."""


async def run_stages(search: PendingSearch, stages: Pipeline) -> PendingSearch:
    """``search`` after all ``stages``, in order."""
    for stage in stages:
        search = await stage(search)
    return search


def needs_gold(stages: Pipeline) -> bool:
    """True if a stage reads the gold answers. Such a row is no fair score of a search agent."""
    return any(getattr(stage, "needs_gold", False) for stage in stages)


@dataclass(frozen=True, slots=True)
class RetrieverStage:
    """Brings D_N from the fixed retriever; a passage found twice is kept at its better place."""

    top_n: int
    top_k: int

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Add D_N, ranked as it was retrieved."""
        found = await Retrieve(search.query, self.top_n)
        unique: dict[str, Candidate] = {}
        for candidate in found[: self.top_n]:
            unique.setdefault(candidate.passage.id, candidate)
        candidates = tuple(unique.values())
        ranking = tuple(range(min(self.top_k, len(candidates))))
        return replace(search, candidates=candidates, ranking=ranking)


@dataclass(frozen=True, slots=True)
class OracleStage:
    """Puts all pseudo-relevant candidates first, in the retriever's order, then the rest, and cuts
    to K (Eq. 7, Algorithm 3). It reads the gold answers."""

    needs_gold: ClassVar[bool] = True

    top_k: int
    relevance: RelevanceRule

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Rank by the gold answers."""
        labels = self.relevance.label(search.question, search.candidates)
        order = sorted(range(len(labels)), key=lambda position: not labels[position])
        return replace(search, ranking=tuple(order[: self.top_k]))


@dataclass(frozen=True, slots=True)
class RankerStage:
    """The generative ranker pi_phi(. | q0, q_t, D_N) (Section 3.2).

    After malformed output the agent reads the retriever's own top K (our choice; not in paper).
    """

    top_k: int
    codec: Codec
    sampling: Sampling
    prompting: Prompting
    max_prompt_tokens: int

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Rank with the policy. A search without candidates stays as it is."""
        if not search.candidates:
            return search
        ids, dropped = self.prompt(search.question.text, search.query, search.candidates)
        seed = derive(search.seed, "ranker", search.turn)
        generation = await Generate("ranker", tuple(ids), self.sampling, seed)
        text, parsed = self.read(generation, len(search.candidates) - dropped)
        fault = parsed.reason if isinstance(parsed, Malformed) else None
        ranking = parsed.positions if isinstance(parsed, Ranking) else search.ranking
        cuts = self.prompting.cuts([one.passage for one in search.candidates], dropped)
        output = RankerOutput(tuple(ids), generation, text, fault, dropped, cuts=cuts)
        return replace(search, ranking=ranking, output=output)

    def read(self, generation: Generation, shown: int) -> tuple[str, Ranking | Malformed]:
        """The text of a generation and its ranking. A text cut by the length limit is malformed."""
        written = self.codec.decode(sampled_body(generation, self.codec))
        text = self.prompting.opening("ranker") + written
        if not generation.stopped:
            return text, Malformed("length")
        return text, parse_ranking(text, candidates=shown, wanted=min(self.top_k, shown))

    def prompt(
        self, question: str, query: str, candidates: Sequence[Candidate]
    ) -> tuple[list[int], int]:
        """Prompt ids, and how many candidates were dropped from the end to keep to the budget.

        Raises ValueError when not even one candidate fits, because instructions are never cut.
        """
        documents = self.prompting.documents([c.passage for c in candidates])

        def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
            fills: dict[str, Fill] = {
                "question": question,
                "query": query,
                "candidates": [segment for document in kept for segment in document],
                "n": len(kept),
                "k": min(self.top_k, len(kept)),
            }
            return self.prompting.chat(self.codec, "ranker", fills)

        ids, dropped = fit_documents(render, documents, max_tokens=self.max_prompt_tokens)
        if dropped == len(documents):
            raise ValueError(
                f"ranker.max_prompt_tokens={self.max_prompt_tokens} leaves no room for a candidate"
                f" of query {query!r}: raise it or lower ranker.max_document_chars"
            )
        return ids, dropped
