"""Tables of results from small real rollouts."""

import dataclasses
from collections import Counter
from statistics import stdev

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.paper.published import methods
from cosearch.params.rows import Detectable, OraclePair
from cosearch.tables.ablations import ablation_table, walk_table
from cosearch.tables.behaviour import cost_table, retrieval_table, searches_table
from cosearch.tables.contrasts import comparison_table, detectable_table
from cosearch.tables.grid import DocumentGrid, grid_change_table, grid_table
from cosearch.tables.main import main_table, scores_table
from cosearch.tables.oracle_gap import oracle_table
from tests.evaluated import COMPARISONS, KINDS, make_comparison


def every_table(results, scope, rollouts, status, backbone=None):
    shown, block = rollouts.set_of(results, scope=scope, status=status), rollouts.block(backbone)
    oracle = OraclePair(name="large", backbone=backbone, standard="retrieval_only", oracle="oracle")
    cells = {
        (label, 3): [one for one in results if one.system == system]
        for system, label in rollouts.labels.items()
    }
    grid = DocumentGrid(cells, {rollouts.labels[name]: why for name, why in status.items()}, 3)
    return [
        main_table(shown, block),
        scores_table(shown, block),
        oracle_table(shown, oracle),
        comparison_table(shown, COMPARISONS),
        detectable_table(shown, Detectable(left="cosearch", right="start")),
        ablation_table(shown, block),
        walk_table(shown, block),
        grid_table(shown, grid, backbone),
        grid_change_table(shown, grid),
        retrieval_table(shown, block),
        searches_table(shown, block),
        cost_table(shown, block, {"cosearch": 0.5}),
    ]


def rows_of(table):
    return {row.label: row for row in table.rows}


def cells_of(table, label):
    row = rows_of(table)[label]
    return {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}


@pytest.mark.parametrize("name", ["macro", "macro_groups"])
@pytest.mark.parametrize("profile", ["tiny", "paper"])
def test_every_average_is_that_of_its_cells(results, rollouts, name, profile):
    """Recomputed here from the cells, for every table that names averages."""
    scope = rollouts.scope(profile, name)
    checked = Counter()
    for table in every_table(results, scope, rollouts, {}, backbone="Qwen2.5-7B-Instruct"):
        for row in table.rows:
            cells = table.numbers(row)
            for column, average in table.averages:
                if column in cells:
                    mean = sum(weight * cells[name] for name, weight in average.weights.items())
                    assert cells[column] == pytest.approx(mean, abs=1e-12)
                    checked[table.name] += 1
    assert checked == {
        "main_large": 6 * 4,
        "scores_large": 6 * 9,
        "oracle_large": 2,
        "ablations_large": 6,
        "walk_large": 6,
        "grid": 6,
    }


@given(
    skills=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 9), min_size=7, max_size=7),
    seed=st.integers(0, 5),
)
@settings(max_examples=15, deadline=None)
def test_em_never_exceeds_f1_and_averages_follow_for_any_results(rollouts, skills, sizes, seed):
    """Sets of unequal size, so that micro is another number than macro."""
    labels = {"cosearch": "CoSearch", "oracle": "Oracle", "direct": "Mine"}
    given_ = [
        cut(rollouts.result(system, seed=seed, skill=skill, questions=9), sizes)
        for system, skill in zip(labels, skills, strict=False)
    ]
    shown = rollouts.set_of(given_, scope=rollouts.scope(labels=labels))
    block = rollouts.block(labels=labels)
    scores, main = (build(shown, block) for build in (scores_table, main_table))
    for result in given_:
        em, f1 = (cells_of(table, labels[result.system]) for table in (scores, main))
        for name in ("macro", "macro_groups", "micro"):
            assert em[f"EM {name}"] <= em[f"F1 squad {name}"] <= em[f"F1 bag {name}"] <= 1
            assert f1[f"avg ({name})"] == em[f"F1 bag {name}"]
        assert em["EM micro"] == pytest.approx(result.predictions["em"].mean())
        assert f1["EM (macro)"] == em["EM macro"]


