"""Measures the abilities of a shipped model on tasks of an encyclopaedia that no training uses.

The model continues contexts from the scripts, and the grammars of the pipeline parse its text. The
contexts of an agent contain earlier turns of the scripted agent. So this measures single turns, and
not rollouts.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from cosearch.core.formats import GRAMMARS, Answer, Malformed, parse_ranking, parse_turn
from cosearch.data.world_relations import RELATIONS
from cosearch.pretrain.documents import read_documents
from cosearch.pretrain.fiction import FictionEpisode, FictionSearch
from cosearch.pretrain.pairs import score_pairs
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceRow, TraceScript, agent_row, choose_search
from cosearch.pretrain.words import WordCodec

Grade = tuple[bool, bool]
"""Whether a text is well formed, and whether it is right."""
Measures = dict[str, dict[str, float]]
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Exercise:
    """A context of one kind. ``judge`` grades its continuation."""

    kind: str
    prompt: tuple[int, ...]
    judge: Callable[[str], Grade]


def measure_writer(
    model: Any, codec: WordCodec, exercises: Sequence[Exercise], *, max_tokens: int, seed: int
) -> Measures:
    """Shares of well-formed and right texts by kind, greedy and sampled at temperature 1."""
    measures: Measures = {exercise.kind: {} for exercise in exercises}
    for name, sample in (("greedy", False), ("sampled", True)):
        torch.manual_seed(seed)
        texts = _write(model, codec, exercises, max_tokens=max_tokens, sample=sample)
        verdicts = [e.judge(text) for e, text in zip(exercises, texts, strict=True)]
        for kind, shares in measures.items():
            own = [v for e, v in zip(exercises, verdicts, strict=True) if e.kind == kind]
            shares[f"well_formed_{name}"] = _share(well for well, _ in own)
            shares[f"right_{name}"] = _share(right for _, right in own)
    return measures


@torch.no_grad()
def _write(
    model: Any, codec: WordCodec, exercises: Sequence[Exercise], *, max_tokens: int, sample: bool
) -> list[str]:
    """A continuation of each prompt, without its end token.

    An unfinished text keeps an end token as a mark, so that the grammars refuse it.
    """
    order = sorted(range(len(exercises)), key=lambda place: len(exercises[place].prompt))
    (end,), pad = codec.eos_ids, model.config.pad_token_id
    texts = [""] * len(exercises)
    for start in range(0, len(order), _BATCH):
        places = order[start : start + _BATCH]
        rows = [torch.tensor(exercises[place].prompt) for place in places]
        ids = torch.nn.utils.rnn.pad_sequence(
            rows, batch_first=True, padding_value=pad, padding_side="left"
        )
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(ids.shape[1]) >= ids.shape[1] - lengths[:, None]).long()
        written = model.generate(
            ids, attention_mask=mask, do_sample=sample, top_k=0, max_new_tokens=max_tokens
        )
        for place, row in zip(places, written[:, ids.shape[1] :].tolist(), strict=True):
            body = row[: row.index(end)] if end in row else [*row, end]
            texts[place] = codec.decode(body)
    return texts


def agent_exercises(
    episodes: Sequence[FictionEpisode], prompts: Prompts, script: TraceScript, rng: random.Random
) -> list[Exercise]:
    """One exercise per turn of scripted trajectories in which every search finds its fact."""
    finding = replace(script, found=1.0)
    return [
        exercise
        for episode in episodes
        for exercise in _turns(episode, agent_row(episode, prompts, finding, rng))
    ]


def _turns(episode: FictionEpisode, row: TraceRow) -> Iterator[Exercise]:
    hops = episode.task.hops
    starts = [
        place for place, weight in enumerate(row.weights) if weight and not row.weights[place - 1]
    ]
    queries = [RELATIONS[hop.relation].queries(hop.subject) for hop in hops]
    wanted = [*queries, episode.task.question.golds]
    for number, (start, texts) in enumerate(zip(starts, wanted, strict=True)):
        last = number == len(hops)
        yield Exercise("answer" if last else "query", row.ids[:start], _turn_judge(texts, last))


def _turn_judge(texts: Sequence[str], last: bool) -> Callable[[str], Grade]:
    def judge(text: str) -> Grade:
        turn = parse_turn(text, GRAMMARS["react"])
        if isinstance(turn, Malformed):
            return False, False
        answered = isinstance(turn, Answer)
        said = turn.text if isinstance(turn, Answer) else turn.query
        return True, answered == last and said in texts

    return judge


def listed_searches(
    episodes: Sequence[FictionEpisode], script: TraceScript, rng: random.Random, *, top_n: int
) -> list[tuple[FictionEpisode, FictionSearch]]:
    """One random search per episode. Keeps those with the gold passage among the ``top_n`` best."""
    drawn = [(e, choose_search(rng.choice(e.searches), script, rng)) for e in episodes]
    return [(e, search) for e, search in drawn if search.gold in search.candidates[:top_n]]


def ranker_exercises(
    listed: Sequence[tuple[FictionEpisode, FictionSearch]],
    prompts: Prompts,
    *,
    top_n: int,
    top_k: int,
) -> list[Exercise]:
    """Exercises to rank the retriever's list. A ranking is right if the gold passage is first."""

    def exercise(episode: FictionEpisode, search: FictionSearch) -> Exercise:
        shown = search.candidates[:top_n]
        gold = shown.index(search.gold)

        def judge(text: str) -> Grade:
            ranking = parse_ranking(text, candidates=len(shown), wanted=top_k)
            if isinstance(ranking, Malformed):
                return False, False
            return True, ranking.positions[0] == gold

        question = episode.task.question.text
        prompt = prompts.candidates(question, search.query, shown, top_k=top_k, start=1)
        return Exercise("ranking", tuple(prompt), judge)

    return [exercise(*pair) for pair in listed]


