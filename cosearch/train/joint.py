"""Joint training of one variant: opens what the loop needs, runs it, publishes what it leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.artifacts import read_json, write_json
from cosearch.config import FIXED_RANKER
from cosearch.core.seeds import derive
from cosearch.core.types import Question
from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.schema import Training, Variant
from cosearch.stage import Stage
from cosearch.train.collect import Play, collect
from cosearch.train.loop import LoopRules, train
from cosearch.train.measure import measure
from cosearch.train.policy import Policy
from cosearch.train.ranker import read_fixed_ranker
from cosearch.train.resume import RunStore
from cosearch.train.wiring import (
    Parts,
    engines_of,
    fingerprint,
    identity,
    open_learner,
    open_policy,
    player,
)


@dataclass(frozen=True)
class Setup:
    """One variant under one seed: parameters, policies by role, and the observation pipelines."""

    parts: Parts
    variant: Variant
    seed: int
    folders: Mapping[str, str]
    policies: Mapping[str, Policy]

    def play(self, *, greedy: bool, seed: int) -> Play:
        """A starter of trajectories, sampling as in training or greedily as in evaluation."""
        rollout = self.parts.method.rollout
        policies = self.policies
        agent = rollout.eval_temperature if greedy else policies["agent"].temperature
        ranker = policies.get("ranker")
        temperature = rollout.eval_temperature if greedy or ranker is None else ranker.temperature
        stages = self.parts.stages(
            self.variant.ranker, ranker.codec if ranker else None, temperature
        )
        rules = self.parts.agent_rules(policies["agent"].codec, agent)
        return player(self.variant.method, rules, stages, seed)

    @property
    def learners(self) -> tuple[str, ...]:
        """Roles that are trained; none in a run of zero rounds."""
        return learners(self.parts, self.variant)

    def rules(self) -> LoopRules:
        """Sizes of the loop."""
        block = self.parts.train
        return LoopRules(
            rounds=block.rounds,
            questions=block.questions,
            update_questions=block.update_questions,
            group_size=self.parts.method.rollout.group_size,
            shard_questions=block.shard_questions,
            dev_every=block.dev_every,
            seed=self.seed,
            importance_cap=self.parts.method.loss.importance_cap,
        )


def train_variant(stage: Stage, variant: Variant, row: Training, target: Path) -> None:
    """Train ``variant`` and publish models, rollouts and metrics under ``target``."""
    parts, seed = Parts.of(stage.settings, variant.set), row.seed
    folders = role_folders(parts, variant, stage.paths.needed(row.needs))
    who = identity(
        parts, stage.paths, sorted(folders.values()), variant=variant.model_dump(), seed=seed
    )
    _, retriever = open_corpus(stage.settings, stage.paths)
    with RunStore(stage.paths.run(stage.title, fingerprint(who)), who) as store:
        setup = open_setup(parts, variant, seed, folders, store.folder)
        engines = engines_of(retriever, setup.policies, stage.sign)
        dev = read_questions(stage.paths, "dev")
        train(
            rules=setup.rules(),
            credit=parts.credit(),
            questions=read_questions(stage.paths, "train"),
            play=lambda number: setup.play(greedy=False, seed=derive(seed, "round", number)),
            policies=setup.policies,
            learners=setup.learners,
            engines=engines,
            evaluate=lambda: _measure_dev(setup, dev, engines),
            store=store,
            report=lambda number, phase, metrics: _report(stage, setup, number, phase, metrics),
        )
        publish(setup, store, target)
        store.discard()


def learners(parts: Parts, variant: Variant) -> tuple[str, ...]:
    """The variant's learning roles; none when no round is planned."""
    return variant.train if parts.train.rounds else ()


def role_folders(parts: Parts, variant: Variant, needed: Path) -> dict[str, str]:
    """Model folder that each role starts from; ``needed`` holds the Fixed Ranker's record."""
    return {
        role: read_fixed_ranker(needed) if name == FIXED_RANKER else parts.model(name)
        for role, name in variant.models.items()
    }


def open_setup(
    parts: Parts, variant: Variant, seed: int, folders: Mapping[str, str], scratch: Path
) -> Setup:
    """Policies of every role; a role that does not learn is frozen and decodes greedily."""
    rollout = parts.method.rollout
    blocks: dict[str, tuple[Any, float, float, int]] = {
        "agent": (
            parts.agent,
            rollout.agent_temperature,
            parts.train.agent_lr,
            parts.agent.max_response_tokens,
        ),
        "ranker": (
            parts.ranker,
            rollout.ranker_temperature,
            parts.train.ranker_lr,
            parts.ranker.max_turn_tokens,
        ),
    }
    policies = {}
    for role, folder in folders.items():
        block, temperature, lr, max_tokens = blocks[role]
        if role in learners(parts, variant):
            policies[role] = open_learner(
                folder,
                block,
                parts,
                temperature=temperature,
                lr=lr,
                max_tokens=max_tokens,
                scratch=scratch,
            )
        else:
            policies[role] = open_policy(folder, block, rollout.eval_temperature)
    return Setup(parts, variant, seed, folders, policies)


def publish(setup: Setup, store: RunStore, target: Path) -> None:
    """Write trained models, rollouts, metrics, and trained.json: where each role's model is and
    which overrides it was trained under."""
    store.publish(target, setup.parts.train.rounds)
    models = dict(setup.folders)
    for role in setup.learners:
        setup.policies[role].export(target / role)
        models[role] = str(target / role)
    write_json(
        target / "trained.json",
        {"models": models, "rounds": setup.parts.train.rounds, "set": dict(setup.variant.set)},
    )


@dataclass(frozen=True, slots=True)
class Trained:
    """What a variant's training left: model folder of each role, rounds, and its overrides."""

    models: dict[str, str]
    rounds: int
    overrides: dict[str, Any]


def read_trained(target: Path) -> Trained:
    """The record of a trained variant."""
    record = read_json(target / "trained.json")
    return Trained(record["models"], record["rounds"], record["set"])


def _measure_dev(setup: Setup, dev: list[Question], engines: Mapping[str, Any]) -> dict[str, float]:
    if not dev or not setup.learners:
        return {}
    play = setup.play(greedy=True, seed=derive(setup.seed, "dev"))
    shards = collect(play, dev, engines, samples=1, shard_questions=len(dev))
    return measure([t for shard in shards for t in shard], setup.parts.credit())


def _report(
    stage: Stage, setup: Setup, number: int, phase: str, metrics: Mapping[str, float]
) -> None:
    shown = ("r_main", "hit_1", "ranker_well_formed", "searches", "dev_f1")
    note = " ".join(f"{name}={metrics[name]:.3f}" for name in shown if name in metrics)
    done = number + (phase == "done")
    stage.progress.show(stage.title, done, setup.parts.train.rounds, note or phase)