def cut(result, sizes):
    """The first so many questions of each data set."""
    parts = [
        result.predictions.filter(pl.col("dataset") == name).head(size)
        for name, size in zip(KINDS, sizes, strict=True)
    ]
    return dataclasses.replace(result, predictions=pl.concat(parts))


def test_rows_stand_in_the_papers_order_with_own_rows_below_a_rule(results, rollouts):
    labels = {"mine": "Mine", **rollouts.labels}
    scope, block = rollouts.scope(labels=labels), rollouts.block(labels=labels)
    table = main(results, rollouts, scope=scope, block=block)
    labels = [row.label for row in table.rows]
    assert labels == [*methods(), "Mine", "Untrained agent and ranker"]
    assert [row.label for row in table.rows if row.ruled] == ["Mine"]


def test_rows_with_a_status_show_it_and_no_number(results, rollouts):
    status = {"cosearch": "diverged at round 7: the loss is no number"}
    for table in every_table(results, rollouts.scope(), rollouts, status):
        for row in table.rows:
            if row.label.startswith("CoSearch"):
                assert status["cosearch"] in row.status
                assert row.cells == ()
    table = main(results, rollouts, status=status)
    assert rows_of(table)["Search-R1"].status == "not run"
    assert rows_of(table)["CoSearch"].status == status["cosearch"]
    assert not any("CoSearch" in footnote for footnote in table.footnotes)


def test_nothing_run_makes_tables_without_numbers(rollouts):
    for table in every_table([], rollouts.scope(), rollouts, {}):
        assert {row.status for row in table.rows} <= {"not run"}


def main(results, rollouts, block=None, **changes):
    return main_table(rollouts.set_of(results, **changes), block or rollouts.block())


def test_seeds_are_averaged_and_their_spread_is_shown(results, rollouts):
    table = main(results, rollouts)
    cells = cells_of(table, "CoSearch")
    own = [one.predictions for one in results if one.system == "cosearch"]
    by_set = [frame.group_by("dataset").agg(pl.col("f1").mean())["f1"].mean() for frame in own]
    assert cells["avg (macro)"] == pytest.approx(sum(by_set) / 3)
    assert cells["± std"] == pytest.approx(stdev(by_set))
    assert cells_of(table, "Oracle")["± std"] is None
    assert any("CoSearch 0, 1, 2; " in footnote for footnote in table.footnotes)


def test_blocks_carry_the_same_labels_for_other_systems(results, rollouts):
    """The small agent's CoSearch is another system under the same published name."""
    own = [dataclasses.replace(one, system="small") for one in results if one.system == "oracle"]
    labels = rollouts.labels | {"small": "CoSearch, small agent"}
    block = rollouts.block(name="small", labels={"small": "CoSearch"})
    scope = rollouts.scope(labels=labels)
    table = main([*results, *own], rollouts, scope=scope, block=block)
    assert table.name == "main_small"
    oracle = cells_of(main(results, rollouts), "Oracle")
    assert cells_of(table, "CoSearch") == oracle
    row = block.rows[0]
    twice = block.model_copy(update={"rows": (row, row.model_copy(update={"label": "B"}))})
    with pytest.raises(ValueError, match="block small: small is there twice"):
        main(own, rollouts, scope=scope, block=twice)


def test_no_published_number_stands_beside_ours_but_under_profile_paper(results, rollouts):
    """Every face of every table is the same, whether a backbone is named or not."""
    for profile in ("tiny", "mini"):
        scope = rollouts.scope(profile)
        bare, named = (
            every_table(results, scope, rollouts, {}, backbone=backbone)
            for backbone in (None, "Qwen2.5-7B-Instruct")
        )
        assert bare == named
        for table in named:
            texts = [table.title, table.note, *table.footnotes, *(c.name for c in table.columns)]
            assert "paper" not in " ".join(texts).replace("not comparable with the paper", "")
            assert "not comparable with the paper" in table.note
    scope = rollouts.scope("paper")
    assert every_table(results, scope, rollouts, {}) != every_table(
        results, scope, rollouts, {}, backbone="Qwen2.5-7B-Instruct"
    )


