"""Evaluation of one system: greedy trajectories over the test questions, scored and recorded."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from cosearch.core.protocols import Engine
from cosearch.core.seeds import derive
from cosearch.core.types import Question, Trajectory
from cosearch.data.assemble import read_kinds, read_questions
from cosearch.data.index import open_corpus
from cosearch.evaluation.opened import open_system, start_of
from cosearch.evaluation.whole import TRAJECTORIES, whole_trajectories
from cosearch.files.artifacts import ROLLOUT_SCHEMA, SKIPPED, write_frame, write_json
from cosearch.files.hashes import hash_file
from cosearch.params import blocks, rows
from cosearch.rollouts.collect import Kept, Play, collect
from cosearch.rollouts.policy import serving
from cosearch.rollouts.retrieved import Remembering
from cosearch.rollouts.trained import Trained
from cosearch.rollouts.wiring import Parts, engines_of, hashes_beside, open_run, supervision
from cosearch.run.stage import Stage
from cosearch.scores.metrics import Numbers, calls_frame, predictions_frame, summary


def evaluate_system(stage: Stage, row: rows.Evaluation, target: Path) -> None:
    """Write trajectories, predictions, calls and metrics of a row's system under ``target``. A
    system that the profile does not name is recorded as not run, and a diverged one as diverged."""
    system, block = stage.settings.system(row.system), stage.settings.section(blocks.Evaluate)
    if block.systems is not None and row.system not in block.systems:
        write_json(target / SKIPPED, {"status": "not run"})
        return
    base = Parts.of(stage.settings, {})
    needed = stage.paths.needed(row.needs)
    trained = start_of(base, system, needed)
    if trained.diverged:
        status = f"diverged in round {trained.diverged.round}: {trained.diverged.reason}"
        write_json(target / SKIPPED, {"status": status})
        return
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    memory = Remembering(retriever, corpus)
    opened = open_system(stage.settings, row, trained)
    models = model_hashes(stage, trained, needed)
    key: dict[str, str | int] = {
        "corpus": corpus.sha256,
        "index": hash_file(stage.paths.index / "manifest.json"),
        "top_k": opened.parts.method.rollout.top_k,
        "yes_no_rule": base.method.reward.yes_no_rule,
    }
    with open_run(stage, models, memory) as store, serving(opened.policies):
        engines = engines_of(memory, opened.policies, supervision(stage))
        trajectories = answer_questions(stage, block, opened.play, engines, store.shards(0))
        asked = sorted({call.query for one in trajectories for call in one.calls})
        cut = frozenset(retriever.cut_queries(asked))
        record = {"key": key} | ({"accepted": store.accepted} if store.accepted else {})
        numbers = write_result(trajectories, base, stage, row, record, cut, target)
        stage.publish_table(f"Scores of {system.label}", scores_by_set(numbers))
        store.discard()


def answer_questions(
    stage: Stage, block: blocks.Evaluate, play: Play, engines: Mapping[str, Engine], kept: Kept
) -> list[Trajectory]:
    """One trajectory per test question. ``kept`` keeps finished shards over a kill."""
    questions = pick_questions(read_questions(stage.paths, block.split), block.questions_per_set)
    trajectories: list[Trajectory] = []
    shards = collect(
        play, questions, engines, samples=1, shard_questions=block.shard_questions, kept=kept
    )
    for shard in shards:
        trajectories.extend(shard)
        stage.progress.show(stage.title, len(trajectories), len(questions), "questions")
    return trajectories


def model_hashes(stage: Stage, trained: Trained, needed: Path) -> dict[str, str]:
    """Hashes that change when models change which the stage's identity does not hold. Trained
    models are large, so the hash of their record stands for them: it holds their hashes, and
    ``read_trained`` has checked these."""
    record, folders = needed / "trained.json", set(trained.models.values())
    own = {folder for folder in folders if Path(folder).is_relative_to(needed)}
    told = {record.as_posix(): hash_file(record)} if own else {}
    return told | hashes_beside(stage, folders - own)


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
    base: Parts,
    stage: Stage,
    row: rows.Evaluation,
    record: Mapping[str, Any],
    cut_queries: Collection[str],
    target: Path,
) -> Numbers:
    """Write whole trajectories, predictions, calls and metrics.json of one system: the hashes of
    predictions and calls, ``record`` (in it the key that tables compare), and the measures, which
    are returned. ``cut_queries``: those of which the encoder read the beginning alone.

    Every row is measured by the rules of ``base``, also if it was trained under other rules.
    """
    credit = base.credit()
    predictions = predictions_frame(
        trajectories,
        system=row.system,
        seed=row.seed,
        kinds=read_kinds(stage.paths),
        reward_rules=credit.reward,
    )
    calls = calls_frame(
        trajectories,
        system=row.system,
        seed=row.seed,
        relevance=credit.relevance,
        reward_rules=credit.reward,
        cut_queries=cut_queries,
    )
    write_frame(target / TRAJECTORIES, whole_trajectories(trajectories, credit), ROLLOUT_SCHEMA)
    frames = {"predictions.parquet": predictions, "calls.parquet": calls}
    for name, frame in frames.items():
        write_frame(target / name, frame)
    files = {name: hash_file(target / name) for name in frames}
    numbers = summary(predictions, calls)
    write_json(target / "metrics.json", {**record, "files": files, **numbers})
    return numbers


def scores_by_set(numbers: Numbers) -> list[dict[str, Any]]:
    """A row for each average and each data set of ``summary``: its name, and F1, EM and the mean
    number of searches."""
    averages = {f"average ({name})": told for name, told in numbers["averages"].items() if told}
    return [
        {"set": name, **{column: told[column] for column in ("f1", "em", "searches")}}
        for name, told in {**averages, **numbers["datasets"]}.items()
    ]
