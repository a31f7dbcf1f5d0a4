"""Named averages over data sets. The paper mixes two of them (its Table 3); here each has a name.

``macro`` is the mean of the sets present. ``macro_groups`` is the mean of the single-hop mean and
the multi-hop mean. ``micro`` pools questions, so that a set weighs by its number of questions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

AVERAGES = ("macro", "macro_groups", "micro")
KINDS = ("single", "multi")
"""Single-hop and multi-hop question sets."""


@dataclass(frozen=True, slots=True)
class Average:
    """A weighted mean of cells. ``weights`` sum to 1 and name the cells."""

    name: str
    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if abs(fsum(self.weights.values()) - 1) > 1e-9:
            raise ValueError(f"weights of {self.name} sum to {fsum(self.weights.values())}, not 1")

    def of(self, cells: Mapping[str, float]) -> float:
        """The average of the named cells. Raises KeyError where one is missing."""
        return fsum(weight * cells[name] for name, weight in self.weights.items())


def average(name: str, kinds: Mapping[str, str]) -> Average:
    """The average ``name`` (``macro`` or ``macro_groups``) over data sets and their kinds.

    Raises ValueError for no data set, another name, or ``macro_groups`` with a kind missing.
    """
    if not kinds:
        raise ValueError("an average of no data set")
    if name == "macro":
        return Average(name, dict.fromkeys(kinds, 1 / len(kinds)))
    if name != "macro_groups":
        raise ValueError(f"average {name!r} is neither macro nor macro_groups")
    sizes = Counter(kinds.values())
    if set(sizes) != set(KINDS):
        raise ValueError(f"macro_groups needs single and multi sets, not only {sorted(sizes)}")
    return Average(name, {dataset: 1 / (2 * sizes[kind]) for dataset, kind in kinds.items()})


def every_average(kinds: Mapping[str, str], counts: Mapping[str, int]) -> dict[str, Average]:
    """``macro``, ``macro_groups`` and ``micro`` over data sets, as far as they exist.

    ``counts``: questions per data set, empty where nothing was run; then there is no ``micro``.
    ``macro_groups`` exists where there are sets of both kinds.
    """
    found = {"macro": average("macro", kinds)}
    if set(kinds.values()) == set(KINDS):
        found["macro_groups"] = average("macro_groups", kinds)
    total = sum(counts.get(name, 0) for name in kinds)
    if total:
        found["micro"] = Average("micro", {name: counts[name] / total for name in kinds})
    return found


def single_sets(datasets: Iterable[str]) -> dict[str, Average]:
    """Every data set as an average of itself alone."""
    return {name: Average(name, {name: 1.0}) for name in datasets}


def sets_and_kinds(kinds: Mapping[str, str]) -> dict[str, Average]:
    """Every data set alone, then the mean of each kind that has sets."""
    present = [kind for kind in KINDS if kind in kinds.values()]
    return single_sets(kinds) | {kind: kind_average(kind, kinds) for kind in present}


def over_kinds(look: Average, kinds: Mapping[str, str]) -> Average | None:
    """The same average over the cells ``single`` and ``multi``; None where one of them is empty.

    It is exact for averages that give all sets of one kind the same weight: ``macro`` and
    ``macro_groups``.
    """
    weights = dict.fromkeys(KINDS, 0.0)
    for name, weight in look.weights.items():
        weights[kinds[name]] += weight
    return Average(look.name, weights) if all(weights.values()) else None


def named_after(look: Average, score: str) -> Average:
    """The same average over cells called ``score/dataset``, the names in a row's basis."""
    return Average(look.name, {f"{score}/{name}": w for name, w in look.weights.items()})


def kind_average(kind: str, kinds: Mapping[str, str]) -> Average:
    """The mean over the sets of one kind. Raises ValueError when there is none."""
    members = {dataset: kind for dataset, of_kind in kinds.items() if of_kind == kind}
    return Average(kind, average("macro", members).weights)