def test_the_papers_average_is_recomputed_from_its_cells(results, rollouts):
    block = rollouts.block("Qwen2.5-3B-Instruct", "small")
    table = main(results, rollouts, scope=rollouts.scope("paper"), block=block)
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
    shown = rollouts.set_of(mixed)
    builders = (main_table, scores_table, retrieval_table, searches_table, cost_table)
    for build in (*builders, ablation_table, walk_table):
        with pytest.raises(ValueError, match=pattern):
            build(shown, rollouts.block())
    if key != "top_k":  # K belongs to a system, so systems may be compared that differ in it
        with pytest.raises(ValueError, match=pattern):
            comparison_table(shown, [make_comparison("cosearch", "direct")])


def test_results_of_rows_that_a_table_does_not_hold_do_not_disturb_it(results, rollouts):
    labels = rollouts.labels | {"other": "Other K"}
    more = [*results, rollouts.result("other", top_k=5)]
    scope = rollouts.scope(labels=labels)
    assert main(more, rollouts, scope=scope) == main(results, rollouts)


def test_a_key_may_vary_where_the_block_says_so_and_the_reader_is_told(results, rollouts):
    mixed = [one for one in results if one.system != "direct"]
    mixed.append(rollouts.result("direct", skill=0.1, top_k=1))
    free = rollouts.block(varying=["top_k"])
    table = main(mixed, rollouts, block=free)
    (note,) = (note for note in table.footnotes if note.startswith("Rows differ in top_k"))
    assert "Direct Inference 1; Retrieval Only 3; " in note
    same = main(results, rollouts, block=free)
    assert same == main(results, rollouts)


def test_rows_of_other_questions_are_refused(results, rollouts):
    mixed = [*results[:1], rollouts.result("cosearch", questions=19)]
    with pytest.raises(ValueError, match=r"different questions \(2wikimultihopqa 20 and 19, "):
        main(mixed, rollouts)


def test_a_set_or_a_score_that_is_missing_is_named(rollouts):
    result = rollouts.result("cosearch")
    kept = result.predictions.filter(pl.col("dataset") != "nq")
    without = dataclasses.replace(result, predictions=kept)
    with pytest.raises(ValueError, match=r"^cosearch-0: 0 questions of nq, which the profile"):
        without.check_sets(rollouts.kinds)
    with pytest.raises(ValueError, match=r"^cosearch-0: no question of nq was evaluated"):
        without.mean("f1", "nq")
    first = pl.col("question_id").is_in(["nq-0", "nq-1"])
    for lost in (None, float("nan")):
        frame = result.predictions.with_columns(f1=pl.when(~first).then("f1").otherwise(lost))
        with pytest.raises(ValueError, match=r"^cosearch-0: 2 of 20 questions of nq have a score"):
            dataclasses.replace(result, predictions=frame).check_scores()


def test_rows_twice_or_unknown_are_refused(results, rollouts):
    with pytest.raises(ValueError, match="there twice"):
        main([*results, results[0]], rollouts)
    with pytest.raises(ValueError, match="has no label"):
        main([rollouts.result("x")], rollouts, block=rollouts.block(labels={"x": "X"}))
    with pytest.raises(ValueError, match="CoSearch is there twice"):
        main(
            results, rollouts, block=rollouts.block(labels=rollouts.labels | {"start": "CoSearch"})
        )
    with pytest.raises(ValueError, match="without a kind"):
        main(results, rollouts, scope=rollouts.scope(kinds={"nq": "single"}))


def test_the_rule_of_the_scope_picks_the_f1(results, rollouts):
    """Golds become yes/no words: the squad rule then scores partial answers 0."""
    changed = [
        dataclasses.replace(one, predictions=one.predictions.with_columns(f1_squad=pl.col("em")))
        for one in results
    ]
    bag, squad = (
        cells_of(main(changed, rollouts, scope=rollouts.scope(rule=rule)), "Oracle")
        for rule in ("bag", "squad")
    )
    assert squad["avg (macro)"] < bag["avg (macro)"]


def test_every_face_of_every_table_is_the_same_bytes_twice(results, rollouts):
    first, second = (
        [
            (table.markdown(), table.csv(), table.latex())
            for table in every_table(given, rollouts.scope(), rollouts, {"direct": "why"})
        ]
        for given in (results, results[::-1])
    )
    assert first == second
