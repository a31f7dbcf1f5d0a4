"""What an update never holds: a mask over a packed row, and the logits of all its tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cosearch.engines.policies.attention import PACKED, borders
from cosearch.engines.policies.heads import Batch, CausalHead
from cosearch.engines.policies.packing import PackedHead
from tests.engines.families import FAMILIES, save
from tests.engines.test_trainer_torch import RULES, trainer
from tests.micro import VOCABULARY, samples, save_causal_lm

PARTS = 4
BATCH = samples(8)
ROW = sum(len(sample.ids) for sample in BATCH)
TRAINED = sum(sum(sample.loss_mask) for sample in BATCH)
HEADS = (CausalHead(VOCABULARY), PackedHead(VOCABULARY))


class Shapes(TorchDispatchMode):
    """The shapes of all tensors that any operation makes, also in a backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[int, ...]] = set()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.names.add(str(func))
        for one in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(one, torch.Tensor):
                self.seen.add(tuple(one.shape))
        return found

    def rows_of(self, width: int) -> set[int]:
        """How many rows of ``width`` numbers tensors have."""
        return {shape[-2] for shape in self.seen if len(shape) > 1 and shape[-1] == width}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_causal_lm(tmp_path_factory.mktemp("model"))


def gradients(model: Any, logprobs: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_parts_give_the_same_and_hold_no_more_logits_than_one(head: Any, folder: Path) -> None:
    """Float64, so that only rounding is left: 1e-12 of the largest gradient."""
    model = head.load(folder, "float64")
    runs = []
    for parts in (1, PARTS):
        with Shapes() as shapes:
            found = head(model, Batch(range(len(BATCH)), BATCH, parts), 0.7)
            runs.append((*found, *gradients(model, found[0])))
        assert max(shapes.rows_of(VOCABULARY)) == -(-TRAINED // parts)
    for one, many in zip(*runs, strict=True):
        torch.testing.assert_close(
            many, one, rtol=1e-12, atol=1e-12 * float(one.detach().abs().max())
        )


def test_an_update_cuts_its_tokens_by_the_parameter(folder: Path) -> None:
    cut = trainer(folder, rules=replace(RULES, logit_tokens=7))
    whole = trainer(folder)
    with Shapes() as shapes:
        cut.update(BATCH, 1.0)
    assert max(shapes.rows_of(VOCABULARY)) == 7
    whole.update(BATCH, 1.0)
    for one, many in zip(whole._model.parameters(), cut._model.parameters(), strict=True):
        torch.testing.assert_close(many.grad, one.grad, rtol=1e-4, atol=1e-6)


def test_no_mask_over_a_packed_row_is_made(folder: Path) -> None:
    head = PackedHead(VOCABULARY)
    model = head.load(folder, "float32")
    for name, dense in ((PACKED, False), ("sdpa", True)):
        model.set_attn_implementation(name)
        with Shapes() as shapes:
            logprobs, _ = head(model, Batch(range(len(BATCH)), BATCH), 1.0)
            gradients(model, logprobs)
        assert (ROW in shapes.rows_of(ROW)) == dense


@pytest.mark.parametrize(
    ("name", "changes"),
    [("Mistral", {"sliding_window": 4}), ("Gemma 2", {}), ("GPT-2 with ChatML", {})],
)
def test_windows_and_caps_are_those_of_a_padded_batch(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    (family,) = (one for one in FAMILIES if one.name == name)
    save(replace(family, changes={**family.changes, **changes}), tmp_path)
    found = []
    for head in HEADS:
        model = head.load(tmp_path, "float32")
        logprobs, entropies = head(model, Batch(range(len(BATCH)), BATCH), 1.0)
        found.append((logprobs, entropies, *gradients(model, logprobs)))
    for padded, packed in zip(*found, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Mistral", "Qwen3"])
def test_a_device_that_is_no_cpu_gets_one_kernel_for_the_row(name: str, tmp_path: Path) -> None:
    """On the device ``meta``, where torch computes the shapes of its kernels alone."""
    (family,) = (one for one in FAMILIES if one.name == name)
    save(family, tmp_path)
    model = HEADS[1].load(tmp_path, "bfloat16").to("meta")
    lengths = [5, 30, 7]
    with Shapes() as shapes, torch.device("meta"):
        ids = torch.zeros(1, sum(lengths), dtype=torch.long)
        output = model.base_model(input_ids=ids, position_ids=ids, **borders(lengths))
        output.last_hidden_state.sum().backward()
    names = {name for name in shapes.names if "attn" in name or "attention" in name}
    assert names == {"torch_attn._varlen_attn.default", "torch_attn._varlen_attn_backward.default"}
    assert sum(lengths) not in shapes.rows_of(sum(lengths))
