"""The check of the paper's own numbers finds what does not add up, and nothing else."""

import csv
import shutil
from collections import Counter
from importlib.resources import as_file

import pytest

from cosearch.paper.check import check_paper
from cosearch.paper.numbers import read_paper
from cosearch.paper.published import EXPECTED

FINDINGS = check_paper()
VALIDATION = "CoSearch,Qwen2.5-7B-Instruct,validation_avg7,fig2a_val_f1_avg7@step="
ROLLOUTS = "CoSearch,Qwen2.5-7B-Instruct,training_rollouts,fig2b_hit5@step="


@pytest.fixture
def copy(tmp_path):
    with as_file(EXPECTED) as folder:
        return shutil.copytree(folder, tmp_path / "expected")


def change(folder, name, line, text, by):
    """Replace ``text`` in the one line that starts with ``line``."""
    path = folder / f"{name}.csv"
    lines = path.read_text("utf-8").splitlines()
    (at,) = (n for n, each in enumerate(lines) if each.startswith(line))
    assert text in lines[at]
    lines[at] = lines[at].replace(text, by)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def found(kind, where):
    (one,) = (one for one in FINDINGS if one.kind == kind and where in one.where)
    return one


def test_the_kinds_and_numbers_of_findings():
    assert Counter(one.kind for one in FINDINGS) == {
        "average": 3,
        "repeated cell": 1,
        "mixed averages": 4,
        "upper bound": 1,
        "claim": 9,
        "figure": 5,
    }


@pytest.mark.parametrize(
    ("method", "shown", "computed"),
    [("Direct Inference", "0.180", 0.183), ("RAG", "0.223", 0.260), ("Search-o1", "0.236", 0.264)],
)
def test_three_averages_of_the_small_agent(method, shown, computed):
    one = found("average", f"Table 2, {method}, Qwen2.5-3B-Instruct")
    assert one.printed == shown
    assert one.computed.value == pytest.approx(computed, abs=5e-4)


def test_a_cell_of_the_small_agent_repeats_that_of_the_large_one():
    assert found("repeated cell", "Table 2").where == "Table 2, RAG, hotpotqa"


@pytest.mark.parametrize(
    ("method", "claim", "average", "drop", "shown"),
    [
        ("w/o r_main", "drop w/o r_main", 0.553, 2.7, "1.4"),
        ("w/o r_rel", "drop w/o r_rel", 0.546, 3.8, "2.8"),
        ("w/o semantic grouping", "drop w/o grouping", 0.542, 4.5, "3.3"),
        ("Cross-Encoder Ranker", "drop cross-encoder", 0.544, 4.2, "2.9"),
    ],
)
def test_table_3_mixes_two_averages_and_takes_drops_across_them(
    method, claim, average, drop, shown
):
    mixed, wrong = found("mixed averages", method), found("claim", claim)
    assert mixed.computed.value == pytest.approx(average, abs=5e-4)
    assert wrong.computed.value == pytest.approx(drop, abs=0.06)
    assert wrong.printed == shown


def test_the_introduction_and_the_conclusion_disagree():
    one = found("claim", "3B gain over Search-R1")
    assert "introduction" in one.where
    assert (one.printed, one.computed.value) == ("10.8", pytest.approx(10.0, abs=0.1))


@pytest.mark.parametrize(
    ("where", "shown", "better"),
    [
        ("all seven benchmarks (popqa, Qwen2.5-7B-Instruct)", "0.527", "0.539"),
        ("all seven benchmarks (musique, Qwen2.5-3B-Instruct)", "0.193", "0.195"),
        ("upper bound (2wikimultihopqa, Qwen2.5-7B-Instruct)", "0.584", "0.587"),
    ],
)
def test_claims_about_every_set_fail_for_some(where, shown, better):
    one = found("claim", where)
    assert (one.printed, one.shown) == (shown, better)


def test_the_oracle_gets_worse_with_more_documents():
    one = found("upper bound", "K=3 and K=5")
    assert (one.printed, one.shown) == ("0.626", "0.631")


def test_the_gain_with_k_leaves_its_range_for_the_oracle():
    assert found("claim", "gain K 5 to 10").computed.value == pytest.approx(2.1, abs=0.05)


