"""The generated world is deterministic and consistent, and its corpus answers its questions."""

from collections import Counter

import pytest

from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Passage
from cosearch.data.world import World, build_world, draw_encyclopaedia
from cosearch.data.world_lexicon import LexiconSize, closed_vocabulary
from cosearch.data.world_questions import FAMILIES, SPLITS
from cosearch.data.world_relations import RELATIONS

SINGLE = ("nq", "triviaqa", "popqa")
SETS = {name: {"train": 60, "dev": 10, "test": 30} for name in FAMILIES}
CONTAINS = RelevanceRule(match="tokens", strip_marks=False, min_gold_chars=0)


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(SETS, seed=7)


def test_a_world_is_a_function_of_its_seed(world: World) -> None:
    assert build_world(SETS, seed=7) == world
    assert build_world(SETS, seed=8).passages != world.passages


def test_sets_have_the_rows_that_were_asked_for(world: World) -> None:
    for name, rows in SETS.items():
        assert [len(world.questions(name, split)) for split in SPLITS] == list(rows.values())


def test_texts_ids_and_titles_are_unique(world: World) -> None:
    questions = [task.question for tasks in world.tasks.values() for task in tasks]
    for values in (
        [question.text for question in questions],
        [question.id for question in questions],
        [passage.id for passage in world.passages],
        [passage.title for passage in world.passages],
    ):
        assert len(set(values)) == len(values)


def test_splits_share_no_subject(world: World) -> None:
    subjects = {
        split: {
            hop.subject
            for name in FAMILIES
            for task in world.tasks[name, split]
            for hop in (task.hops if task.comparison else task.hops[:1])
        }
        for split in SPLITS
    }
    assert not subjects["train"] & subjects["dev"]
    assert not subjects["train"] & subjects["test"]
    assert not subjects["dev"] & subjects["test"]


def test_each_hop_is_told_by_its_supporting_passage(world: World) -> None:
    passages = {passage.id: passage for passage in world.passages}
    for tasks in world.tasks.values():
        for task in tasks:
            for hop, supporting in zip(task.hops, task.question.supporting, strict=True):
                assert passages[supporting].title.startswith(f"{hop.subject} (")
                assert CONTAINS.is_relevant(passages[supporting], (hop.subject,))
                assert CONTAINS.is_relevant(passages[supporting], (hop.value,))


def test_hops_of_a_chain_follow_from_each_other_and_end_in_the_answer(world: World) -> None:
    for tasks in world.tasks.values():
        for task in tasks:
            if task.comparison:
                left, right = task.hops
                assert left.relation == right.relation
                assert task.question.golds == ("yes" if left.value == right.value else "no",)
                continue
            for hop, following in zip(task.hops, task.hops[1:], strict=False):
                assert following.subject == hop.value
            assert task.question.golds[0] == task.hops[-1].value
            text = Passage("question", "", task.question.text)
            assert not CONTAINS.is_relevant(text, task.question.golds)


def test_families_have_their_own_shape(world: World) -> None:
    lengths = {
        name: Counter(len(task.hops) for split in SPLITS for task in world.tasks[name, split])
        for name in FAMILIES
    }
    assert all(set(lengths[name]) == {1} for name in SINGLE)
    assert set(lengths["hotpotqa"]) == {2}
    assert set(lengths["musique"]) == {2, 3}
    assert any(task.comparison for task in world.tasks["2wikimultihopqa", "test"])
    assert any(len(task.question.golds) > 1 for task in world.tasks["triviaqa", "test"])
    pairs = {
        name: {tuple(h.relation for h in t.hops) for s in SPLITS for t in world.tasks[name, s]}
        for name in FAMILIES
    }
    others = set().union(*(pairs[name] for name in FAMILIES if name != "bamboogle"))
    assert not pairs["bamboogle"] & others


def test_the_vocabulary_is_closed(world: World) -> None:
    vocabulary = set(closed_vocabulary(LexiconSize()))
    texts = [f"{passage.title} {passage.text}" for passage in world.passages]
    for tasks in world.tasks.values():
        for task in tasks:
            texts += [task.question.text, *task.question.golds]
            for hop in task.hops:
                texts += RELATIONS[hop.relation].queries(hop.subject)
    assert not {word for text in texts for word in text.split()} - vocabulary


def test_names_collide_and_entities_are_mentioned_by_others(world: World) -> None:
    names = world.encyclopaedia.names
    people = set(names["person"])
    assert all(name.split()[0] in people for name in names["organisation"])
    assert any(name.split()[1] in people for name in names["film"])
    mentions = Counter(
        word for passage in world.passages for word in passage.text.split() if word in people
    )
    assert sum(mentions.values()) / len(people) > 8


def test_marriages_hold_both_ways(world: World) -> None:
    facts = world.encyclopaedia.facts
    for (subject, relation), fact in facts.items():
        if relation == "spouse":
            assert facts[fact.value, "spouse"].value == subject


def test_another_encyclopaedia_can_avoid_every_fact_of_the_world(world: World) -> None:
    known = world.encyclopaedia.triples()
    other = draw_encyclopaedia(LexiconSize(), 1, avoid=known)
    assert not other.triples() & known
    assert other.names == world.encyclopaedia.names


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="no question family 'squad'"):
        build_world({"squad": {"train": 1, "dev": 0, "test": 0}}, seed=0)


def test_more_rows_than_the_facts_allow_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of nq"):
        build_world({"nq": {"train": 5000, "dev": 0, "test": 0}}, seed=0)
