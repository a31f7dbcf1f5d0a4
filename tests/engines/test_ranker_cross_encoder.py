"""The Plackett-Luce policy: exact probabilities, the order of greedy picks, refused models."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertForSequenceClassification

from cosearch.core.protocols import Choose
from cosearch.core.types import Sampling
from cosearch.engines.loading import load_scorer
from cosearch.engines.policies.build import build_sampler
from cosearch.engines.policies.heads import Batch, PickHead, pick_table, score_rows
from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder, _draw
from cosearch.params.blocks import Ranker
from tests.engines.policies import LOSS, SCORER
from tests.micro import pairs, pick_samples, save_causal_lm, save_scorer
from tests.settings import block

SAMPLING = Sampling(1.0, 1.0, 0, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_scorer(tmp_path_factory.mktemp("model"))


def engine(folder: Path) -> CrossEncoder:
    return CrossEncoder(folder, batch_tokens=4096, dtype="float32")


def scores(folder: Path, inputs: tuple[tuple[int, ...], ...]) -> list[float]:
    """Scores one by one, without padding."""
    model = load_scorer(folder, "float32")
    with torch.no_grad():
        return [float(model(input_ids=torch.tensor([pair])).logits[0, 0]) for pair in inputs]


def by_hand(values: list[float], picks: tuple[int, ...]) -> list[float]:
    """Plackett-Luce log-probabilities of ``picks``, term by term."""
    left = dict(enumerate(values))
    found = []
    for pick in picks:
        found.append(left[pick] - math.log(sum(map(math.exp, left.values()))))
        del left[pick]
    return found


def save_bert(folder: Path) -> Path:
    """A random scorer that reads both ways, with dropout that must stay off."""
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=40,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_dropout_prob=0.5,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("save", [save_scorer, save_bert])
def test_padding_does_not_change_a_score(save: Callable[[Path], Path], tmp_path: Path) -> None:
    inputs, folder = pairs(6), save(tmp_path / "model")
    with torch.no_grad():
        together = score_rows(load_scorer(folder, "float32"), inputs)
    assert together.tolist() == pytest.approx(scores(folder, inputs), abs=1e-5)
    assert len(set(together.tolist())) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_log_probabilities_are_those_of_the_formula(folder: Path, temperature: float) -> None:
    inputs = pairs(5)
    request = Choose("ranker", inputs, 3, replace(SAMPLING, temperature=temperature), 3)
    (found,) = engine(folder)([request])
    scaled = [value / temperature for value in scores(folder, inputs)]
    assert found.logprobs == pytest.approx(by_hand(scaled, found.ids), abs=1e-5)
    assert len(set(found.ids)) == 3 and found.stopped


def test_lists_are_drawn_as_often_as_their_probability_says(folder: Path) -> None:
    inputs, draws = pairs(3), 4000
    many = [Choose("ranker", inputs, 3, SAMPLING, seed) for seed in range(draws)]
    counts = Counter(found.ids for found in engine(folder)(many))
    values = scores(folder, inputs)
    for order in permutations(range(3)):
        chance = math.exp(sum(by_hand(values, order)))
        deviation = math.sqrt(chance * (1 - chance) / draws)
        assert counts[order] / draws == pytest.approx(chance, abs=4 * deviation + 1e-9)


def test_greedy_picks_go_by_score_and_ties_by_the_retrievers_order(folder: Path) -> None:
    first, second, third = pairs(3)
    inputs = (first, second, first, third, second)
    values = scores(folder, inputs)
    request = Choose("ranker", inputs, 5, replace(SAMPLING, temperature=0.0), 1)
    (found,) = engine(folder)([request])
    assert list(found.ids) == sorted(range(5), key=lambda place: -values[place])
    assert found.ids.index(0) < found.ids.index(2) and found.ids.index(1) < found.ids.index(4)


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=8),
    st.lists(st.floats(0, 1), min_size=1, max_size=8),
)
def test_no_candidate_is_picked_twice(values: list[float], draws: list[float]) -> None:
    count = min(len(values), len(draws))
    picks = _draw(torch.tensor(values), draws[:count]).tolist()
    assert len(set(picks)) == count and all(0 <= pick < len(values) for pick in picks)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=7), st.data())
def test_the_gradient_is_that_of_the_formula(values: list[float], data: st.DataObject) -> None:
    """d log p / d s_i: 1 where i is picked, less the chance of i at every pick it is left for."""
    picks = data.draw(st.permutations(range(len(values))))[: data.draw(st.integers(1, len(values)))]
    given_scores = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    table = pick_table(given_scores, torch.tensor(picks))
    total = table.gather(1, torch.tensor(picks)[:, None]).sum()
    (found,) = torch.autograd.grad(total, given_scores)
    expected = [0.0] * len(values)
    left = set(range(len(values)))
    for pick in picks:
        mass = sum(math.exp(values[i]) for i in left)
        expected[pick] += 1
        for i in left:
            expected[i] -= math.exp(values[i]) / mass
        left.remove(pick)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert float(total.detach()) == pytest.approx(sum(by_hand(values, tuple(picks))), abs=1e-9)


def test_the_trainers_gradient_is_that_of_equation_3_over_picks(folder: Path) -> None:
    trainer, reference = SCORER.trainer(folder), load_scorer(folder, "float32")
    batch = pick_samples()
    terms = []
    for sample in batch:
        logits = torch.stack(
            [reference(input_ids=torch.tensor([pair])).logits[0, 0] for pair in sample.inputs]
        )
        left = list(range(len(logits)))
        for place, pick in enumerate(sample.ids):
            new = logits[pick] - torch.logsumexp(logits[left], dim=0)
            left.remove(pick)
            ratio = torch.exp(new - sample.old_logprobs[place])
            clipped = ratio.clamp(1 - LOSS.clip_eps, 1 + LOSS.clip_eps)
            advantage = sample.advantages[place]
            terms.append(-torch.minimum(ratio * advantage, clipped * advantage))
    expected = torch.stack(terms).sum() / len(batch)
    wanted = torch.autograd.grad(expected, list(reference.parameters()))
    stats = trainer.update(batch, 1.0)
    assert stats.loss == pytest.approx(float(expected.detach()), rel=1e-5, abs=1e-6)
    for parameter, gradient in zip(trainer._model.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


def test_the_entropy_is_that_of_the_candidates_left(folder: Path) -> None:
    sample = pick_samples()[5]
    _, found = PickHead()(load_scorer(folder, "float32"), Batch([0], [sample]), 1.0)
    left = dict(enumerate(scores(folder, sample.inputs)))
    for pick, entropy in zip(sample.ids, found.tolist(), strict=True):
        mass = sum(map(math.exp, left.values()))
        shares = [math.exp(value) / mass for value in left.values()]
        assert entropy == pytest.approx(-sum(p * math.log(p) for p in shares), abs=1e-5)
        del left[pick]


def test_only_scorers_are_opened(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not a scorer .*score\.weight"):
        load_scorer(save_causal_lm(tmp_path / "causal"), "float32")
    with pytest.raises(ValueError, match="num_labels=2"):
        load_scorer(save_scorer(tmp_path / "two", num_labels=2), "float32")
    with pytest.raises(ValueError, match="pad_token_id"):
        load_scorer(save_scorer(tmp_path / "unpadded", pad_token_id=None), "float32")


def test_a_pair_that_ends_with_padding_is_refused(folder: Path) -> None:
    request = Choose("ranker", ((5, 6), (7, 0)), 1, SAMPLING, 1)
    with pytest.raises(ValueError, match="padding token 0"):
        engine(folder)([request])


def test_heads_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="unknown head 'listwise'"):
        build_sampler(folder, None, block(Ranker), "listwise")
    found = build_sampler(folder, None, block(Ranker), "scorer")
    assert isinstance(found, CrossEncoder)
