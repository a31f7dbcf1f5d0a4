"""Joint training of one variant: opens what the loop needs, runs it, publishes the results."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from cosearch.core.protocols import Engine, RankingJudge
from cosearch.core.seeds import derive
from cosearch.core.types import Question
from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.files.artifacts import move_folder, named, write_json
from cosearch.files.hashes import hash_files
from cosearch.params import blocks
from cosearch.params.derived import EVALUATED_AS, FIXED_RANKER
from cosearch.params.rows import Training, Variant
from cosearch.rollouts.collect import Play, collect
from cosearch.rollouts.deadline import Supervision, check_judgements, guarded
from cosearch.rollouts.measure import measure
from cosearch.rollouts.pipelines import pipeline
from cosearch.rollouts.policy import Policy, serving
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.retrieved import Remembering
from cosearch.rollouts.roles import RoleTraining, open_policies
from cosearch.rollouts.states import owners
from cosearch.rollouts.trained import Diverged
from cosearch.rollouts.wiring import (
    Parts,
    engines_of,
    greedy_player,
    hashes_beside,
    open_judge,
    open_run,
    player,
    supervision,
)
from cosearch.run.events import TrainingDiverged
from cosearch.run.stage import Stage
from cosearch.train.idle import idle_rounds
from cosearch.train.loop import JointRun, LoopRules, train
from cosearch.train.observer import observer_of
from cosearch.train.ranker import read_fixed_ranker

SHOWN = ("r_main", "hit_1", "ranker_well_formed", "searches", "dev_f1")
"""Metrics of a round that progress shows."""


@dataclass(frozen=True)
class Setup:
    """One variant under one seed: parameters, folders and policies by role."""

    parts: Parts
    train: blocks.Train
    simulator: blocks.Simulator | None
    variant: Variant
    seed: int
    folders: Mapping[str, str]
    policies: Mapping[str, Policy]

    def play(self, number: int) -> Play:
        """What starts a training trajectory of round ``number`` (from 0)."""
        policies = self.policies
        ranker = policies.get("ranker", policies["agent"]).temperature
        tools = self.parts.tools(
            policies,
            ranker,
            simulator=self.simulator,
            step=number,
            steps=self.train.rounds,
        )
        stages = pipeline(self.variant.method, self.variant.ranker, tools)
        agent = policies["agent"]
        rules = self.parts.agent_rules(self.variant.method, agent.codec, agent.temperature)
        return player(self.variant.method, rules, stages, derive(self.seed, "round", number))

    def play_greedily(self) -> Play:
        """What starts a trajectory as evaluation does."""
        kind = EVALUATED_AS.get(self.variant.ranker, self.variant.ranker)
        seed = derive(self.seed, "dev")
        return greedy_player(self.parts, self.variant.method, kind, self.policies, seed)

    @property
    def learners(self) -> tuple[str, ...]:
        """Roles that are trained; empty in a run of zero rounds."""
        return learners(self.train, self.variant)

    def run(
        self,
        questions: Sequence[Question],
        dev: Sequence[Question],
        engines: Mapping[str, Engine],
        judge: RankingJudge | None,
        store: RunStore,
    ) -> JointRun:
        """What the loop works with: it trains on ``questions`` and is measured on ``dev``."""
        return JointRun(
            rules=self.rules(),
            credit=self.parts.credit(),
            guards=self.train.guards,
            questions=questions,
            play=self.play,
            policies=self.policies,
            learners=self.learners,
            engines=engines,
            judge=judge,
            evaluate=lambda: measure_dev(self, dev, engines),
            store=store,
        )

    def rules(self) -> LoopRules:
        """Sizes of the loop."""
        block = self.train
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
    settings, seed = stage.settings, row.seed
    parts, sizes = Parts.of(settings, variant.set), settings.section(blocks.Train, variant.set)
    simulated = "simulator" in variant.models
    simulator = settings.section(blocks.Simulator) if simulated else None
    folders = role_folders(parts, variant, stage.paths.needed(row.needs))
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    memory, supervised = Remembering(retriever, corpus), supervision(stage)
    models = hashes_beside(stage, folders.values())
    with open_run(stage, models, memory, sizes.checkpoint_rounds) as store, ExitStack() as stack:
        roles = learners(sizes, variant)
        training = RoleTraining(roles, store.folder, variant.shared, sizes, simulator)
        policies = open_policies(parts, variant.ranker, folders, training)
        stack.enter_context(serving(policies))
        setup = Setup(parts, sizes, simulator, variant, seed, folders, policies)
        engines = engines_of(memory, policies, supervised)
        dev = read_questions(stage.paths, "dev")
        judge = judge_of(parts, stage, supervised)
        run = setup.run(read_questions(stage.paths, "train"), dev, engines, judge, store)
        diverged = train(run, observer_of(stage, sizes.rounds, SHOWN))
        if diverged:
            stage.monitor.tell(TrainingDiverged(diverged.round, diverged.reason))
        publish(setup, store, target, diverged)
        store.discard()


def learners(sizes: blocks.Train, variant: Variant) -> tuple[str, ...]:
    """The variant's learning roles; empty when no round is planned."""
    return variant.train if sizes.rounds else ()


def role_folders(parts: Parts, variant: Variant, needed: Path) -> dict[str, str]:
    """The model folder that each role starts from; ``needed`` holds the Fixed Ranker's record."""
    return {
        role: read_fixed_ranker(needed) if name == FIXED_RANKER else parts.model(name)
        for role, name in variant.models.items()
    }


def judge_of(parts: Parts, stage: Stage, supervision: Supervision) -> RankingJudge | None:
    """The judge, if one rewards the variant's ranker, else None; a file keeps what it said."""
    if parts.method.reward.source != "judge":
        return None
    block = stage.settings.section(blocks.Judge)
    judge = open_judge(block, parts.model(block.model), stage.paths.judge_answers)
    return cast(RankingJudge, guarded("judge", judge, supervision.limits, check_judgements))


def publish(setup: Setup, store: RunStore, target: Path, diverged: Diverged | None) -> None:
    """Write trained models, rollouts, metrics, and trained.json: where each role's model is, under
    which overrides it was trained, how the run ended, and how many rounds trained a role on
    nothing. A diverged run leaves the models of the last good round, or without such a round the
    folders that its roles began with."""
    good = diverged.round - 1 if diverged else setup.train.rounds
    aside = store.fresh("published")
    store.publish(aside, diverged.round if diverged else setup.train.rounds)
    models = dict(setup.folders)
    owner = owners(setup.policies, setup.learners)
    for role in setup.learners if good else ():
        if owner[role] == role:
            with named(target / role):
                setup.policies[role].export(aside / role)
        models[role] = str(target / owner[role])
    record = {
        "models": models,
        "rounds": setup.train.rounds,
        "set": dict(setup.variant.set),
        "diverged": asdict(diverged) if diverged else None,
        "accepted": store.accepted,
        "idle": idle_rounds(store.metrics()),
        "files": hash_files(aside),
    }
    write_json(aside / "trained.json", record)
    move_folder(aside, target)


def measure_dev(
    setup: Setup, dev: Sequence[Question], engines: Mapping[str, Engine]
) -> dict[str, float]:
    """Measures of the current policies on the development questions ``dev``; empty without
    questions, and in a run that trains no role."""
    if not dev or not setup.learners:
        return {}
    play = setup.play_greedily()
    shards = collect(play, dev, engines, samples=1, shard_questions=len(dev))
    return measure([t for shard in shards for t in shard], setup.parts.credit())
