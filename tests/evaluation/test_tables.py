"""Tables of results from small real rollouts."""

import dataclasses
from statistics import stdev

import polars as pl
import pytest

from cosearch.evaluation import tables
from cosearch.evaluation.comparisons import Comparison, compare
from cosearch.evaluation.published import methods

COMPARISONS = [
    Comparison("cosearch", "start", "f1"),
    Comparison("cosearch", "start", "hit_3"),
    Comparison("oracle", "retrieval_only", "em"),
    Comparison("cosearch", "fixed_ranker", "f1"),
]


def every_table(results, scope, rollouts, withheld):
    shared = {"scope": scope, "withheld": withheld}
    statistics = rollouts.statistics
    return [
        tables.main_table(results, **shared),
        tables.oracle_table(results, statistics=statistics, **shared),
        tables.comparison_table(results, COMPARISONS, statistics=statistics, **shared),
        tables.retrieval_table(results, **shared),
        tables.searches_table(results, **shared),
        tables.cost_table(results, seconds={"cosearch": 0.5}, **shared),
    ]


def rows_of(table):
    return {row.label: row for row in table.rows}


def cells_of(table, label):
    row = rows_of(table)[label]
    return {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}


@pytest.mark.parametrize("name", ["macro", "macro_groups"])
@pytest.mark.parametrize("profile", ["tiny", "paper"])
def test_every_average_is_that_of_its_cells(results, rollouts, name, profile):
    """Recomputed here from the cells, for every table that names an average."""
    scope = rollouts.scope(profile, name, backbone="Qwen2.5-7B-Instruct")
    checked = 0
    for table in every_table(results, scope, rollouts, {}):
        if table.average is None:
            continue
        column, average = table.average
        for row in table.rows:
            cells = dict(zip((c.name for c in table.columns), row.cells, strict=not row.status))
            if isinstance(cells.get(column), float):
                mean = sum(weight * cells[name] for name, weight in average.weights.items())
                assert cells[column] == pytest.approx(mean, abs=1e-12)
                checked += 1
    assert checked == 8


def test_rows_stand_in_the_papers_order_with_own_rows_below_a_rule(results, rollouts):
    scope = rollouts.scope(labels={"mine": "Mine", **rollouts.labels})
    table = tables.main_table(results, scope=scope, withheld={})
    labels = [row.label for row in table.rows]
    assert labels == [*methods(), "Mine", "Untrained agent and ranker"]
    assert [row.label for row in table.rows if row.ruled] == ["Mine"]


def test_rows_that_were_not_run_or_are_withheld_show_no_number(results, rollouts):
    withheld = {"cosearch": "ids are guessed"}
    for table in every_table(results, rollouts.scope(), rollouts, withheld):
        for row in table.rows:
            if row.label.startswith("CoSearch"):
                assert "ids are guessed" in row.status
                assert row.cells == ()
    table = tables.main_table(results, scope=rollouts.scope(), withheld=withheld)
    assert rows_of(table)["Search-R1"].status == "not run"
    assert rows_of(table)["CoSearch"].status == "withheld: ids are guessed"
    assert not any("CoSearch" in footnote for footnote in table.footnotes)


def test_nothing_run_makes_tables_without_numbers(rollouts):
    for table in every_table([], rollouts.scope(), rollouts, {}):
        assert {row.status for row in table.rows} == {"not run"}


def test_seeds_are_averaged_and_their_spread_is_shown(results, rollouts):
    table = tables.main_table(results, scope=rollouts.scope(), withheld={})
    cells = cells_of(table, "CoSearch")
    own = [one.predictions for one in results if one.system == "cosearch"]
    by_set = [frame.group_by("dataset").agg(pl.col("f1").mean())["f1"].mean() for frame in own]
    assert cells["avg (macro)"] == pytest.approx(sum(by_set) / 3)
    assert cells["± std"] == pytest.approx(stdev(by_set))
    assert cells_of(table, "Oracle")["± std"] is None
    assert any("CoSearch 0, 1, 2; " in footnote for footnote in table.footnotes)


