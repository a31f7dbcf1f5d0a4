"""Evaluation of one system: greedy trajectories over the test questions, scored and recorded."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from cosearch import schema
from cosearch.artifacts import hash_file, write_frame, write_json
from cosearch.core.seeds import derive
from cosearch.core.types import Question, Trajectory
from cosearch.data.assemble import read_kinds, read_questions
from cosearch.data.index import open_corpus
from cosearch.evaluation.metrics import calls_frame, predictions_frame, summary
from cosearch.stage import Stage
from cosearch.train.collect import collect
from cosearch.train.joint import read_trained
from cosearch.train.policy import Policy
from cosearch.train.wiring import Parts, engines_of, open_policy, player


def evaluate_system(stage: Stage, name: str, seed: int, target: Path) -> None:
    """Write predictions, calls and metrics of system ``name`` under ``target``; a system that the
    profile does not name is skipped and shows as not run."""
    system, block = stage.settings.system(name), stage.settings.section(schema.Evaluate)
    if block.systems is not None and name not in block.systems:
        write_json(target / "skipped.json", {"reason": "evaluate.systems does not name it"})
        return
    folders, overrides = trained_models(stage, system, seed)
    parts = Parts.of(stage.settings, overrides | system.set)
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    policies = open_policies(parts, system, folders)
    questions = pick_questions(read_questions(stage.paths, block.split), block.questions_per_set)
    greedy = parts.method.rollout.eval_temperature
    ranker = policies.get("ranker")
    stages = parts.stages(system.ranker, ranker.codec if ranker else None, greedy)
    rules = parts.agent_rules(policies["agent"].codec, greedy)
    play = player(system.method, rules, stages, derive(seed, "evaluate"))
    trajectories: list[Trajectory] = []
    for shard in collect(
        play,
        questions,
        engines_of(retriever, policies, stage.sign),
        samples=1,
        shard_questions=block.shard_questions,
    ):
        trajectories.extend(shard)
        stage.progress.show(stage.title, len(trajectories), len(questions), "questions")
    key: dict[str, str | int] = {
        "corpus": corpus.sha256,
        "index": hash_file(stage.paths.index / "manifest.json"),
        "top_k": parts.method.rollout.top_k,
        "yes_no_rule": parts.method.reward.yes_no_rule,
    }
    write_result(trajectories, parts, stage, name, seed, key, target)


def trained_models(
    stage: Stage, system: schema.System, seed: int
) -> tuple[dict[str, str], dict[str, Any]]:
    """Model folders of a system's variant and the overrides it was trained under."""
    if system.variant != "base":
        trained = read_trained(stage.paths.train(system.variant, seed))
        return trained.models, trained.overrides
    models = stage.settings.section(schema.Models)
    return {"agent": models.agent, "ranker": models.ranker}, {}


def open_policies(
    parts: Parts, system: schema.System, folders: Mapping[str, str]
) -> dict[str, Policy]:
    """The agent, and the ranker where the system ranks by generating."""
    greedy = parts.method.rollout.eval_temperature
    policies = {"agent": open_policy(folders["agent"], parts.agent, greedy)}
    if system.ranker == "generative":
        policies["ranker"] = open_policy(folders["ranker"], parts.ranker, greedy)
    return policies


def pick_questions(questions: Sequence[Question], per_set: int | None) -> list[Question]:
    """The first ``per_set`` questions of every data set in the order of their hashed ids."""
    if per_set is None:
        return list(questions)
    ordered = sorted(questions, key=lambda q: (q.dataset, derive("pick", q.dataset, q.id)))
    return [
        question
        for _, rows in groupby(ordered, key=lambda q: q.dataset)
        for question in list(rows)[:per_set]
    ]


def write_result(
    trajectories: Sequence[Trajectory],
    parts: Parts,
    stage: Stage,
    name: str,
    seed: int,
    key: Mapping[str, str | int],
    target: Path,
) -> None:
    """Predictions, calls and metrics.json (with the key that tables compare) of one system."""
    credit = parts.credit()
    predictions = predictions_frame(
        trajectories,
        system=name,
        seed=seed,
        kinds=read_kinds(stage.paths),
        reward_rules=credit.reward,
    )
    calls = calls_frame(
        trajectories,
        system=name,
        seed=seed,
        relevance=credit.relevance,
        reward_rules=credit.reward,
    )
    write_frame(target / "predictions.parquet", predictions)
    write_frame(target / "calls.parquet", calls)
    write_json(target / "metrics.json", {"key": dict(key), **summary(predictions, calls)})
