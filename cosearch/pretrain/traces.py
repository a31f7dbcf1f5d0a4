"""Training rows of the ranker and the agent, written by scripts about fictional facts.

The scripts are imperfect teachers on purpose, so that RL can improve on them. The scripted ranker
at times ranks a wrong document first, and orders the rest at random. The scripted agent gives up or
guesses.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from cosearch.core.types import Passage
from cosearch.data.world_questions import Fact, Task
from cosearch.pretrain.fiction import FictionEpisode, FictionSearch
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.words import (
    ANSWER,
    ANSWER_END,
    CALL,
    CALL_END,
    END,
    REASON,
    REASON_END,
    RERANK,
    RERANK_END,
    WordCodec,
    ranked_id,
)

Weighted = list[tuple[str, float]]
"""Tokens with their loss weights."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """Token ids, and the weight of each in the loss. Prompts and observations have weight 0."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


UNSURE = (
    "birthplace", "birthyear", "employer", "director", "star", "location", "release",
    "founder", "founding", "leader", "seat", "mayor", "architect", "industry",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceScript:
    """Constants of the scripts. Weights of a choice have the order of the tuple they belong to."""

    wordings: tuple[float, float, float] = (0.5, 0.3, 0.2)
    """Shares of the clearest, the middle and the vaguest wording of a sub-query."""
    whole: float = 0.3
    """Share of one-hop rankings that search with the question itself instead of a sub-query."""
    top_k: tuple[int, ...] = (1, 2, 3, 4, 5)
    top_k_weights: tuple[float, ...] = (0.08, 0.08, 0.68, 0.08, 0.08)
    wrong_first: float = 0.1
    """Share of rankings whose first document is a random passage of the article."""
    unsure: tuple[str, ...] = UNSURE
    """Relations whose sections the scripted ranker does not know, so it picks a random passage of
    the article. The curriculum uses them last. The policy must learn them through RL."""
    keep_order: float = 0.6
    """Share of rankings that continue in the retriever's order. The others continue with passages
    of the article. Without a most likely next id a greedy ranker would repeat an id."""
    choice_weight: float = 6.0
    """Loss weight of the number that names the first document."""
    rest_weight: float = 1.0
    """Loss weight of the ids after the first one."""
    value_weight: float = 4.0
    """Loss weight of a value that the agent's reason copies from a document."""
    found: float = 0.7
    """Share of observations that contain the passage asked for."""
    retry: float = 0.5
    guess: float = 0.6
    """Share of abandoned questions with a guess as answer instead of "unknown"."""
    max_searches: int = 4


def choose_search(
    searches: Sequence[FictionSearch], script: TraceScript, rng: random.Random
) -> FictionSearch:
    """A random wording of the sub-query of a hop."""
    return rng.choices(searches, script.wordings)[0]


def choose_wording(
    episode: FictionEpisode,
    searches: Sequence[FictionSearch],
    script: TraceScript,
    rng: random.Random,
) -> FictionSearch:
    """The search with the question itself, at times and where there is one, or one of
    ``searches``."""
    if episode.whole and rng.random() < script.whole:
        return episode.whole
    return choose_search(searches, script, rng)


def ranker_row(
    question: str,
    search: FictionSearch,
    prompts: Prompts,
    script: TraceScript,
    rng: random.Random,
    *,
    top_n: int,
    max_number: int,
) -> TraceRow:
    """A ranking of ``top_n`` candidates.

    The reason copies title and number of the first document. K ids follow, those of the same
    article first. The numbers of the candidates start at a random number and end at ``max_number``
    or below.
    """
    shown = show_candidates(search, top_n, rng)
    start = rng.randint(1, max_number - len(shown) + 1)
    top_k = rng.choices(script.top_k, script.top_k_weights)[0]
    order = order_candidates(shown, search, script, rng)[:top_k]
    prompt = prompts.candidates(question, search.query, shown, top_k=top_k, start=start)
    target = _ranking([shown[o] for o in order], [o + start for o in order], script)
    return TraceRow(
        (*prompt, *prompts.codec.tokens(*(word for word, _ in target))),
        (*(0.0 for _ in prompt), *(weight for _, weight in target)),
    )


def show_candidates(search: FictionSearch, top_n: int, rng: random.Random) -> list[Passage]:
    """The retriever's list in its order, or ``top_n`` random ones of it with the gold passage."""
    if top_n >= len(search.candidates):
        return list(search.candidates)
    others = [passage for passage in search.candidates if passage is not search.gold]
    part = [*rng.sample(others, top_n - 1), search.gold]
    rng.shuffle(part)
    return part


def order_candidates(
    shown: Sequence[Passage], search: FictionSearch, script: TraceScript, rng: random.Random
) -> list[int]:
    """Positions in the order of the scripted ranker.

    The first one is the gold passage or, if the script is unsure or wrong, a random passage of the
    article. The rest follow in the retriever's order, or with the passages of the article first.
    """
    listed = list(range(len(shown)))
    drawn = rng.sample(listed, len(listed))
    drawn.sort(key=lambda position: not _of_article(shown[position], search.fact.subject))
    right = search.fact.relation not in script.unsure and rng.random() >= script.wrong_first
    golds = [position for position in listed if right and shown[position] is search.gold]
    first = golds[0] if golds else drawn[0]
    rest = listed if rng.random() < script.keep_order else drawn
    return [first, *(position for position in rest if position != first)]


def _of_article(passage: Passage, entity: str) -> bool:
    return passage.title.startswith(f"{entity} (")


def _ranking(ranked: Sequence[Passage], numbers: Sequence[int], script: TraceScript) -> Weighted:
    """Tokens of the ranker's output with their loss weights."""
    title = [(word, 1.0) for word in ranked[0].title.split()]
    choice = [(ranked_id(numbers[0]), script.choice_weight)]
    ids = [(ranked_id(numbers[0]), 1.0)]
    for number in numbers[1:]:
        ids += [(">", 1.0), (ranked_id(number), script.rest_weight)]
    opening, middle = [(REASON, 1.0)], [(REASON_END, 1.0), (RERANK, 1.0)]
    return [*opening, *title, *choice, *middle, *ids, (RERANK_END, 1.0), (END, 1.0)]


def agent_row(
    episode: FictionEpisode, prompts: Prompts, script: TraceScript, rng: random.Random
) -> TraceRow:
    """A whole trajectory: the script searches hop by hop, tries again or gives up, and answers."""
    trace = _Trace(prompts.codec, prompts.question(episode.task.question.text))
    known: list[Fact] = []
    note: Weighted = []
    for _ in range(script.max_searches):
        fact = episode.task.hops[len(known)]
        search = choose_search(episode.searches[len(known)], script, rng)
        trace.write(REASON)
        trace.write_weighted(note)
        trace.write(*f"need {fact.subject} {fact.relation}".split(), REASON_END)
        trace.write(CALL, *search.query.split(), CALL_END, END)
        shown = _observed(search, script, rng)
        trace.read(prompts.observation(shown))
        if search.gold not in shown:
            if rng.random() >= script.retry:
                break
            note = plain("not found .")
            continue
        known.append(fact)
        note = [*_statement(fact, script), (".", 1.0)]
        if len(known) == len(episode.task.hops):
            return trace.answer(*_conclusion(episode.task, known, script))
    return trace.answer(plain("not found"), _guess(episode.task, shown, script, rng))


@dataclass(slots=True)
class _Trace:
    """The context of a scripted trajectory while the script writes it."""

    codec: WordCodec
    ids: list[int]
    weights: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = [0.0] * len(self.ids)

    def write(self, *tokens: str) -> None:
        """Append what the agent writes."""
        self.write_weighted([(token, 1.0) for token in tokens])

    def write_weighted(self, tokens: Weighted) -> None:
        """Append what the agent writes, with loss weights."""
        self.ids += self.codec.tokens(*(token for token, _ in tokens))
        self.weights += [weight for _, weight in tokens]

    def read(self, ids: Sequence[int]) -> None:
        """Append what the agent reads."""
        self.ids += ids
        self.weights += [0.0] * len(ids)

    def answer(self, reason: Weighted, answer: str) -> TraceRow:
        """Finish the trajectory with an answer."""
        self.write(REASON)
        self.write_weighted(reason)
        self.write(REASON_END, ANSWER, *answer.split(), ANSWER_END, END)
        return TraceRow(tuple(self.ids), tuple(self.weights))


def _observed(search: FictionSearch, script: TraceScript, rng: random.Random) -> list[Passage]:
    """K random documents. In a share ``script.found`` of cases one is the gold passage."""
    top_k = rng.choices(script.top_k, script.top_k_weights)[0]
    others = [passage for passage in search.candidates if passage is not search.gold]
    shown = rng.sample(others, top_k)
    if rng.random() < script.found:
        shown[rng.randrange(top_k)] = search.gold
    return shown


def plain(text: str) -> Weighted:
    """The words of ``text``, each with weight 1."""
    return [(word, 1.0) for word in text.split()]


def _statement(fact: Fact, script: TraceScript) -> Weighted:
    """The fact in words. The value, which the agent copies from a document, has a larger weight."""
    value = [(word, script.value_weight) for word in fact.value.split()]
    return [*plain(f"{fact.subject} {fact.relation}"), *value]


def _conclusion(task: Task, known: Sequence[Fact], script: TraceScript) -> tuple[Weighted, str]:
    """The last reason and the answer after the agent has found every hop."""
    last = _statement(known[-1], script)
    if not task.comparison:
        return last, known[-1].value
    first = plain(f"{known[0].subject} {known[0].relation} {known[0].value} .")
    return [*first, *last], task.question.golds[0]


def _guess(task: Task, shown: Sequence[Passage], script: TraceScript, rng: random.Random) -> str:
    """A guess: yes or no, or the second to last word of a random document. Or "unknown"."""
    if rng.random() >= script.guess:
        return "unknown"
    if task.comparison:
        return rng.choice(("yes", "no"))
    return rng.choice(shown).text.split()[-2]
