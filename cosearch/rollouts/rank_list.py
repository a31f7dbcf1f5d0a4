"""Single-turn rollouts: a list of candidates is retrieved, and the ranker ranks it (Appendix)."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosearch.core.observe import PendingSearch
from cosearch.core.protocols import Engine, Retrieve
from cosearch.core.relevance import RelevanceRule
from cosearch.core.seeds import derive
from cosearch.core.types import Candidate, Question, Terminal, Trajectory
from cosearch.rollouts.pipelines import ModelRanker


@dataclass(frozen=True, slots=True)
class RankingList:
    """A retrieval query (the question's own text) and its D_N."""

    question: Question
    candidates: tuple[Candidate, ...]


def retrieve_lists(
    questions: Sequence[Question], retriever: Engine, top_n: int
) -> list[RankingList]:
    """D_N of every question, with the question's own text as the query."""
    found = retriever([Retrieve(question.text, top_n) for question in questions])
    return [
        RankingList(question, tuple(candidates))
        for question, candidates in zip(questions, found, strict=True)
    ]


def answerable(lists: Sequence[RankingList], relevance: RelevanceRule) -> list[RankingList]:
    """The lists that have a relevant candidate; the ranker can learn only from these (Appendix)."""
    return [entry for entry in lists if any(relevance.label(entry.question, entry.candidates))]


async def rank_list(entry: RankingList, sample: int, ranker: ModelRanker, seed: int) -> Trajectory:
    """One ranking of ``entry``, as a trajectory with a single call and no text of an agent."""
    search = PendingSearch(
        entry.question,
        entry.question.text,
        0,
        derive(seed, entry.question.dataset, entry.question.id, sample),
        entry.candidates,
        tuple(range(min(ranker.top_k, len(entry.candidates)))),
    )
    call = (await ranker(search)).done(0)
    return Trajectory(
        question=entry.question,
        sample=sample,
        ids=(),
        loss_mask=(),
        logprobs=(),
        spans=(),
        turns=(),
        calls=(call,),
        answer="",
        terminal=Terminal.ANSWERED,
        fault=None,
        sampling=ranker.sampling,
        weights=0,
        notices=0,
    )