def simulator_exercises(
    listed: Sequence[tuple[FictionEpisode, FictionSearch]], prompts: Prompts, *, documents: int
) -> list[Exercise]:
    """Exercises to write useful and noisy documents on last hops.

    Useful documents are right if the right section contains the gold answer, and noisy ones if it
    does not.
    """

    def exercise(episode: FictionEpisode, search: FictionSearch, useful: bool) -> Exercise:
        question, gold = episode.task.question, search.fact.value

        def judge(text: str) -> Grade:
            read = read_documents(text, count=documents)
            if read is None:
                return False, False
            told = any(t == search.gold.title and f" {gold} " in f" {body} " for t, body in read)
            return True, told == useful

        prompt = prompts.request(question.text, search.query, gold, useful=useful)
        return Exercise("useful" if useful else "noisy", tuple(prompt), judge)

    last = [(e, s) for e, s in listed if s.fact.value == e.task.question.golds[0]]
    return [exercise(*pair, useful) for useful in (True, False) for pair in last]


@torch.no_grad()
def measure_scorer(
    model: Any,
    listed: Sequence[tuple[FictionEpisode, FictionSearch]],
    prompts: Prompts,
    *,
    top_n: int,
) -> Measures:
    """Share of lists whose best-scored passage is the gold one."""
    hits = []
    for episode, search in listed:
        shown = search.candidates[:top_n]
        question = episode.task.question.text
        pairs = [prompts.pair(question, search.query, passage) for passage in shown]
        hits.append(shown[int(score_pairs(model, pairs).argmax())] is search.gold)
    return {"ranking": {"right": _share(hits)}}


def measure_lists(
    episodes: Sequence[FictionEpisode], listed: Sequence[tuple[FictionEpisode, FictionSearch]]
) -> Measures:
    """Share of searches that find the gold passage, and of these the share with it in first
    place."""
    first = _share(search.candidates[0] is search.gold for _, search in listed)
    return {"ranking": {"found": round(len(listed) / len(episodes), 4), "right": first}}


def _share(verdicts: Iterable[bool]) -> float:
    values = list(verdicts)
    return round(sum(values) / len(values), 4)
