"""Names of the generated mini-encyclopaedia and its closed vocabulary.

The lexicon depends on its sizes alone, not on the seed of a world. So all worlds use the same
words, and a model that was trained on one world can read the others.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain

from cosearch.core.seeds import derive
from cosearch.data.world_relations import (
    FILM,
    ORGANISATION,
    PERSON,
    PLACE,
    RELATIONS,
    SECTIONS,
)


@dataclass(frozen=True, slots=True)
class LexiconSize:
    """Number of names of each kind. 260 + 180 + 100 + 90 names make 2,960 passages."""

    people: int = 260
    films: int = 180
    organisations: int = 100
    places: int = 90


YEARS: Mapping[str, tuple[str, ...]] = {
    # The ranges follow one another, so that no child founds a company.
    "birth years": tuple(str(year) for year in range(1880, 1900)),
    "founding years": tuple(str(year) for year in range(1920, 1940)),
    "film years": tuple(str(year) for year in range(1940, 1960)),
}

_STARTS = "ma vi jo el ka to re sa lu da ven tor bran hol mar kest dun wes gal fen ros sul"
_MIDDLES = "ri lo na ve si do ta mu ke"
_PERSON_ENDS = "ck nd mer ster ley witz sen ro"
_PLACE_ENDS = "burg stad ville ford polis dale port"
_FILM_STARTS = "Silent Golden Broken Distant Hidden Burning Frozen Last Second Crimson"
_FILM_ENDS = "Harbor Storm Song Dream Tide Winter Garden Mirror Letter River Bridge Night"
_PLAIN_FILM_ENDS = 10
"""Weight of each of these ends in the draw. Each person and place has weight 1."""
_ORGANISATION_ENDS = "Works Mills Union Trade"
_GLUE = "do have the same name what is of yes no unknown Captain company town"
"""Words of question templates, answers and aliases that are in no wording of a relation."""


def draw_names(size: LexiconSize) -> dict[str, tuple[str, ...]]:
    """Names by kind, sorted.

    A person or a place has one word. A film may end in the name of a person or a place, and an
    organisation starts with the name of a person. So names may share words, as in a real corpus.
    """
    rng = random.Random(derive("world", "lexicon"))
    people = _distinct(size.people, lambda: _word(rng, _PERSON_ENDS))
    places = _distinct(size.places, lambda: _word(rng, _PLACE_ENDS))
    ends = [*_FILM_ENDS.split() * _PLAIN_FILM_ENDS, *people, *places]
    films = _distinct(size.films, lambda: f"{rng.choice(_FILM_STARTS.split())} {rng.choice(ends)}")
    organisations = _distinct(
        size.organisations, lambda: f"{rng.choice(people)} {rng.choice(_ORGANISATION_ENDS.split())}"
    )
    return {PERSON: people, FILM: films, ORGANISATION: organisations, PLACE: places}


def _word(rng: random.Random, ends: str) -> str:
    parts = (_STARTS, _MIDDLES, ends)
    return "".join(rng.choice(part.split()) for part in parts).capitalize()


def _distinct(count: int, draw: Callable[[], str]) -> tuple[str, ...]:
    names: set[str] = set()
    while len(names) < count:
        names.add(draw())
    return tuple(sorted(names))


def closed_vocabulary(size: LexiconSize) -> list[str]:
    """All words that can occur in a passage, a question, a gold or a sub-query, sorted."""
    wordings = [_GLUE, *chain.from_iterable(YEARS.values())]
    for relation in RELATIONS.values():
        wordings += [*relation.asks, *relation.hints, *relation.phrases, *relation.queries("")]
    for section in SECTIONS:
        wordings += [f"({section.title})", *section.wordings]
    for names in draw_names(size).values():
        wordings += names
    words = {word for wording in wordings for word in wording.split()}
    return sorted(word for word in words if not word.startswith("{"))
