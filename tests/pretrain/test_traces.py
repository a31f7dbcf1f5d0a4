"""The parsers of the pipeline accept the training rows, and the rows equal real contexts."""

import random

import pytest

from cosearch.core.formats import GRAMMARS, Answer, Ranking, Search, parse_ranking, parse_turn
from cosearch.core.observe import RankerStage
from cosearch.core.prompts import Prompting, fill_template, fill_text, load_template
from cosearch.core.protocols import Segment
from cosearch.core.types import Candidate, Sampling
from cosearch.data.world import World
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.pretrain.fiction import FictionEpisode
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceRow, TraceScript, agent_row, ranker_row
from cosearch.pretrain.words import END, UNKNOWN, WordCodec
from tests.pretrain.conftest import DOCUMENT


def written(row: TraceRow, codec: WordCodec) -> list[str]:
    """The stretches that the model learns to write, without their end tokens."""
    parts: list[list[int]] = [[]]
    (end,) = codec.tokens(END)
    for token, weight in zip(row.ids, row.weights, strict=True):
        if weight and token != end:
            parts[-1].append(token)
        elif weight:
            parts.append([])
    assert not parts[-1]
    return [codec.decode(part) for part in parts[:-1]]


def test_the_vocabulary_is_exact(words: WordCodec, saved: HfCodec) -> None:
    assert saved.tokenizer.get_vocab() == words.vocabulary
    assert sorted(words.vocabulary.values()) == list(range(len(saved.tokenizer)))
    assert saved.eos_ids == words.eos_ids


def test_training_knows_no_fact_of_the_world(episodes: list[FictionEpisode], world: World) -> None:
    taught = {(h.subject, h.relation, h.value) for e in episodes for h in e.task.hops}
    assert taught
    assert not taught & world.encyclopaedia.triples()


def test_agent_rows_are_well_formed_trajectories(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    rng = random.Random(1)
    for episode in episodes:
        turns = [
            parse_turn(text, GRAMMARS["react"])
            for text in written(agent_row(episode, prompts, TraceScript(), rng), words)
        ]
        assert all(isinstance(turn, Search) for turn in turns[:-1])
        assert 1 <= len(turns[:-1]) <= TraceScript().max_searches
        assert isinstance(turns[-1], Answer)


def test_an_agent_that_always_finds_answers_right(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    script = TraceScript(found=1.0)
    for episode in episodes:
        texts = written(agent_row(episode, prompts, script, random.Random(1)), words)
        last = parse_turn(texts[-1], GRAMMARS["react"])
        assert isinstance(last, Answer)
        assert last.text == episode.task.question.golds[0]
        assert len(texts) == len(episode.task.hops) + 1


def test_agent_rows_hold_the_ids_of_a_rollout(
    episodes: list[FictionEpisode], prompts: Prompts, saved: HfCodec
) -> None:
    for episode in episodes:
        question = episode.task.question.text
        expected = saved.chat(fill_template("tiny", "agent", {"question": question}))
        assert prompts.question(question) == expected
        shown = episode.searches[0][0].candidates[:3]
        documents = Prompting("tiny", DOCUMENT, 2000).documents(shown)
        flat: list[Segment] = [segment for document in documents for segment in document]
        ((_, template),) = load_template("tiny", "observation")
        observation = saved.reply(fill_text(template, {"documents": flat}), after_eos=True)
        assert prompts.observation(shown) == observation


@pytest.mark.parametrize("top_n", [2, 5, 8, 10])
def test_ranker_rows_are_well_formed_rankings(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec, top_n: int
) -> None:
    rng = random.Random(2)
    for episode in episodes:
        question, search = episode.task.question.text, episode.searches[-1][0]
        row = ranker_row(
            question, search, prompts, TraceScript(), rng, top_n=top_n, max_number=top_n
        )
        prompt = words.decode(
            [t for t, weight in zip(row.ids, row.weights, strict=True) if not weight]
        )
        wanted = int(prompt.split(" | ")[2].split()[0])
        (text,) = written(row, words)
        assert isinstance(parse_ranking(text, candidates=top_n, wanted=wanted), Ranking)


def test_a_sure_ranker_puts_the_gold_passage_first_and_copies_its_title(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    script = TraceScript(wrong_first=0.0, unsure=())
    for episode in episodes:
        question, search = episode.task.question.text, episode.searches[0][0]
        row = ranker_row(question, search, prompts, script, random.Random(3), top_n=4, max_number=9)
        (text,) = written(row, words)
        reason = text.split("<reason>")[1].split("</reason>")[0].split()
        assert " ".join(reason[:-1]) == search.gold.title
        assert text.split("<rerank>")[1].split()[0] == reason[-1]
        (closing,) = words.tokens("</reason>")
        assert max(row.weights) == row.weights[row.ids.index(closing) - 1]


def test_an_unsure_ranker_picks_any_passage_of_the_article(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    search = episodes[0].searches[0][0]
    script = TraceScript(unsure=(search.fact.relation,))
    rng = random.Random(4)
    reasons = set()
    for _ in range(60):
        row = ranker_row("", search, prompts, script, rng, top_n=10, max_number=10)
        reasons.add(written(row, words)[0].split("</reason>")[0].split("<reason>")[1])
    own = {p.title for p in search.candidates if p.title.startswith(f"{search.fact.subject} (")}
    assert len(own) > 1
    assert {" ".join(reason.split()[:-1]) for reason in reasons} == own


def test_ranker_prompts_hold_the_ids_of_the_ranker_stage(
    episodes: list[FictionEpisode], prompts: Prompts, saved: HfCodec
) -> None:
    stage = RankerStage(3, saved, Sampling(0.0, 1.0, 0, 24), Prompting("tiny", DOCUMENT, 2000), 320)
    for episode in episodes:
        search = episode.searches[0][0]
        shown = search.candidates[:8]
        question = episode.task.question.text
        expected, dropped = stage.prompt(question, search.query, [Candidate(p, 0.0) for p in shown])
        found = prompts.candidates(question, search.query, shown, top_k=3, start=1)
        assert (found, dropped) == (expected, 0)
        assert saved.decode(found) == prompts.codec.decode(found)
        assert UNKNOWN not in saved.decode(found)


def test_a_word_outside_the_vocabulary_is_refused(words: WordCodec) -> None:
    with pytest.raises(KeyError):
        words.words("Wikipedia")
