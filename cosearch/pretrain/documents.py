"""Training rows of the document simulator, written by a scripted search engine.

Useful documents contain the fact that the sub-query asks for. For the last hop this is the gold
answer in the prompt. Noisy documents contain other facts, or a wrong value. All facts are those of
fictional encyclopaedias, and no wrong value is true in the world on which models are evaluated.
"""

import random
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cosearch.core.types import Passage
from cosearch.data.world import Triple
from cosearch.data.world_lexicon import YEARS
from cosearch.data.world_questions import Fact
from cosearch.data.world_relations import RELATIONS, SECTION_OF
from cosearch.pretrain.fiction import FictionEpisode, FictionSearch
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceRow, TraceScript, Weighted, choose_wording, plain
from cosearch.pretrain.words import END, ranked_id

_NUMBER = re.compile(r"\[([0-9]+)\]")


@dataclass(frozen=True, slots=True)
class Simulation:
    """Constants of the scripted search engine."""

    documents: int = 3
    """Documents per request."""
    useful: float = 0.5
    """Share of requests for useful documents."""
    wrong_value: float = 0.5
    """Share of noisy answers with the right section but a wrong value."""


@dataclass(frozen=True, slots=True)
class Falsehoods:
    """Draws wrong values from ``names`` by kind. It never draws a fact in ``avoid``."""

    names: Mapping[str, Sequence[str]]
    avoid: AbstractSet[Triple]

    def passage(self, fact: Fact, rng: random.Random) -> Passage:
        """The section that contains ``fact``, with new random values for all its relations."""
        section = SECTION_OF[fact.relation]
        told = {relation: self._value(fact, relation, rng) for relation in section.relations}
        text = rng.choice(section.wordings).format(x=fact.subject, **told)
        return Passage("", f"{fact.subject} ({section.title})", text)

    def _value(self, fact: Fact, relation: str, rng: random.Random) -> str:
        pool = {**YEARS, **self.names}[RELATIONS[relation].object]
        refused = (fact.subject, fact.value)
        value = rng.choice(pool)
        while value in refused or (fact.subject, relation, value) in self.avoid:
            value = rng.choice(pool)
        return value


def simulator_row(
    episode: FictionEpisode,
    prompts: Prompts,
    script: TraceScript,
    simulation: Simulation,
    falsehoods: Falsehoods,
    rng: random.Random,
) -> TraceRow:
    """A request for documents on one hop of ``episode``, and these documents."""
    search = choose_wording(episode, rng.choice(episode.searches), script, rng)
    useful = rng.random() < simulation.useful
    gold = episode.task.question.golds[0]
    prompt = prompts.request(episode.task.question.text, search.query, gold, useful=useful)
    shown = (
        _useful(search, simulation, rng) if useful else _noisy(search, simulation, falsehoods, rng)
    )
    told = gold if useful and search.fact.value == gold else ""
    target = _written(shown, search.gold if told else None, told, script)
    return TraceRow(
        (*prompt, *prompts.codec.tokens(*(word for word, _ in target))),
        (*(0.0 for _ in prompt), *(weight for _, weight in target)),
    )


def _useful(search: FictionSearch, simulation: Simulation, rng: random.Random) -> list[Passage]:
    """The passage asked for, at a random place among others of the retriever's list."""
    shown = _others(search, simulation.documents - 1, rng)
    shown.insert(rng.randrange(simulation.documents), search.gold)
    return shown


def _noisy(
    search: FictionSearch, simulation: Simulation, falsehoods: Falsehoods, rng: random.Random
) -> list[Passage]:
    """Other passages. At times one is replaced by a passage with a wrong value."""
    shown = _others(search, simulation.documents, rng)
    if rng.random() < simulation.wrong_value:
        shown[rng.randrange(simulation.documents)] = falsehoods.passage(search.fact, rng)
    return shown


def _others(search: FictionSearch, count: int, rng: random.Random) -> list[Passage]:
    """``count`` random candidates without the value asked for."""
    value = f" {search.fact.value} "
    others = [p for p in search.candidates if p is not search.gold and value not in f" {p.text} "]
    return rng.sample(others, count)


def _written(
    shown: Sequence[Passage], gold: Passage | None, told: str, script: TraceScript
) -> Weighted:
    """Tokens of the simulator's output. The gold answer, which it copies, has a larger weight."""
    tokens: Weighted = []
    for number, passage in enumerate(shown, start=1):
        words = plain(f"{ranked_id(number)} {passage.title} : {passage.text}")
        if passage is gold:
            copied = set(told.split())
            words = [(w, script.value_weight if w in copied else weight) for w, weight in words]
        tokens += words
    return [*tokens, (END, 1.0)]


def read_documents(text: str, *, count: int) -> list[tuple[str, str]] | None:
    """Titles and texts of exactly ``count`` numbered documents, or None if the form is broken.

    The form is ``[1] TITLE : TEXT [2] ...``. A title ends with its section in brackets, and a text
    with a full stop.
    """
    before, *parts = _NUMBER.split(text)
    numbers, documents = parts[::2], [part.partition(" : ") for part in parts[1::2]]
    if before.strip() or numbers != [str(number) for number in range(1, count + 1)]:
        return None
    read = [(title.strip(), body.strip()) for title, _, body in documents]
    whole = all(title.endswith(")") and body.endswith(".") for title, body in read)
    return read if whole else None