def test_published_numbers_stand_beside_ours_under_profile_paper_only(results, rollouts):
    backbone = "Qwen2.5-3B-Instruct"
    for profile in ("tiny", "mini"):
        table = tables.main_table(
            results, scope=rollouts.scope(profile, backbone=backbone), withheld={}
        )
        assert "paper" not in " ".join(column.name for column in table.columns)
        assert "not comparable with the paper" in table.note
    table = tables.main_table(
        results, scope=rollouts.scope("paper", backbone=backbone), withheld={}
    )
    cells = cells_of(table, "Direct Inference")
    assert cells["paper avg"] == pytest.approx(0.183, abs=5e-4)
    assert cells["ours - paper"] == pytest.approx(cells["avg (macro)"] - cells["paper avg"])
    assert any("prints 0.180, its cells give 0.183" in note for note in table.footnotes)
    assert "not comparable" not in table.note


@pytest.mark.parametrize(
    ("key", "value"), [("corpus", "c1"), ("retriever", "r1"), ("top_k", 5), ("new", "x")]
)
def test_rows_of_another_key_are_refused(results, rollouts, key, value):
    mixed = [*results[:2], rollouts.result("cosearch", **{key: value})]
    pattern = rf"direct \(seed 0\) and cosearch \(seed 0\) differ in {key}: .*{value}"
    for build in (tables.main_table, tables.retrieval_table, tables.cost_table):
        with pytest.raises(ValueError, match=pattern):
            build(mixed, scope=rollouts.scope(), withheld={})
    with pytest.raises(ValueError, match=pattern):
        tables.comparison_table(
            mixed, COMPARISONS, scope=rollouts.scope(), statistics=rollouts.statistics, withheld={}
        )


def test_rows_of_other_questions_are_refused(results, rollouts):
    mixed = [*results[:1], rollouts.result("cosearch", questions=19)]
    with pytest.raises(ValueError, match="different questions"):
        tables.main_table(mixed, scope=rollouts.scope(), withheld={})


def test_rows_twice_or_unknown_are_refused(results, rollouts):
    with pytest.raises(ValueError, match="there twice"):
        tables.main_table([*results, results[0]], scope=rollouts.scope(), withheld={})
    with pytest.raises(ValueError, match="has no label"):
        tables.main_table([rollouts.result("stranger")], scope=rollouts.scope(), withheld={})
    twins = rollouts.labels | {"start": "CoSearch"}
    with pytest.raises(ValueError, match="same label"):
        tables.main_table(results, scope=rollouts.scope(labels=twins), withheld={})
    with pytest.raises(ValueError, match="without a kind"):
        tables.main_table(results, scope=rollouts.scope(kinds={"nq": "single"}), withheld={})


def test_comparison_rows_carry_difference_interval_and_verdict(results, rollouts):
    table = tables.comparison_table(
        results, COMPARISONS, scope=rollouts.scope(), statistics=rollouts.statistics, withheld={}
    )
    start, hits, _oracle, _fixed = table.rows
    cells = dict(zip((column.name for column in table.columns), start.cells, strict=True))
    assert cells["difference"] == pytest.approx(cells["left"] - cells["right"])
    assert cells["95% low"] < cells["difference"] < cells["95% high"]
    assert cells["verdict"] == "above 0"
    assert len(str(cells["by seed"]).split()) == 3
    assert hits.cells[0] == "hit_3"


def test_hit_of_a_comparison_is_the_pooled_one(results, rollouts):
    outcome = compare(
        results,
        Comparison("cosearch", "start", "hit_1"),
        scope=rollouts.scope(),
        statistics=rollouts.statistics,
        withheld={},
    )
    calls = pl.concat(one.calls for one in results if one.system == "cosearch")
    assert outcome.left == pytest.approx(calls.filter("has_answer")["hit_1"].mean())
    assert outcome.interval.estimate == pytest.approx(outcome.left - outcome.right)


def test_comparing_uses_the_seeds_both_sides_have(results, rollouts):
    given = {"scope": rollouts.scope(), "statistics": rollouts.statistics, "withheld": {}}
    outcome = compare(results, Comparison("cosearch", "oracle", "f1"), **given)
    assert len(outcome.by_seed) == 1
    only = [one for one in results if one.system == "oracle" or one.seed == 2]
    assert compare(only, Comparison("cosearch", "oracle", "f1"), **given).status == (
        "no seed in common"
    )


