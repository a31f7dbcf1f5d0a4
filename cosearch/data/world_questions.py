"""Question families of the mini-encyclopaedia. They replace the seven data sets of the paper.

nq, triviaqa and popqa ask for one fact (in natural words, indirectly, and by a fixed template).
hotpotqa, 2wikimultihopqa, musique and bamboogle need two or three facts, or compare two subjects.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from cosearch.core.seeds import derive
from cosearch.core.types import Question
from cosearch.data.world_relations import KINDS, ORGANISATION, PERSON, PLACE, RELATIONS

SPLITS = ("train", "dev", "test")
_ALIASES = {PERSON: "Captain {x}", ORGANISATION: "{x} company", PLACE: "{x} town"}


@dataclass(frozen=True, slots=True)
class Fact:
    """The ``relation`` of ``subject`` is ``value``. ``passage`` is the id of the passage with
    it."""

    subject: str
    relation: str
    value: str
    passage: str


@dataclass(frozen=True, slots=True)
class Task:
    """A question and its hops in order, from which a scripted teacher can answer it.

    In a comparison the question contains the subjects of both hops. Otherwise the value of a hop is
    the subject of the next one.
    """

    question: Question
    hops: tuple[Fact, ...]

    @property
    def comparison(self) -> bool:
        """True if the answer is yes or no instead of the value of the last hop."""
        return self.question.golds[0] in ("yes", "no")


Facts = Mapping[tuple[str, str], Fact]
Hops = tuple[Fact, ...]
Wording = Callable[[random.Random, Hops], str]


def _noun_phrase(hops: Sequence[Fact], phrase: Callable[[tuple[str, ...]], str]) -> str:
    """The value of the last of ``hops`` in words: "the spouse of the director of X"."""
    text = ""
    for hop in hops:
        text = phrase(RELATIONS[hop.relation].phrases).format(x=text or hop.subject)
    return text


def _ask(rng: random.Random, hops: Hops) -> str:
    """A natural question about a noun phrase: "where was the director of X born ?"."""
    subject = _noun_phrase(hops[:-1], lambda phrases: phrases[0]) or hops[0].subject
    return rng.choice(RELATIONS[hops[-1].relation].asks).format(x=subject)


def _ask_by_clause(rng: random.Random, hops: Hops) -> str:
    """A natural question about a clause: "where was the person who directed X born ?"."""
    subject = _noun_phrase(hops[:-1], lambda phrases: phrases[-1]) or hops[0].subject
    return rng.choice(RELATIONS[hops[-1].relation].asks).format(x=subject)


def _hint(rng: random.Random, hops: Hops) -> str:
    """An indirect question: "which town saw X as a child ?"."""
    return rng.choice(RELATIONS[hops[-1].relation].hints).format(x=hops[0].subject)


def _flat(rng: random.Random, hops: Hops) -> str:
    """The template of a knowledge graph: "what is the birthplace of the director of X ?"."""
    return f"what is {_noun_phrase(hops, lambda phrases: phrases[0])} ?"


def _composed(rng: random.Random, hops: Hops) -> str:
    """Nested phrases in mixed wordings: "name the birthplace of the person who directed X ?"."""
    return f"name {_noun_phrase(hops, rng.choice)} ?"


@dataclass(frozen=True, slots=True)
class Family:
    """How a question set draws its hops and formulates its questions."""

    wording: Wording
    lengths: tuple[int, ...]
    """Numbers of hops, which the rows use in turn."""
    bridges: frozenset[str] = frozenset()
    """Kinds of entity that may connect two hops."""
    compare_every: int = 0
    """One of so many rows compares two subjects. 0 means that none does."""
    aliases: bool = False


_MAKERS = frozenset({PERSON, ORGANISATION})
FAMILIES: Mapping[str, Family] = {
    "nq": Family(_ask, (1,)),
    "triviaqa": Family(_hint, (1,), aliases=True),
    "popqa": Family(_flat, (1,)),
    "hotpotqa": Family(_ask_by_clause, (2,), _MAKERS),
    "2wikimultihopqa": Family(_flat, (2,), _MAKERS, compare_every=3),
    "musique": Family(_composed, (2, 3), _MAKERS),
    # In no other family a place connects two hops, so these pairs of relations are new.
    "bamboogle": Family(_ask, (2,), frozenset({PLACE})),
}
_COMPARED = (
    "birthplace",
    "birthyear",
    "employer",
    "location",
    "release",
    "studio",
    "seat",
    "founding",
)


def deal_tasks(
    names: Mapping[str, Sequence[str]],
    facts: Facts,
    counts: Mapping[str, Mapping[str, int]],
    seed: int,
) -> dict[tuple[str, str], tuple[Task, ...]]:
    """Draw tasks by (family, split).

    Splits share no subject, and within a split no chain occurs twice. ``counts`` gives the rows per
    family and split. Raises ValueError if a family is unknown or there are too few facts.
    """
    if unknown := sorted(set(counts) - set(FAMILIES)):
        raise ValueError(f"no question family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    subjects = _split_subjects(names, counts, derive(seed, "subjects"))
    dealt: dict[tuple[str, str], tuple[Task, ...]] = {}
    for split in SPLITS:
        asked: set[str] = set()
        for name, rows in counts.items():
            rng = random.Random(derive(seed, split, name))
            dealer = _Dealer(name, split, facts, subjects[split], rng, asked)
            dealt[name, split] = dealer.deal(rows.get(split, 0))
    return dealt


def _split_subjects(
    names: Mapping[str, Sequence[str]], counts: Mapping[str, Mapping[str, int]], seed: int
) -> dict[str, list[str]]:
    """Entities of each split. Each kind is split in proportion to the number of rows."""
    rng = random.Random(seed)
    rows = [sum(row.get(split, 0) for row in counts.values()) for split in SPLITS]
    subjects: dict[str, list[str]] = {split: [] for split in SPLITS}
    for kind in KINDS:
        order = list(names[kind])
        rng.shuffle(order)
        start = 0
        for position, split in enumerate(SPLITS):
            end = round(len(order) * sum(rows[: position + 1]) / max(1, sum(rows)))
            subjects[split] += sorted(order[start:end])
            start = end
    return subjects


@dataclass(frozen=True, slots=True)
class _Dealer:
    """Draws the tasks of one family and split. All families of the split share ``asked``."""

    name: str
    split: str
    facts: Facts
    subjects: Sequence[str]
    rng: random.Random
    asked: set[str]

    def deal(self, count: int) -> tuple[Task, ...]:
        family = FAMILIES[self.name]
        chains = {length: self._chains(length) for length in family.lengths}
        comparisons = self._comparisons() if family.compare_every else iter(())
        tasks: list[Task] = []
        for row in range(count):
            compare = family.compare_every and row % family.compare_every == 0
            source = comparisons if compare else chains[family.lengths[row % len(family.lengths)]]
            hops = next(source, None)
            if hops is None:
                raise ValueError(
                    f"the world has facts for {row} of {count} {self.split} rows of {self.name}"
                )
            self.asked.add(_key(hops))
            word = self._comparison if compare else self._chain
            tasks.append(Task(self._question(row, *word(hops), hops), hops))
        return tuple(tasks)

    def _chain(self, hops: Hops) -> tuple[str, tuple[str, ...]]:
        """Text and golds of a question whose answer is the value of the last hop."""
        family = FAMILIES[self.name]
        return family.wording(self.rng, hops), _golds(hops[-1], aliases=family.aliases)

    def _comparison(self, hops: Hops) -> tuple[str, tuple[str, ...]]:
        """Text and golds of a yes/no question about two facts of one relation."""
        left, right = hops
        text = f"do {left.subject} and {right.subject} have the same {left.relation} ?"
        return text, ("yes" if left.value == right.value else "no",)

    def _question(self, row: int, text: str, golds: tuple[str, ...], hops: Hops) -> Question:
        supporting = tuple(hop.passage for hop in hops)
        return Question(f"{self.name}-{self.split}-{row:04d}", self.name, text, golds, supporting)

    def _chains(self, length: int) -> Iterator[Hops]:
        """Shuffled chains of ``length`` hops from the subjects of this split. Leaves out asked
        ones."""
        bridges = FAMILIES[self.name].bridges
        chains = list(_extend(self.facts, self.subjects, length, bridges))
        self.rng.shuffle(chains)
        return (hops for hops in chains if _key(hops) not in self.asked)

    def _comparisons(self) -> Iterator[Hops]:
        """Pairs of facts of one relation. Equal and different values alternate."""
        pairs: dict[bool, list[Hops]] = {True: [], False: []}
        for relation in _COMPARED:
            told = [self.facts[s, relation] for s in self.subjects if (s, relation) in self.facts]
            for left, right in combinations(told, 2):
                pairs[left.value == right.value].append((left, right))
        for same in (True, False):
            self.rng.shuffle(pairs[same])
        return chain.from_iterable(zip(pairs[True], pairs[False], strict=False))


def _extend(
    facts: Facts, subjects: Sequence[str], length: int, bridges: frozenset[str]
) -> Iterator[Hops]:
    """All chains of ``length`` facts from ``subjects`` through entities of the kinds ``bridges``.

    The entities of a chain share no word, so that a question never contains its own answer.
    """
    of_subject: dict[str, list[Fact]] = {}
    for fact in facts.values():
        of_subject.setdefault(fact.subject, []).append(fact)
    chains: list[Hops] = [(fact,) for subject in subjects for fact in of_subject[subject]]
    for _ in range(length - 1):
        chains = [
            (*hops, fact)
            for hops in chains
            if RELATIONS[hops[-1].relation].object in bridges
            for fact in of_subject[hops[-1].value]
        ]
    for hops in chains:
        words = " ".join((hops[0].subject, *(hop.value for hop in hops))).split()
        if len(set(words)) == len(words):
            yield hops


def _key(hops: Hops) -> str:
    return " ".join((hops[0].subject, *(hop.relation for hop in hops), hops[-1].subject))


def _golds(fact: Fact, *, aliases: bool) -> tuple[str, ...]:
    """The value and, if the family uses aliases, another form of the name."""
    form = _ALIASES.get(RELATIONS[fact.relation].object)
    return (fact.value, form.format(x=fact.value)) if aliases and form else (fact.value,)
