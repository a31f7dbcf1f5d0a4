"""One joint round of the tiny profile over engines of the caller's choice, in a folder of its own.

Data, index, prompts, rewards, loop and wiring are those of the stages; only engines differ.
"""

import copy
import shutil
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.engines.policies.build import serve_rank
from cosearch.files.artifacts import ROLLOUT_SCHEMA, Paths
from cosearch.params import blocks
from cosearch.params.settings import load_settings
from cosearch.rollouts.policy import Policy
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.wiring import Learning, Parts, engines_of, open_learner, supervision
from cosearch.run.identity import Identity
from cosearch.run.progress import Progress
from cosearch.run.stage import Stage
from cosearch.train.joint import Setup, role_folders
from cosearch.train.loop import train
from cosearch.train.observer import Observer
from tests.pipeline.project import Project

VLLM: dict[str, Any] = {
    "replicas": 1,
    "tensor_parallel": 1,
    "devices": [],
    "shared_gpus": True,
    "memory_share": 0.2,
    "max_model_tokens": None,
    "max_sequences": 64,
    "eager": True,
    "backend": None,
    "transfer": "file",
    "probe": {"prompts": 2, "tokens": 8, "factor": 100.0},
}
"""Both samplers and the trainers on one device, float32: its rounding is small and uneven."""
SAMPLED_BY_VLLM = {role: {"engine": "vllm", "vllm": VLLM} for role in ("agent", "ranker")}
WITH_A_REPLICA_MORE = SAMPLED_BY_VLLM | {
    "ranker": {"engine": "vllm", "vllm": VLLM | {"replicas": 2, "memory_share": 0.1}}
}
TRAINED_BY_DEEPSPEED = {
    "train": {
        "engine": "deepspeed",
        "deepspeed": {
            "stage": 2,
            "offload_optimizer": False,
            "offload_parameters": False,
            "gradient_checkpointing": True,
            "dtype": "float32",
        },
    }
}

ROLES = ("agent", "ranker")
THRESHOLDS = set(blocks.Guards.model_fields) - {"patience"}
"""Fields of the guards; all off, since a single round says nothing about divergence."""


@dataclass(frozen=True)
class Outcome:
    """What a round left: its rollouts and measures, and the samplers as they are after it."""

    rollouts: pl.DataFrame
    metrics: dict[str, float]
    samplers: dict[str, Any]

    def faults(self) -> list[str]:
        """What is wrong with the round, in words."""
        found = [] if self.rollouts.schema == ROLLOUT_SCHEMA else ["the Parquet's columns"]
        losses = {name: value for name, value in self.metrics.items() if name.endswith("loss")}
        if not losses:
            found.append("no loss was recorded")
        for role, sampler in self.samplers.items():
            if sampler.weights < 1:
                found.append(f"{role}: no weights were handed over")
            gap = self.metrics[f"{role}_gap_max"]
            if not gap < 1e-3:
                found.append(f"{role}: sampler and trainer differ by {gap:.2g} nats")
        return found


def prepare_project(folder: Path, engines: Mapping[str, Mapping[str, Any]]) -> Project:
    """Corpus, questions and index of a cut-down tiny profile; ``engines`` are set in its blocks."""
    project = Project.make(folder)
    project.edit(_one_round)
    for stage in ("data", "encode", "index"):
        project.stage(stage)
    project.edit(lambda params: _set(params["profiles"]["tiny"], engines))
    return project


def _set(profile: dict[str, Any], engines: Mapping[str, Mapping[str, Any]]) -> None:
    for block, values in engines.items():
        profile[block] |= copy.deepcopy(dict(values))


def _one_round(params: dict[str, Any]) -> None:
    params["profiles"]["tiny"]["train"] |= {"rounds": 1, "questions": 6, "update_questions": 3}
    params["profiles"]["tiny"]["train"]["shard_questions"] = 6


def play_round() -> Outcome:
    """A round of variant ``cosearch`` in the current folder, a prepared project's."""
    settings, paths = load_settings("tiny"), Paths("tiny")
    variant, row = settings.variant("cosearch"), settings.training("cosearch-0")
    parts = Parts.of(settings, variant.set)
    folders = role_folders(parts, variant, paths.needed(row.needs))
    _, retriever = open_corpus(settings, paths)
    folder = Path("round")
    shutil.rmtree(folder, ignore_errors=True)
    sizes = settings.section(blocks.Train, variant.set)
    opened = [_policy(role, folders[role], parts, sizes, folder) for role in ROLES]
    policies = dict(zip(ROLES, opened, strict=True))
    setup = Setup(parts, sizes, None, variant, row.seed, folders, policies)
    identity = Identity("train@cosearch-0", {}, {}, {})
    stage = Stage("train", settings, paths, {"row": "cosearch-0"}, Progress(), identity)
    with RunStore(folder / "run", {}, {}) as store:
        engines = engines_of(retriever, policies, supervision(stage))
        run = setup.run(read_questions(paths, "train"), (), engines, None, store)
        unguarded = sizes.guards.model_copy(update=dict.fromkeys(THRESHOLDS))
        run = replace(run, guards=unguarded)
        train(run, Observer(lambda number, phase, metrics: None, nullcontext, lambda size: None))
        rollouts = pl.read_parquet(store.rollouts / "round_001.parquet")
        samplers = {role: policy.sampler for role, policy in policies.items()}
        return Outcome(rollouts, store.metrics()[-1], samplers)


def main() -> None:
    """Play a round in the current folder as a process of a launched job, and say what is wrong."""
    if serve_rank():
        return
    found = play_round()
    for sampler in found.samplers.values():
        sampler.close()
    if faults := found.faults():
        sys.exit("\n".join(faults))
    print("the round is sound")


def _policy(role: str, folder: str, parts: Parts, sizes: blocks.Train, scratch: Path) -> Policy:
    longest = parts.ranker.max_turn_tokens
    learning = Learning(getattr(parts, role), 1.0, 1e-4, longest, sizes)
    return open_learner(folder, learning, parts, scratch)


if __name__ == "__main__":
    main()