def test_a_comparison_does_not_depend_on_the_order_of_rows(results, rollouts):
    shuffled = [
        dataclasses.replace(
            one,
            predictions=one.predictions.sample(fraction=1, shuffle=True, seed=at),
            calls=one.calls.sample(fraction=1, shuffle=True, seed=at),
        )
        for at, one in enumerate(results)
    ]
    given = {"scope": rollouts.scope(), "statistics": rollouts.statistics, "withheld": {}}
    for comparison in COMPARISONS:
        assert compare(results, comparison, **given) == compare(shuffled[::-1], comparison, **given)


def test_systems_with_equal_answers_differ_by_nothing(results, rollouts):
    twin = [dataclasses.replace(one, system="start") for one in results if one.system == "cosearch"]
    kept = [one for one in results if one.system == "cosearch"]
    for metric in ("f1", "em", "hit_2"):
        outcome = compare(
            [*kept, *twin],
            Comparison("cosearch", "start", metric),
            scope=rollouts.scope(),
            statistics=rollouts.statistics,
            withheld={},
        )
        interval = outcome.interval
        assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)
        assert interval.verdict == "spans 0"


def test_hits_without_any_answer_are_a_status(results, rollouts):
    empty = [
        dataclasses.replace(one, calls=one.calls.filter(~pl.col("has_answer"))) for one in results
    ]
    outcome = compare(
        empty,
        Comparison("cosearch", "start", "hit_1"),
        scope=rollouts.scope(),
        statistics=rollouts.statistics,
        withheld={},
    )
    assert outcome.status == "no call with an answer among its candidates"


@pytest.mark.parametrize(
    ("left", "right", "metric"), [("a", "b", "bleu"), ("a", "b", "hit_0"), ("a", "a", "f1")]
)
def test_comparisons_that_mean_nothing_are_refused(left, right, metric):
    with pytest.raises(ValueError, match=r"metric|itself"):
        Comparison(left, right, metric)


def test_the_rule_of_the_scope_picks_the_f1(results, rollouts):
    """Golds become yes/no words: the squad rule then scores partial answers 0."""
    changed = [
        dataclasses.replace(one, predictions=one.predictions.with_columns(f1_squad=pl.col("em")))
        for one in results
    ]
    bag, squad = (
        cells_of(tables.main_table(changed, scope=rollouts.scope(rule=rule), withheld={}), "Oracle")
        for rule in ("bag", "squad")
    )
    assert squad["avg (macro)"] < bag["avg (macro)"]


def test_behaviour_tables_hold_the_numbers_of_the_frames(results, rollouts):
    shared = {"scope": rollouts.scope(), "withheld": {}}
    (one,) = (one for one in results if one.system == "oracle")
    given = one.calls.filter("has_answer")
    retrieval = cells_of(tables.retrieval_table(results, **shared), "Oracle")
    assert retrieval["Hit@1"] == given["hit_1"].mean()
    assert retrieval["retriever Hit@3"] == given["retriever_hit_3"].mean()
    searches = cells_of(tables.searches_table(results, **shared), "Oracle")
    assert (searches["1 (%)"], searches["2 (%)"], searches["mean"]) == (50.0, 50.0, 1.5)
    cost = cells_of(tables.cost_table(results, seconds={"oracle": 0.25}, **shared), "Oracle")
    assert (cost["agent sampled"], cost["ranker read"], cost["seconds"]) == (3.0, 4.5, 0.25)
    assert "seconds" not in {c.name for c in tables.cost_table(results, **shared).columns}


def test_a_seed_without_a_value_leaves_no_mean(results, rollouts):
    """One seed of CoSearch never searches: its Hit@k does not exist, nor does their mean."""
    changed = [
        dataclasses.replace(one, calls=one.calls.clear())
        if (one.system, one.seed) == ("cosearch", 1)
        else one
        for one in results
    ]
    table = tables.retrieval_table(changed, scope=rollouts.scope(), withheld={})
    assert cells_of(table, "CoSearch")["Hit@1"] is None
    assert cells_of(table, "Untrained agent and ranker")["Hit@1"] is not None


def test_every_face_of_every_table_is_the_same_bytes_twice(results, rollouts):
    first, second = (
        [
            (table.markdown(), table.csv(), table.latex(), table.html())
            for table in every_table(given, rollouts.scope(), rollouts, {"direct": "why"})
        ]
        for given in (results, results[::-1])
    )
    assert first == second