def test_figure_2b_is_the_relevance_reward_and_2c_counts_messages():
    assert "relevance reward" in found("figure", "Figure 2b").note
    messages = {one.where: one for one in FINDINGS if "Figure 2c" in one.where}
    assert len(messages) == 4
    assert messages["Figure 2c, CoSearch"].computed == "5.34"


@pytest.mark.parametrize(
    ("name", "line", "text", "by", "kind", "where"),
    [
        ("table1", "Standard,Qwen2.5-7B-Instruct,multi", "0.506", "0.516", "average", "Table 1"),
        ("table1", "Rel. Gain,Qwen2.5-7B-Instruct,avg", "14.7", "14.9", "gain", "Table 1"),
        ("table2", "CoSearch,Qwen2.5-7B-Instruct,NQ", "0.582", "0.602", "average", "CoSearch"),
        ("table2", "CoT,Qwen2.5-3B-Instruct,NQ", "0.191", "0.198", "repeated cell", "CoT"),
        ("table3", "Shared backbone,Qwen2.5-7B-Instruct,avg", "0.559", "0.570", "average",
         "Shared"),
        ("table4", "CoSearch,Qwen2.5-7B-Instruct,avg,F1@K=10", "0.571", "0.575", "gain", "K=10"),
        ("table4", "Oracle,Qwen2.5-7B-Instruct,avg,F1@K=10", "0.639", "0.610",
         "upper bound", "K=10"),
        ("table7", "CoSearch,unspecified,all_validation_step100,pct_questions@turns=2", "48.9",
         "45.9", "sum", "Table 7, CoSearch"),
        ("table7", "Oracle,unspecified,all_validation_step100,avg", "1.66", "1.76", "average",
         "Table 7, Oracle"),
        ("claims", "conclusion", "10.0", "11.0", "claim", "conclusion"),
        ("figures_vector", f"{VALIDATION}100", "0.568", "0.588", "figure",
         "Figure 2a, CoSearch"),
    ],
)  # fmt: skip
def test_a_corrupted_cell_is_a_new_finding(copy, name, line, text, by, kind, where):
    assert check_paper(copy) == FINDINGS
    change(copy, name, line, text, by)
    new = [one for one in check_paper(copy) if one not in FINDINGS]
    assert [one for one in new if one.kind == kind and where in one.where]


def test_a_change_within_rounding_is_no_finding(copy):
    """The mean of the cells moves by 0.00014: the printed average still is a rounding of it."""
    change(copy, "table2", "CoSearch,Qwen2.5-7B-Instruct,HotpotQA", "0.595", "0.596")
    assert check_paper(copy) == FINDINGS


def test_a_corrected_cell_is_a_finding_less(copy):
    change(copy, "table2", "RAG,Qwen2.5-3B-Instruct,avg", "0.223", "0.260")
    assert not [one for one in check_paper(copy) if one.where.startswith("Table 2, RAG, Qwen")]


def test_curves_that_differ_are_not_said_to_be_equal(copy):
    change(copy, "figures_vector", f"{ROLLOUTS}1,", "0.3650", "0.4650")
    assert not [one for one in check_paper(copy) if "Figure 2b" in one.where]


@pytest.mark.parametrize(
    "claim", [one for one in read_paper(EXPECTED).claims if one.printed != "true"], ids=str
)
def test_every_claim_of_a_number_can_fail(copy, claim):
    path = copy / "claims.csv"
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    for row in rows:
        if row[:2] == [claim.section, claim.claim]:
            row[2] = "50 to 60" if " to " in claim.printed else "1000"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    where = f"Section {claim.section}: {claim.claim}"
    found = [one for one in check_paper(copy) if one.where.startswith(where)]
    assert found
    assert {one.kind for one in found} == {"claim"}


def test_a_curve_that_ends_elsewhere_is_not_said_to_count_messages(copy):
    line = "CoSearch,unspecified,all_validation_step100,avg_search_turns"
    change(copy, "table7", line, "1.67", "5.30")
    assert "Figure 2c, CoSearch" not in {one.where for one in check_paper(copy)}


def test_a_claim_without_a_check_is_refused(copy):
    change(copy, "claims", "conclusion", "3B gain", "3B loss")
    with pytest.raises(ValueError, match=r"do not match: .*3B loss"):
        check_paper(copy)


def test_the_check_is_the_same_twice():
    assert check_paper() == FINDINGS
