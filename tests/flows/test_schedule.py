import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.schedule import Schedule, expected, path_seconds
from tests.flows.graphs import DIAMOND, ancestors, graphs


@given(graphs(), st.integers(1, 4), st.data())
def test_every_order_of_endings_keeps_the_rules(graph, jobs, data) -> None:
    failing = data.draw(st.sets(st.sampled_from(graph.order))) if graph.order else set()
    fresh = frozenset(graph.order) - graph.downstream(
        data.draw(st.sets(st.sampled_from(graph.order))) if graph.order else set()
    )
    seconds = data.draw(st.dictionaries(st.sampled_from(graph.order or ("x",)), st.floats(0, 9)))
    schedule = Schedule(graph, seconds, fresh)
    started = []
    while schedule.ready() or schedule.running:
        for name in schedule.ready()[: jobs - len(schedule.running)]:
            assert graph.upstream[name] <= schedule.done
            schedule.start(name)
            started.append(name)
        assert len(schedule.running) == jobs or not schedule.ready()
        name = data.draw(st.sampled_from(sorted(schedule.running)))
        schedule.finish(name, "broke" if name in failing else "")
    stopped = {name for name in graph.order if ancestors(graph, name) & (failing - fresh)}
    assert sorted(started) == sorted(set(graph.order) - fresh - stopped)
    assert schedule.failed.keys() == (failing - fresh) - stopped
    assert schedule.dropped.keys() == stopped
    assert all(
        cause in ancestors(graph, name) and cause in schedule.failed
        for name, cause in schedule.dropped.items()
    )
    assert schedule.done | schedule.failed.keys() | schedule.dropped.keys() == set(graph.order)


def test_the_longest_remaining_path_goes_first() -> None:
    seconds = {"top": 1.0, "left": 2.0, "right": 5.0, "bottom": 1.0, "alone": 6.5}
    schedule = Schedule(DIAMOND, seconds)
    assert schedule.ready() == ["top", "alone"]
    schedule.start("top")
    schedule.finish("top", "")
    assert schedule.ready() == ["alone", "right", "left"]


def test_without_timings_the_longest_chain_goes_first_and_the_graph_breaks_ties() -> None:
    schedule = Schedule(DIAMOND, {})
    assert schedule.ready() == ["top", "alone"]
    schedule.start("top")
    schedule.finish("top", "")
    assert schedule.ready() == ["left", "right", "alone"]


def test_an_unknown_stage_is_guessed_from_its_kind_then_from_all() -> None:
    names = ("train@a", "train@b", "train@c", "report")
    graph = DIAMOND.__class__(names, dict.fromkeys(names, frozenset()))
    assert expected(graph, {"train@a": 2.0, "train@b": 4.0}) == {
        "train@a": 2.0, "train@b": 4.0, "train@c": 3.0, "report": 3.0,
    }  # fmt: skip
    assert expected(graph, {}) == dict.fromkeys(names, 1.0)


def test_path_seconds_take_the_slower_branch() -> None:
    seconds = {"top": 1.0, "left": 2.0, "right": 5.0, "bottom": 1.0, "alone": 6.5}
    assert path_seconds(DIAMOND, seconds) == {
        "top": 7.0, "left": 3.0, "right": 6.0, "bottom": 1.0, "alone": 6.5,
    }  # fmt: skip


@pytest.mark.parametrize(("jobs", "left"), [(1, 10.5), (2, 5.25), (3, 4.5)])
def test_seconds_left_are_bounded_by_path_and_by_work(jobs: int, left: float) -> None:
    seconds = {"top": 1.0, "left": 2.0, "right": 5.0, "bottom": 1.0, "alone": 4.5}
    schedule = Schedule(DIAMOND, seconds, fresh=("top",))
    schedule.start("right")
    assert schedule.seconds_left(jobs, {"right": 2.0}) == left


def test_nothing_timed_means_no_guess_of_the_end() -> None:
    assert Schedule(DIAMOND, {}).seconds_left(2, {}) is None
