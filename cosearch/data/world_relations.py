"""The relations of the mini-encyclopaedia, the sections that state them, and all wordings."""

from collections.abc import Mapping
from dataclasses import dataclass

PERSON, FILM, ORGANISATION, PLACE = "person", "film", "organisation", "place"
KINDS = (PERSON, FILM, ORGANISATION, PLACE)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation with one value per subject, named by a noun.

    In the wordings ``{x}`` is the subject, which is a name or a noun phrase.
    """

    name: str
    subject: str
    object: str
    """A kind of entity, or the name of a range of years."""
    keyword: str
    asks: tuple[str, ...]
    hints: tuple[str, ...]
    phrases: tuple[str, ...]

    def queries(self, entity: str) -> tuple[str, str, str]:
        """Three sub-queries for this relation of ``entity``, from the clearest to the vaguest."""
        return f"{self.name} of {entity}", f"{entity} {self.keyword}", entity

    def questions(self, entity: str) -> tuple[str, ...]:
        """Whole questions for this relation of ``entity``."""
        return tuple(wording.format(x=entity) for wording in (*self.asks, *self.hints))


@dataclass(frozen=True, slots=True)
class ArticleSection:
    """A section of an article: the relations that it states, and its wordings.

    The names of the relations are the fields of the wordings.
    """

    kind: str
    title: str
    relations: tuple[str, ...]
    wordings: tuple[str, ...]


def _relation(
    name: str, subject: str, object_: str, keyword: str, asks: str, hints: str, phrases: str
) -> Relation:
    """A row of the table below. ``/`` separates alternatives, which have no question mark yet."""

    def questions(alternatives: str) -> tuple[str, ...]:
        return tuple(f"{part.strip()} ?" for part in alternatives.split("/"))

    nouns = (f"the {name} of {{x}}", *(part.strip() for part in phrases.split("/")))
    return Relation(name, subject, object_, keyword, questions(asks), questions(hints), nouns)


RELATIONS: Mapping[str, Relation] = {
    relation.name: relation
    for relation in (
        _relation(
            "birthplace", PERSON, PLACE, "born",
            "where was {x} born / which town was {x} born in",
            "in which town did the life of {x} begin / which town saw {x} as a child",
            "the town where {x} was born",
        ),
        _relation(
            "birthyear", PERSON, "birth years", "born",
            "when was {x} born / in which year was {x} born",
            "in which year did the life of {x} begin / which year gave us {x}",
            "the year when {x} was born",
        ),
        _relation(
            "deathplace", PERSON, PLACE, "died",
            "where did {x} die / which town did {x} die in",
            "in which town did the life of {x} end / which town buried {x}",
            "the town where {x} died",
        ),
        _relation(
            "teacher", PERSON, PERSON, "taught",
            "who taught {x} / who was a teacher to {x}",
            "whose lessons did {x} follow / {x} was a pupil of which person",
            "the person who taught {x}",
        ),
        _relation(
            "spouse", PERSON, PERSON, "married",
            "who married {x} / who was {x} married to",
            "who shared a home with {x} / {x} made a wedding with which person",
            "the person who married {x}",
        ),
        _relation(
            "employer", PERSON, ORGANISATION, "worked",
            "who did {x} work for / which company did {x} work for",
            "which company paid {x} / {x} had a desk at which company",
            "the company that paid {x}",
        ),
        _relation(
            "director", FILM, PERSON, "directed",
            "who directed {x} / who was the maker behind {x}",
            "whose direction made {x} / {x} is the work of which person",
            "the person who directed {x}",
        ),
        _relation(
            "composer", FILM, PERSON, "composed",
            "who composed {x} / who wrote music for {x}",
            "whose music plays in {x} / {x} has tunes by which person",
            "the person who composed {x}",
        ),
        _relation(
            "star", FILM, PERSON, "acted",
            "who acted in {x} / who played in {x}",
            "whose face is seen in {x} / {x} made which person famous",
            "the person who acted in {x}",
        ),
        _relation(
            "location", FILM, PLACE, "filmed",
            "where was {x} filmed / which town was {x} filmed in",
            "in which town stood the camera of {x} / {x} shows the streets of which town",
            "the town where {x} was filmed",
        ),
        _relation(
            "release", FILM, "film years", "filmed",
            "when was {x} filmed / in which year was {x} filmed",
            "in which year ran the camera of {x} / {x} came in which year",
            "the year when {x} was filmed",
        ),
        _relation(
            "studio", FILM, ORGANISATION, "produced",
            "who produced {x} / which company produced {x}",
            "whose money made {x} / {x} was paid by which company",
            "the company that produced {x}",
        ),
        _relation(
            "founder", ORGANISATION, PERSON, "founded",
            "who founded {x} / who started {x}",
            "whose idea was {x} / {x} began with which person",
            "the person who founded {x}",
        ),
        _relation(
            "founding", ORGANISATION, "founding years", "founded",
            "when was {x} founded / in which year was {x} founded",
            "in which year was {x} an idea / {x} began in which year",
            "the year when {x} was founded",
        ),
        _relation(
            "leader", ORGANISATION, PERSON, "led",
            "who led {x} / who was in charge of {x}",
            "whose orders rule {x} / {x} obeys which person",
            "the person who led {x}",
        ),
        _relation(
            "seat", ORGANISATION, PLACE, "based",
            "where is {x} based / which town is {x} based in",
            "in which town has {x} a roof / {x} has a door in which town",
            "the town where {x} is based",
        ),
        _relation(
            "patron", ORGANISATION, PERSON, "protected",
            "who protected {x} / who gave shelter to {x}",
            "whose name guards {x} / {x} gives thanks to which person",
            "the person who protected {x}",
        ),
        _relation(
            "mayor", PLACE, PERSON, "governed",
            "who governed {x} / who was elected in {x}",
            "whose laws rule {x} / {x} gave votes to which person",
            "the person who governed {x}",
        ),
        _relation(
            "architect", PLACE, PERSON, "built",
            "who built {x} / who planned {x}",
            "whose plans shaped {x} / {x} was drawn by which person",
            "the person who built {x}",
        ),
        _relation(
            "industry", PLACE, ORGANISATION, "lives",
            "which company does {x} live from / which company feeds {x}",
            "whose chimneys stand in {x} / {x} smells of which company",
            "the company that feeds {x}",
        ),
        _relation(
            "premiere", PLACE, FILM, "showed",
            "which film did {x} show first / which film opened in {x}",
            "whose first night was in {x} / {x} first clapped for which film",
            "the film that opened in {x}",
        ),
    )
}  # fmt: skip

SECTIONS: tuple[ArticleSection, ...] = (
    ArticleSection(PERSON, "childhood", ("birthplace", "birthyear"), (
        "{x} was born in {birthplace} in {birthyear} .",
        "in {birthyear} the child {x} was born at {birthplace} .",
    )),
    ArticleSection(PERSON, "death", ("deathplace",), (
        "{x} died in {deathplace} at last .",
        "the town {deathplace} buried {x} .",
    )),
    ArticleSection(PERSON, "education", ("teacher",), (
        "{x} was taught by {teacher} .",
        "the young {x} took lessons from {teacher} .",
    )),
    ArticleSection(PERSON, "family", ("spouse",), (
        "{x} married {spouse} .",
        "the wedding of {x} and {spouse} was loud .",
    )),
    ArticleSection(PERSON, "career", ("employer",), (
        "{x} worked for {employer} .",
        "the company {employer} paid {x} for long .",
    )),
    ArticleSection(FILM, "direction", ("director",), (
        "{x} was directed by {director} .",
        "the film {x} is a work of {director} .",
    )),
    ArticleSection(FILM, "music", ("composer",), (
        "{x} has music by {composer} .",
        "the tunes of {x} were composed by {composer} .",
    )),
    ArticleSection(FILM, "cast", ("star",), (
        "{x} made {star} famous .",
        "the face of {star} is seen in {x} .",
    )),
    ArticleSection(FILM, "production", ("location", "release"), (
        "{x} was filmed in {location} in {release} .",
        "in {release} the streets of {location} were filmed for {x} .",
    )),
    ArticleSection(FILM, "money", ("studio",), (
        "{x} was produced by {studio} .",
        "the company {studio} paid for {x} .",
    )),
    ArticleSection(ORGANISATION, "history", ("founder", "founding"), (
        "{x} was founded by {founder} in {founding} .",
        "in {founding} the company {x} was started by {founder} .",
    )),
    ArticleSection(ORGANISATION, "management", ("leader",), (
        "{x} is led by {leader} .",
        "the orders at {x} come from {leader} .",
    )),
    ArticleSection(ORGANISATION, "offices", ("seat",), (
        "{x} is based in {seat} .",
        "the town {seat} is home to {x} .",
    )),
    ArticleSection(ORGANISATION, "thanks", ("patron",), (
        "{x} is protected by {patron} .",
        "the shelter of {x} was given by {patron} .",
    )),
    ArticleSection(PLACE, "politics", ("mayor",), (
        "{x} is governed by {mayor} .",
        "the votes in {x} elected {mayor} .",
    )),
    ArticleSection(PLACE, "buildings", ("architect",), (
        "{x} was built by {architect} .",
        "the plans of {x} were drawn by {architect} .",
    )),
    ArticleSection(PLACE, "economy", ("industry",), (
        "{x} lives from {industry} .",
        "the chimneys in {x} are those of {industry} .",
    )),
    ArticleSection(PLACE, "festival", ("premiere",), (
        "{x} first showed {premiere} .",
        "the film {premiere} opened in {x} .",
    )),
)  # fmt: skip

SECTION_OF: Mapping[str, ArticleSection] = {
    relation: section for section in SECTIONS for relation in section.relations
}
