"""The likelihood judge over the shipped tiny agent."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.core.prompts import Prompting, fill_template, load_template
from cosearch.core.protocols import Generate, JudgeCase, RankingJudge
from cosearch.core.types import Passage, Sampling
from cosearch.engines.judges.build import build_likelihood_judge
from cosearch.engines.loading import load_causal_lm
from cosearch.engines.policies.build import build_codec, build_sampler
from cosearch.params.blocks import Agent, Judge
from tests.settings import block

AGENT = Path(__file__).resolve().parents[2] / "models" / "tiny" / "agent"
PEOPLE = (
    *("Fentaro", "Holtand", "Lunaro", "Lutaro", "Jotaley", "Dunsimer", "Visisen"),
    *("Rossiro", "Manawitz", "Duntawitz"),
)
PAIRS = [(PEOPLE[n], PEOPLE[(n + 3) % len(PEOPLE)]) for n in range(len(PEOPLE))]


def asked(**changes: Any) -> RankingJudge:
    settings: dict[str, Any] = {
        "prompting": Prompting("tiny", "{title} [{number}] {text}\n", 2000),
        "max_prompt_tokens": 300,
        "max_turn_tokens": 24,
        "score_digits": 9,
        "batch_tokens": 4096,
        "dtype": "float32",
        "device": "cpu",
    }
    return build_likelihood_judge(AGENT, block(Judge, **settings | changes))


def judge(**changes: Any) -> Callable[[Sequence[JudgeCase]], list[float]]:
    """The scores alone."""
    found = asked(**changes)
    return lambda cases: [judgement.score for judgement in found(cases)]


def case(pupil: str, teacher: str, *texts: str, golds: Sequence[str] = ()) -> JudgeCase:
    passages = tuple(Passage(str(n), f"{pupil} (education)", text) for n, text in enumerate(texts))
    golds = tuple(golds) or (teacher,)
    return JudgeCase(f"who taught {pupil} ?", golds, f"teacher of {pupil}", passages)


def told(pupil: str, teacher: str) -> JudgeCase:
    return case(pupil, teacher, f"{pupil} was taught by {teacher} .")


def untold(pupil: str, teacher: str) -> JudgeCase:
    """The same sentence about another teacher."""
    other = PEOPLE[(PEOPLE.index(teacher) + 1) % len(PEOPLE)]
    return case(pupil, teacher, f"{pupil} was taught by {other} .")


def test_documents_that_state_the_answer_are_judged_better() -> None:
    scores = judge()([make(*pair) for make in (told, untold) for pair in PAIRS])
    assert all(0 <= score <= 1 for score in scores)
    with_answer, without = scores[: len(PAIRS)], scores[len(PAIRS) :]
    assert math.fsum(with_answer) / len(PAIRS) > 0.5
    assert math.fsum(without) / len(PAIRS) < 0.1


def test_a_score_is_the_mean_token_probability_of_the_answer() -> None:
    """Recomputed with the agent's own thought, without batching or padding."""
    codec, model = build_codec(AGENT), load_causal_lm(AGENT, "float32")
    (found,) = judge()([told(*PAIRS[0])])
    pupil, teacher = PAIRS[0]
    fills = {
        "question": f"who taught {pupil} ?",
        "query": f"teacher of {pupil}",
        "documents": f"{pupil} (education) [1] {pupil} was taught by {teacher} .\n",
    }
    *messages, _ = fill_template("tiny", "judge", fills | {"reason": "", "gold": ""})
    prompt = tuple(codec.chat(messages))
    agent = build_sampler(AGENT, codec, block(Agent))
    (written,) = agent([Generate("judge", prompt, Sampling(0.0, 1.0, 0, 24), 0)])
    stop = codec.tokenizer.convert_tokens_to_ids("</reason>")
    thought = written.ids[: written.ids.index(stop) + 1]
    opening, answer, closing = codec.tokenizer.convert_tokens_to_ids(
        ["<answer>", teacher, "</answer>"]
    )
    ids = torch.tensor([[*prompt, *thought, opening, answer, closing]])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(input_ids=ids).logits[0], dim=-1)
    mean = (float(logprobs[-3, answer]) + float(logprobs[-2, closing])) / 2
    assert found == pytest.approx(math.exp(mean), abs=1e-5)


def test_the_likeliest_gold_counts_and_blank_ones_do_not() -> None:
    (pupil, teacher), (other, _) = PAIRS[0], PAIRS[4]
    text = f"{pupil} was taught by {teacher} ."
    golds = [(teacher,), (other,), (other, " ", teacher), (" ",)]
    one, wrong, best, none = judge()([case(pupil, teacher, text, golds=g) for g in golds])
    assert best == pytest.approx(one, abs=1e-6) and wrong < one and none == 0.0


def test_scores_do_not_depend_on_what_shares_a_batch() -> None:
    cases = [told(*pair) for pair in PAIRS[:4]]
    together = judge()([*cases, cases[0]])
    assert together[4] == together[0]
    for found in (judge(batch_tokens=1)(cases), [judge()([one])[0] for one in cases]):
        assert found == pytest.approx(together[:4], abs=1e-5)
    assert judge()([]) == []


def test_scores_are_rounded() -> None:
    cases = [make(*pair) for make in (told, untold) for pair in PAIRS]
    exact, coarse = judge()(cases), judge(score_digits=1)(cases)
    assert coarse == [round(score, 1) for score in exact]
    assert coarse.count(0.0) > exact.count(0.0)


def test_documents_over_the_budget_go_from_the_tail() -> None:
    pupil, teacher = PAIRS[0]
    first = f"{pupil} was taught by {teacher} ."
    tight = judge(max_prompt_tokens=40)
    filler = [f"{pupil} worked for {teacher} Union ."] * 8
    cut, short = tight([case(pupil, teacher, first, *filler), case(pupil, teacher, first)])
    assert cut != judge()([case(pupil, teacher, first, *filler)])[0]
    assert cut > 0 and short > 0
    long = case(pupil, teacher, first, "x " * 1500, *filler)
    full, bare = asked(max_prompt_tokens=40)([long, case(pupil, teacher, first)])
    assert (bare.dropped_documents, bare.cut_documents, full.cut_documents) == (0, 0, 0)
    assert full.dropped_documents == 9
    (told_less,) = asked(max_document_chars=9)([case(pupil, teacher, first)])
    assert (told_less.dropped_documents, told_less.cut_documents) == (0, 1)
    with pytest.raises(ValueError, match=r"judge\.max_prompt_tokens=8 has no room"):
        judge(max_prompt_tokens=8)([told(pupil, teacher)])


@pytest.mark.parametrize("name", ["tiny", "worked", "paper"])
def test_every_template_set_ends_in_the_agents_answer(name: str) -> None:
    *_, (role, text) = load_template(name, "judge")
    assert role == "assistant"
    assert "<reason>{reason}</reason>" in text and text.endswith("<answer>{gold}</answer>")
    fields = {"question", "query", "documents", "reason", "gold"}
    filled = fill_template(name, "judge", {field: f"<{field}>" for field in fields})
    data = {s.text for message in filled for s in message.segments if not s.trusted}
    assert data == {f"<{field}>" for field in fields}
