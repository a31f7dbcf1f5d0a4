from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.graph import build_graph, error_line, parse_edges, parse_plan, read_seconds
from tests.flows.graphs import DIAMOND, ancestors, graphs

PLAN = """WARNING: stage: 'profiles/mini/dvc.yaml:base' is frozen. Its dependencies are not going to be reproduced.

Running stage 'profiles/mini/dvc.yaml:train@a-0':
> python -c "print('Running stage now')"

Running stage 'report':
> python -m stages.report
Use `dvc push` to send your updates to remote storage.
"""  # noqa: E501
DOT = 'strict digraph {\n"a@0";\n"b";\n"a@0" -> "b";\n"dir/dvc.yaml:c" -> "b";\n}\n'


def test_the_plan_is_read_in_order_with_its_frozen_stages() -> None:
    order, frozen = parse_plan(PLAN)
    assert order == ["profiles/mini/dvc.yaml:base", "profiles/mini/dvc.yaml:train@a-0", "report"]
    assert frozen == {"profiles/mini/dvc.yaml:base"}


def test_edges_are_read_off_the_dot_text() -> None:
    assert parse_edges(DOT) == [("a@0", "b"), ("dir/dvc.yaml:c", "b")]


def test_edges_out_of_the_plan_and_into_frozen_stages_are_left_out() -> None:
    edges = [("a", "b"), ("b", "c"), ("other", "c"), ("a", "other")]
    graph = build_graph(["a", "b", "c"], edges, frozen={"b"})
    assert graph.upstream == {"a": frozenset(), "b": frozenset(), "c": frozenset({"b"})}


def test_downstream_of_one_branch_is_that_branch() -> None:
    assert DIAMOND.downstream({"left"}) == {"left", "bottom"}
    assert DIAMOND.downstream({"top", "alone"}) == set(DIAMOND.order)


@given(graphs(), st.data())
def test_downstream_is_the_reverse_of_ancestors(graph, data) -> None:
    names = data.draw(st.sets(st.sampled_from(graph.order))) if graph.order else set()
    below = {name for name in graph.order if ancestors(graph, name) & names}
    assert graph.downstream(names) == names | below


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("error: train: a\nerror: train: b\nERROR: failed to reproduce", "train: b"),
        ("Traceback\nKeyError\nERROR: failed to reproduce 'a'\n", "failed to reproduce 'a'"),
        ("no error: here\n", "ended with code 7"),
    ],
)
def test_the_cause_is_one_line(text: str, line: str) -> None:
    assert error_line(text, 7) == line


def test_seconds_are_read_from_the_profile_of_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, profile, seconds in ((".", "tiny", 3.5), ("profiles/mini", "mini", 70)):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "profile.yaml").write_text(f"# which\nprofile: {profile}\nroot: .\n")
        timing = Path("artifacts", profile, "timing")
        timing.mkdir(parents=True)
        (timing / "train@a-0.json").write_text(f'{{"seconds": {{"total": {seconds}}}}}')
    Path("artifacts/tiny/timing/torn.json").write_text('{"seconds"')
    names = ("train@a-0", "profiles/mini/dvc.yaml:train@a-0", "torn", "data")
    assert read_seconds(names) == {"train@a-0": 3.5, "profiles/mini/dvc.yaml:train@a-0": 70.0}
