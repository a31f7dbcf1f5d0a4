"""Named averages over data sets and their kinds."""

import pytest

from cosearch.scores.averages import (
    Average,
    average,
    every_average,
    kind_average,
    named_after,
    over_kinds,
)


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
