"""One process of a job, as tests launch it: what it finds goes to files.

``python -m tests.engines.zero.worker TASK FOLDER``, alone or under a launcher.
"""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch
from deepspeed.utils import safe_get_full_optimizer_state

from cosearch.core.protocols import NotFinite
from cosearch.core.types import Sample
from cosearch.engines.policies.loss import LossRules
from cosearch.engines.policies.ranks import Ranks, join
from cosearch.engines.policies.shard import Shard
from cosearch.engines.policies.step import OptimizerRules
from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer, serve
from cosearch.engines.policies.zero import TrainingPlan
from cosearch.params.engines import DeepSpeed
from cosearch.rollouts.policy import Policy, give_way, hand_over
from tests.engines.zero.ledger import DeviceSampler, Ledger
from tests.micro import VOCABULARY, samples

LOSS = LossRules(0.2, "sum_per_sequence", 3.0, 0.1, 16)
RULES = OptimizerRules(1e-3, (0.9, 0.95), 0.01, 1.0, 3, 30, 5)
UPDATES = 5


def zero(stage: int, **changes: Any) -> DeepSpeed:
    """The rules of a stage; ``changes`` are not checked by the parameters' own schema."""
    plain = DeepSpeed(
        stage=1,
        offload_optimizer=False,
        offload_parameters=False,
        gradient_checkpointing=False,
        dtype="float32",
    )
    return plain.model_copy(update={"stage": stage, **changes})


def plan(
    folder: Path,
    stage: int,
    *,
    rules: OptimizerRules = RULES,
    loss: LossRules = LOSS,
    vocabulary: int | None = VOCABULARY,
    **changes: Any,
) -> TrainingPlan:
    """A micro model's training; ``folder`` holds it as ``model``."""
    model, scratch = str(folder / "model"), str(folder / "scratch")
    return TrainingPlan(model, vocabulary, rules, loss, zero(stage, **changes), scratch)


def grouped(count: int = 7) -> list[Sample]:
    return [replace(sample, group=str(n % 3)) for n, sample in enumerate(samples(count))]


def broken(batch: list[Sample], logprob: float = math.nan) -> list[Sample]:
    """One sample in the middle has log-probabilities that no policy gives: those that are not
    numbers spoil the loss, and minus infinity is clipped and spoils the gradient alone."""
    bad = replace(batch[4], old_logprobs=[logprob] * len(batch[4].ids))
    return [*batch[:4], bad, *batch[5:]]


def gradients(shard: Shard) -> list[torch.Tensor]:
    """The gradient of a first step, read off AdamW's first moment; collective."""
    share = 1 - RULES.betas[0]
    parameters = shard._engine.module.model.parameters()
    return [safe_get_full_optimizer_state(p, "exp_avg").clone() / share for p in parameters]


def first_gradients(ranks: Ranks, folder: Path, stage: int, tokens: int) -> list[torch.Tensor]:
    rules = replace(RULES, grad_clip=1e9, batch_tokens=tokens)
    shard = Shard(ranks, plan(folder, stage, rules=rules))
    shard.update(grouped(), 1.0)
    return gradients(shard)


def work_together(folder: Path) -> None:
    """Gradients and a refusal on every rank; then training that the first rank orders."""
    ranks = join()
    found = {stage: first_gradients(ranks, folder, stage, 30) for stage in (2, 3)}
    torch.save(found, folder / f"gradients_{ranks.rank}.pt")
    try:
        Shard(ranks, plan(folder, 2)).update(broken(grouped()), 1.0)
    except NotFinite as error:
        (folder / f"refused_{ranks.rank}.txt").write_text(error.reason)
    ranks.memory = Ledger(folder, ranks.rank)
    if ranks.rank:
        serve(ranks)
        return
    (folder / "turns.json").write_text(json.dumps(take_turns(ranks, folder)))
    trainers = {stage: DeepSpeedTrainer(ranks, plan(folder, stage)) for stage in (2, 3)}
    record = {
        stage: train(trainer, folder / f"zero_{stage}") for stage, trainer in trainers.items()
    }
    (folder / "record.json").write_text(json.dumps(record))
    ranks.stop()


def take_turns(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """Rollouts, updates and hand-overs on devices that sampler and trainer share: first in an order
    in which the trainers do not leave the devices, then as the loop does it."""
    trainer, straight = (DeepSpeedTrainer(ranks, plan(folder, 3)) for _ in range(2))
    policy = Policy(cast(Any, None), DeviceSampler(folder, ranks.size), trainer, 0.9)
    policies = {"agent": policy}
    hand_over(policies)
    refused = ""
    for number in range(3):
        policy.sampler([])
        give_way(policies)
        trainer.update(grouped(7 - number), 0.9)
        if number == 0:
            try:
                policy.hand_over()
            except MemoryError as error:
                refused = str(error)
        hand_over(policies)
    trainer.save(folder / "turns.state")  # from where the states lie
    saved = trainer.checksum()
    give_way(policies)
    trainer.restore(folder / "turns.state")
    ends = [saved, trainer.checksum()]
    trainer.sleep()
    straight.sleep()
    for number in range(3):
        straight.update(grouped(7 - number), 0.9)
    return {"refused": refused, "ends": [*ends, straight.checksum()]}


def train(trainer: DeepSpeedTrainer, target: Path) -> dict[str, Any]:
    """Train, leave weights, state and export, meet a loss that is not finite, and go back."""
    statistics = [asdict(trainer.update(grouped(7 - n), 0.9)) for n in range(UPDATES)]
    logprobs = trainer.logprobs(grouped(), 0.9)
    torch.save(dict(trainer.weights()), target.with_suffix(".pt"))
    trainer.save(target.with_suffix(".state"))
    trainer.export(target / "model")
    refused = ""
    try:
        trainer.update(broken(grouped()), 0.9)
    except NotFinite as error:
        refused = str(error.batch)
    checksums = []
    for _ in range(2):
        trainer.update(grouped(5), 0.9)
        checksums.append(trainer.checksum())
        trainer.restore(target.with_suffix(".state"))
    return {
        "statistics": statistics,
        "logprobs": logprobs,
        "refused": refused,
        "checksums": checksums,
        "restored": trainer.checksum(),
    }


def go_on(folder: Path) -> None:
    """A step after ``alone.state``; and what is said of the state that two ranks left."""
    ranks = join()
    found = {}
    for stage in (2, 3):
        trainer = DeepSpeedTrainer(ranks, plan(folder, stage))
        try:
            trainer.restore(folder / f"zero_{stage}.state")
        except ValueError as error:
            found[f"refused_{stage}"] = str(error)
        trainer.restore(folder / f"alone_{stage}.state")
        trainer.update(grouped(5), 0.9)
        found[f"checksum_{stage}"] = trainer.checksum()
    (folder / "went_on.json").write_text(json.dumps(found))


TASKS: dict[str, Callable[[Path], None]] = {"together": work_together, "go_on": go_on}

if __name__ == "__main__":
    TASKS[sys.argv[1]](Path(sys.argv[2]))
