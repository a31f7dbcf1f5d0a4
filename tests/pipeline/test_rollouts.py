"""The questions of docs/rollouts.md, asked of the micro project: their answers are those that its
tables of predictions, calls and rounds give."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.pipeline.documents import Block, blocks
from tests.pipeline.project import Project

MAX_LINES = 5
ROUNDS = "artifacts/tiny/train/core/seed_0/cosearch/metrics.csv"
EVALUATED = "artifacts/tiny/evaluate/core/seed_0/*"
START, *QUESTIONS = [
    block
    for block in blocks()
    if block.file == "docs/rollouts.md" and block.language in ("python", "sql")
]


def run(block: Block, names: dict[str, Any]) -> pl.DataFrame | None:
    """The value of a block's last line, if it is an expression."""
    if block.language == "sql":
        return duckdb.sql(block.text).pl()
    *lines, last = ast.parse(block.text).body
    if not isinstance(last, ast.Expr):
        exec(block.text, names)
        return None
    exec(compile(ast.Module(lines, []), block.name, "exec"), names)
    found: pl.DataFrame = eval(compile(ast.Expression(last.value), block.name, "eval"), names)
    return found


@pytest.fixture(scope="module")
def answers(reproduced: Project) -> Iterator[list[pl.DataFrame]]:
    """What each question gives, in the order of the document."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(reproduced.folder)
        names: dict[str, Any] = {}
        assert run(START, names) is None
        found = [run(block, names) for block in QUESTIONS]
        yield [frame for frame in found if frame is not None]


@pytest.fixture
def rounds(reproduced: Project) -> pl.DataFrame:
    """What training counted itself, from the first round on."""
    return pl.read_csv(reproduced.folder / ROUNDS).filter(pl.col("round") > 0)


def table(project: Project, name: str) -> pl.DataFrame:
    return pl.read_parquet(project.folder / EVALUATED / f"{name}.parquet")


def test_there_are_ten_short_questions(answers: list[pl.DataFrame]) -> None:
    assert len(answers) == len(QUESTIONS) == 10
    assert {block.language for block in QUESTIONS} == {"python", "sql"}
    assert max(len(block.text.splitlines()) for block in QUESTIONS) <= MAX_LINES


def test_a_rescue_is_a_hit_that_the_retriever_misses(
    answers: list[pl.DataFrame], reproduced: Project
) -> None:
    calls = table(reproduced, "calls")
    rescued = calls.filter(pl.col("hit_3") > pl.col("retriever_hit_3"))
    assert rescued.height > 0
    columns = ["system", "dataset", "query"]
    assert answers[0].select(columns).sort(columns).equals(rescued.select(columns).sort(columns))


def test_a_question_that_one_system_wins_has_the_better_answer(
    answers: list[pl.DataFrame], reproduced: Project
) -> None:
    key = ["dataset", "question_id"]
    scores = table(reproduced, "predictions").pivot("system", index=key, values="f1")
    better = scores.filter(pl.col("cosearch") > pl.col("fixed_ranker")).select(key)
    won = answers[1].filter(pl.col("gain") > 0)
    assert answers[1]["gain"].is_sorted(descending=True)
    assert better.join(won, on=key, how="anti").is_empty()


def test_repeats_lengths_and_ends_are_those_of_the_predictions(
    answers: list[pl.DataFrame], reproduced: Project
) -> None:
    repeats, turns, ends = answers[2:5]
    asked = table(reproduced, "calls").group_by("system", "question_id")
    again = asked.agg(repeated=pl.col("query").n_unique() < pl.len()).group_by("system")
    wanted = again.agg(pl.len(), pl.col("repeated").mean()).sort("system")
    assert repeats.equals(wanted)
    predictions = table(reproduced, "predictions")
    written = turns.group_by("system").agg(tokens=(pl.col("len") * pl.col("tokens")).sum().round())
    sampled = predictions.group_by("system").agg(tokens=pl.col("agent_tokens").sum().cast(float))
    assert written.sort("system").equals(sampled.sort("system"))
    key = ["system", "dataset", "terminal", "fault"]
    assert ends.sort(key).equals(predictions.group_by(key).len().sort(key))


def test_groups_are_those_that_training_counted(
    answers: list[pl.DataFrame], rounds: pl.DataFrame
) -> None:
    groups, gaps = answers[5:7]
    assert groups["len"].is_sorted(descending=True)
    assert (groups["query"].list.len() <= groups["len"]).all()
    counted = groups.group_by("round").agg(pl.len(), pl.col("len").sum().alias("calls"))
    told = rounds.filter(pl.col("groups") > 0).select("groups", "grouped_calls")
    assert counted.sort("round").select("len", "calls").rows() == told.rows()
    assert 0 < gaps["gap"].max() < 1e-3  # type: ignore[operator]


def test_payments_and_spread_are_those_that_training_counted(
    answers: list[pl.DataFrame], rounds: pl.DataFrame
) -> None:
    paid, repeated, spread = answers[7:10]
    counted = [row for (row,) in rounds.select(pl.col("calls").cast(pl.Int64)).rows()]
    assert paid.group_by("round").agg(pl.col("calls").sum()).sort("round")["calls"].to_list() == (
        counted
    )
    assert repeated["calls"].to_list() == counted
    assert repeated["repeated"].is_between(0, 1).all()
    alike = rounds["agent_constant_groups"].to_list()
    assert spread["without_spread"].to_list() == pytest.approx(alike)
    assert spread["round"].to_list() == rounds["round"].cast(int).to_list() == [1, 2]


def test_the_report_shows_the_same_test_questions_for_every_system(reproduced: Project) -> None:
    page = (reproduced.folder / "artifacts/tiny/report/core_1/report.html").read_text("utf-8")
    (data,) = re.findall(r'id="episodes-data">(.*?)</script>', page)
    held, asked = json.loads(data), defaultdict(set)
    for one in held["episodes"]:
        if one["round"] is None:
            asked[one["variant"]].add(one["question_id"])
    assert held["systems"][:2] == ["CoSearch, seed 0", "Fixed Ranker, seed 0"]
    assert set(asked) == set(held["systems"]) and len(asked) == 7
    assert all(one == asked["CoSearch, seed 0"] for one in asked.values())
    assert "28 of 28 test questions, the same questions for all 7 systems" in page


def test_an_evaluation_keeps_what_its_tables_hold(reproduced: Project) -> None:
    calls, whole = table(reproduced, "calls"), table(reproduced, "trajectories")
    predictions, ends = table(reproduced, "predictions"), whole.filter(kind="trajectory")
    searches = whole.filter(kind="call")
    shared = ["dataset", "question_id", "question", "golds", "terminal", "fault"]
    assert ends.select(shared).equals(predictions.select(shared))
    assert ends["answer"].equals(predictions["prediction"], check_names=False)
    assert searches.select("question_id", "query", "has_answer", "r_rel").equals(
        calls.select("question_id", "query", "has_answer", "r_rel")
    )
    ids = searches["candidates"].list.eval(pl.element().struct.field("id"))
    assert ids.equals(calls["candidate_ids"], check_names=False)
    learning = ["round", "ids", "loss_mask", "logprobs", "trainer_logprobs", "advantages"]
    learning += ["group", "advantage", "trained", "weights"]
    assert whole.select(learning).null_count().row(0) == (whole.height,) * len(learning)
