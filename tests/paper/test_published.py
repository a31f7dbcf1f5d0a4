"""The paper's printed averages, recomputed from its own cells."""

import pytest

from cosearch.paper.published import average_fault, main_cells, methods, published
from cosearch.scores.averages import Average, average, kind_average

BIG, SMALL = "Qwen2.5-7B-Instruct", "Qwen2.5-3B-Instruct"


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
