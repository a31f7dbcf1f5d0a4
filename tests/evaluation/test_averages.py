"""Named averages, and the paper's printed ones recomputed from its own cells."""

import pytest

from cosearch.paper.published import average_fault, main_cells, methods, published
from cosearch.scores.averages import (
    Average,
    average,
    every_average,
    kind_average,
    named_after,
    over_kinds,
)

BIG, SMALL = "Qwen2.5-7B-Instruct", "Qwen2.5-3B-Instruct"


def test_macro_and_macro_groups_differ():
    kinds = {"a": "single", "b": "multi", "c": "multi", "d": "multi"}
    cells = {"a": 1.0, "b": 0.0, "c": 0.3, "d": 0.6}
    assert average("macro", kinds).of(cells) == pytest.approx(1.9 / 4)
    assert average("macro_groups", kinds).of(cells) == pytest.approx((1.0 + 0.3) / 2)
    assert kind_average("multi", kinds).of(cells) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("name", "kinds", "reason"),
    [
        ("macro", {}, "no data set"),
        ("mean", {"a": "single"}, "neither macro nor macro_groups"),
        ("macro_groups", {"a": "single"}, "needs single and multi"),
        ("macro_groups", {"a": "single", "b": "triple"}, "needs single and multi"),
    ],
)
def test_averages_that_mean_nothing_are_refused(name, kinds, reason):
    with pytest.raises(ValueError, match=reason):
        average(name, kinds)


def test_every_average_that_exists():
    kinds = {"a": "single", "b": "multi", "c": "multi"}
    looks = every_average(kinds, {"a": 10, "b": 20, "c": 70})
    cells = {"a": 1.0, "b": 0.5, "c": 0.0}
    assert {name: look.of(cells) for name, look in looks.items()} == pytest.approx(
        {"macro": 0.5, "macro_groups": 0.625, "micro": 0.2}
    )
    assert list(every_average(kinds, {})) == ["macro", "macro_groups"]
    assert list(every_average({"a": "single"}, {"a": 3})) == ["macro", "micro"]


def test_an_average_over_kinds_is_that_over_sets():
    kinds = {"a": "single", "b": "multi", "c": "multi"}
    cells = {"a": 0.9, "b": 0.5, "c": 0.1}
    means = {kind: kind_average(kind, kinds).of(cells) for kind in ("single", "multi")}
    for name in ("macro", "macro_groups"):
        look = average(name, kinds)
        assert over_kinds(look, kinds).of(means) == pytest.approx(look.of(cells))
    assert over_kinds(Average("a", {"a": 1.0}), kinds) is None


def test_an_average_named_after_a_score_rests_on_the_cells_of_that_score():
    look = named_after(Average("macro", {"a": 0.5, "b": 0.5}), "em")
    assert look.of({"em/a": 0.0, "em/b": 1.0, "a": 5.0}) == 0.5


def test_weights_must_sum_to_one():
    with pytest.raises(ValueError, match="sum to"):
        Average("odd", {"a": 0.5, "b": 0.4})


def test_a_missing_cell_is_an_error():
    with pytest.raises(KeyError, match="b"):
        average("macro", {"a": "single", "b": "multi"}).of({"a": 1.0})


def test_the_ten_methods_keep_the_papers_order():
    assert methods()[0] == "Direct Inference"
    assert methods()[-3:] == ("Fixed Ranker", "CoSearch", "Oracle")
    assert len(methods()) == 10


@pytest.mark.parametrize(
    ("backbone", "faults"),
    [
        (BIG, {}),
        (SMALL, {"Direct Inference": 0.183, "RAG": 0.260, "Search-o1": 0.264}),
    ],
)
def test_printed_averages_of_table_2(rollouts, backbone, faults):
    macro = average("macro", rollouts.kinds)
    found = {
        method: round(fault, 3)
        for method in methods()
        if (fault := average_fault(main_cells(method, backbone), macro)) is not None
    }
    assert found == faults


def test_rounding_of_cells_and_average_is_no_fault():
    """Cells of .3335 and .1115 print as .334 and .112; their mean .2225 may print as .222."""
    macro = average("macro", {"a": "single", "b": "multi"})
    assert average_fault({"a": 0.334, "b": 0.112, "avg": 0.222}, macro) is None
    assert average_fault({"a": 0.334, "b": 0.112, "avg": 0.221}, macro) == pytest.approx(0.223)


def test_table_3_prints_two_different_averages():
    """Some rows are macro over seven sets, others the mean of the two groups."""
    rows: dict[str, dict[str, float]] = {}
    for row in published(3):
        if row.metric == "F1":
            rows.setdefault(row.method, {})[row.dataset] = float(row.value)
    macro = Average("macro", {"single_hop": 3 / 7, "multi_hop": 4 / 7})
    groups = Average("macro_groups", {"single_hop": 0.5, "multi_hop": 0.5})
    mixed = {
        method
        for method, cells in rows.items()
        if average_fault(cells, macro) is not None and average_fault(cells, groups) is None
    }
    assert mixed == {"w/o r_main", "w/o r_rel", "w/o semantic grouping", "Cross-Encoder Ranker"}
    assert macro.of(rows["w/o r_main"]) == pytest.approx(0.553, abs=5e-4)
    assert macro.of(rows["w/o r_rel"]) == pytest.approx(0.546, abs=5e-4)


def test_table_1_agrees_with_table_2(rollouts):
    """Standard is Retrieval Only and Oracle is Oracle, per group of sets."""
    for shown, method in (("Standard", "Retrieval Only"), ("Oracle Retrieval", "Oracle")):
        for backbone in (BIG, SMALL):
            cells = main_cells(method, backbone)
            for kind in ("single", "multi"):
                (printed,) = (
                    float(row.value)
                    for row in published(1)
                    if (row.method, row.backbone, row.dataset) == (shown, backbone, f"{kind}_hop")
                )
                again = kind_average(kind, rollouts.kinds).of(cells)
                assert again == pytest.approx(printed, abs=1.1e-3)
