"""The generated mini-encyclopaedia, a small closed world that replaces Wikipedia.

Each entity has one article of four or five passages, one per section, with the title
``Name (section)``. A passage states one or two facts in one of several wordings, and so mentions
other entities. Every relation has exactly one value per subject, so facts never contradict each
other.
"""

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cosearch.core.seeds import derive
from cosearch.core.types import Passage, Question
from cosearch.data.world_lexicon import YEARS, LexiconSize, draw_names
from cosearch.data.world_questions import SPLITS, Fact, Task, deal_tasks
from cosearch.data.world_relations import KINDS, RELATIONS, SECTIONS

_PAIRED = frozenset({"spouse"})
"""Relations that are true in both directions."""

Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Encyclopaedia:
    """Names by kind, facts by (subject, relation), and passages in shuffled order."""

    names: Mapping[str, tuple[str, ...]]
    facts: Mapping[tuple[str, str], Fact]
    passages: tuple[Passage, ...]

    def triples(self) -> frozenset[Triple]:
        """All facts as (subject, relation, value)."""
        return frozenset((f.subject, f.relation, f.value) for f in self.facts.values())


@dataclass(frozen=True, slots=True)
class World:
    """An encyclopaedia and its question sets. Two splits share no subject."""

    encyclopaedia: Encyclopaedia
    tasks: Mapping[tuple[str, str], tuple[Task, ...]]

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All passages of the corpus."""
        return self.encyclopaedia.passages

    def questions(self, dataset: str, split: str) -> list[Question]:
        """Questions of one set and split (train, dev or test)."""
        return [task.question for task in self.tasks[dataset, split]]


def build_world(
    sets: Mapping[str, Mapping[str, int | str]], seed: int, size: LexiconSize | None = None
) -> World:
    """Generate the world of ``seed``.

    ``sets`` gives the number of rows of each question family per split (``data.sets`` of
    params.yaml). Raises ValueError for an unknown family, or if there are too few facts for a
    split.
    """
    encyclopaedia = draw_encyclopaedia(size or LexiconSize(), derive("world", seed))
    counts = {name: {s: int(row[s]) for s in SPLITS} for name, row in sets.items()}
    tasks = deal_tasks(
        encyclopaedia.names, encyclopaedia.facts, counts, derive("world", seed, "questions")
    )
    return World(encyclopaedia, tasks)


def draw_encyclopaedia(
    size: LexiconSize, seed: int, *, avoid: AbstractSet[Triple] = frozenset()
) -> Encyclopaedia:
    """Draw random facts over the fixed lexicon, and write their passages. Draws none of
    ``avoid``."""
    rng = random.Random(seed)
    names = draw_names(size)
    values = {
        relation.name: _draw_values(rng, relation.name, names, avoid)
        for relation in RELATIONS.values()
    }
    passages, home = _write_passages(rng, names, values)
    facts = {
        (subject, relation): Fact(subject, relation, value, home[subject, relation])
        for relation, by_subject in values.items()
        for subject, value in by_subject.items()
    }
    return Encyclopaedia(names, facts, passages)


def _draw_values(
    rng: random.Random, name: str, names: Mapping[str, Sequence[str]], avoid: AbstractSet[Triple]
) -> dict[str, str]:
    """A random value for every subject of a relation. It is never the subject itself."""
    relation = RELATIONS[name]
    subjects = names[relation.subject]
    if name in _PAIRED:
        return _draw_pairs(rng, name, subjects, avoid)
    pool = {**YEARS, **names}[relation.object]
    drawn: dict[str, str] = {}
    for subject in subjects:
        value = rng.choice(pool)
        while value == subject or (subject, name, value) in avoid:
            value = rng.choice(pool)
        drawn[subject] = value
    return drawn


def _draw_pairs(
    rng: random.Random, name: str, subjects: Sequence[str], avoid: AbstractSet[Triple]
) -> dict[str, str]:
    """A random matching of ``subjects`` without a pair in ``avoid``. An odd subject is left out."""
    while True:
        order = list(subjects)
        rng.shuffle(order)
        pairs = list(zip(order[::2], order[1::2], strict=False))
        if not any((left, name, right) in avoid for left, right in pairs):
            break
    both = {left: right for left, right in pairs} | {right: left for left, right in pairs}
    return {subject: both[subject] for subject in subjects if subject in both}


def _write_passages(
    rng: random.Random,
    names: Mapping[str, Sequence[str]],
    values: Mapping[str, Mapping[str, str]],
) -> tuple[tuple[Passage, ...], dict[tuple[str, str], str]]:
    """The corpus in shuffled order, and the id of the passage for each (subject, relation)."""
    articles = [
        (entity, section)
        for kind in KINDS
        for entity in names[kind]
        for section in SECTIONS
        if section.kind == kind and all(entity in values[r] for r in section.relations)
    ]
    rng.shuffle(articles)
    passages: list[Passage] = []
    home: dict[tuple[str, str], str] = {}
    for number, (entity, section) in enumerate(articles):
        told = {relation: values[relation][entity] for relation in section.relations}
        text = rng.choice(section.wordings).format(x=entity, **told)
        passages.append(Passage(f"w{number:05d}", f"{entity} ({section.title})", text))
        home |= {(entity, relation): passages[-1].id for relation in section.relations}
    return tuple(passages), home
