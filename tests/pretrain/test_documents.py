"""Rows of the document simulator are numbered passages, useful or noisy as the request says."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.data.world import World
from cosearch.data.world_lexicon import YEARS, LexiconSize, draw_names
from cosearch.data.world_relations import RELATIONS
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.pretrain.documents import Falsehoods, Simulation, read_documents, simulator_row
from cosearch.pretrain.fiction import FictionEpisode
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceRow, TraceScript
from cosearch.pretrain.words import UNKNOWN, WordCodec

USEFUL, NOISY = Simulation(useful=1.0), Simulation(useful=0.0, wrong_value=1.0)


@pytest.fixture(scope="module")
def falsehoods(world: World) -> Falsehoods:
    return Falsehoods(draw_names(LexiconSize()), world.encyclopaedia.triples())


def halves(row: TraceRow, codec: WordCodec) -> tuple[str, str]:
    """What is read and what is written."""
    read = [token for token, weight in zip(row.ids, row.weights, strict=True) if not weight]
    written = [token for token, weight in zip(row.ids, row.weights, strict=True) if weight]
    return codec.decode(read), codec.decode(written)


def test_a_useful_row_word_for_word(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec, falsehoods: Falsehoods
) -> None:
    row = simulator_row(
        episodes[0], prompts, TraceScript(whole=1.0), USEFUL, falsehoods, random.Random(1)
    )
    prompt, text = halves(row, words)
    question = episodes[0].task.question
    head = f"<|user|> {question.text} | {question.text} | {question.golds[0]} : found"
    assert prompt == f"{head} <|end|> <|assistant|>"
    gold = episodes[0].searches[0][0].gold
    assert f"] {gold.title} : {gold.text} " in text
    assert text.endswith(". <|end|>")
    heavy = [
        t for t, w in zip(row.ids, row.weights, strict=True) if w == TraceScript().value_weight
    ]
    assert words.decode(heavy) == question.golds[0]


def test_useful_documents_tell_the_fact_anywhere(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec, falsehoods: Falsehoods
) -> None:
    rng = random.Random(2)
    places = set()
    for episode in episodes:
        row = simulator_row(episode, prompts, TraceScript(), USEFUL, falsehoods, rng)
        documents = read_documents(halves(row, words)[1].removesuffix(" <|end|>"), count=3)
        golds = [(search[0].gold.title, search[0].gold.text) for search in episode.searches]
        assert documents is not None
        assert any(gold in documents for gold in golds)
        places |= {documents.index(gold) for gold in golds if gold in documents}
    assert places == {0, 1, 2}


def test_noisy_documents_never_tell_the_fact(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec, falsehoods: Falsehoods
) -> None:
    rng = random.Random(3)
    for episode in [e for e in episodes if len(e.task.hops) == 1]:
        row = simulator_row(episode, prompts, TraceScript(), NOISY, falsehoods, rng)
        prompt, text = halves(row, words)
        documents = read_documents(text.removesuffix(" <|end|>"), count=3)
        assert prompt.endswith(": not found <|end|> <|assistant|>")
        assert documents is not None
        gold = episode.searches[0][0].gold
        told = [body for title, body in documents if title == gold.title]
        assert told
        assert not any(f" {episode.task.hops[0].value} " in f" {body} " for body in told)


def test_no_wrong_value_is_true_in_the_world(world: World) -> None:
    names = draw_names(LexiconSize())
    fact = next(f for f in world.encyclopaedia.facts.values() if f.relation == "birthyear")
    pool = {**YEARS, **names}[RELATIONS[fact.relation].object]
    free = next(value for value in pool if value != fact.value)
    avoid = {(fact.subject, fact.relation, v) for v in pool if v not in (free, fact.value)}
    passage = Falsehoods(names, avoid).passage(fact, random.Random(4))
    assert f" {free} " in f" {passage.text} "
    assert passage.title == f"{fact.subject} (childhood)"


def test_requests_hold_the_ids_of_the_saved_tokenizer(
    episodes: list[FictionEpisode], prompts: Prompts, saved: HfCodec
) -> None:
    hf = replace(prompts, codec=saved)
    for episode in episodes:
        search = episode.searches[0][1]
        asked = (episode.task.question.text, search.query, episode.task.question.golds[0])
        for useful in (True, False):
            ids = prompts.request(*asked, useful=useful)
            assert ids == hf.request(*asked, useful=useful)
            assert UNKNOWN not in saved.decode(ids)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1] A (b) : c .",
        "[1] A (b) : c . [3] A (b) : c .",
        "x [1] A (b) : c . [2] A (b) : c .",
        "[1] A (b) c . [2] A (b) : c .",
        "[1] A : c . [2] A (b) : c .",
        "[1] A (b) : c . [2] A (b) : c",
        "[1] A (b) : c . [2] A (b) : c . <|end|>",
    ],
)
def test_broken_documents_are_refused(text: str) -> None:
    assert read_documents(text, count=2) is None


def test_documents_are_read() -> None:
    text = "[1] A (b) : c d . [2] E F (g) : h ."
    assert read_documents(text, count=2) == [("A (b)", "c d ."), ("E F (g)", "h .")]


@given(st.text(alphabet="[]12 :.ab()", max_size=60))
def test_whatever_is_read_was_written(text: str) -> None:
    documents = read_documents(text, count=2)
    if documents is not None:
        assert len(documents) == 2
        assert all(title in text and body in text for title, body in documents)
