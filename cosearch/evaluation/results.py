"""What a table is made of: the evaluated systems, and the frame they are looked at in."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

import polars as pl

from cosearch.artifacts import read_frame, read_json
from cosearch.evaluation.averages import Average, average

PROFILE_NOTES = {
    "tiny": "profile tiny: a generated world, not comparable with the paper",
    "mini": "profile mini: small models on a part of the data, not comparable with the paper",
    "paper": "profile paper: the published setting",
}


@dataclass(frozen=True, slots=True)
class Result:
    """One system at one seed. ``key`` is what must be equal for numbers to stand in one table:
    corpus hash, retriever manifest hash, top_k, metric rule."""

    system: str
    seed: int
    key: Mapping[str, str | int]
    predictions: pl.DataFrame
    calls: pl.DataFrame

    def mean(self, column: str, dataset: str) -> float:
        """Mean of a predictions column over one data set."""
        values = self.predictions.filter(pl.col("dataset") == dataset)[column].to_list()
        return fsum(values) / len(values)


@dataclass(frozen=True, slots=True)
class Scope:
    """The frame of a table. ``kinds`` and ``labels`` give the order of data sets and systems.

    ``rule``: yes/no rule of the F1 (``bag`` or ``squad``). ``average``: ``macro`` or
    ``macro_groups``. ``backbone``: the block of the paper's tables that may stand beside ours.
    """

    profile: str
    rule: str
    average: str
    kinds: Mapping[str, str]
    labels: Mapping[str, str]
    backbone: str | None = None

    @property
    def comparable(self) -> bool:
        """Whether a published number may stand beside ours."""
        return self.profile == "paper" and self.backbone is not None

    @property
    def f1(self) -> str:
        """The predictions column of the F1."""
        return f"f1_{self.rule}"

    def average_of(self, datasets: Sequence[str]) -> Average:
        """The table's average over these sets."""
        return average(self.average, {name: self.kinds[name] for name in datasets})

    def note(self, *more: str) -> str:
        """Which profile made it, then what is measured."""
        lead = PROFILE_NOTES.get(self.profile, f"profile {self.profile}: not comparable")
        return ". ".join([lead, *more]) + "."

    def f1_note(self, datasets: Sequence[str]) -> str:
        """Metric rule and average by name."""
        shape = {
            "macro": f"mean of the {len(datasets)} sets",
            "macro_groups": "mean of the single-hop mean and the multi-hop mean",
        }[self.average]
        return self.note(
            f"F1, yes/no golds under the rule {self.rule}", f"Average: {self.average} ({shape})"
        )


def check_comparable(
    results: Sequence[Result], scope: Scope, *, varying: Iterable[str] = ()
) -> None:
    """Refuse rows that must not stand together.

    Raises ValueError naming two rows and the key in which they differ (keys in ``varying`` may),
    two rows whose questions differ, a row that is there twice, or a system without a label.
    """
    free = frozenset(varying)
    seen = set()
    for other in results:
        first = results[0]
        names = f"{first.system} (seed {first.seed}) and {other.system} (seed {other.seed})"
        for name in sorted({*first.key, *other.key} - free):
            left, right = first.key.get(name), other.key.get(name)
            if left != right:
                raise ValueError(f"{names} differ in {name}: {left!r}, {right!r}")
        if not questions(first).equals(questions(other)):
            raise ValueError(f"{names} were evaluated on different questions")
        identity = (other.system, other.seed, *(other.key.get(name) for name in sorted(free)))
        if identity in seen:
            raise ValueError(f"{other.system} (seed {other.seed}) is there twice")
        seen.add(identity)
        if other.system not in scope.labels:
            raise ValueError(f"system {other.system} has no label")


def questions(result: Result) -> pl.DataFrame:
    """The questions of a result, sorted: data set and id."""
    return result.predictions.select("dataset", "question_id").sort("dataset", "question_id")


def by_system(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Results of each system in seed order."""
    grouped: dict[str, list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda result: (result.system, result.seed)):
        grouped[result.system].append(result)
    return dict(grouped)


def datasets(results: Sequence[Result], scope: Scope) -> list[str]:
    """Data sets present, in the scope's order; all of the scope's where nothing was run.

    Raises ValueError for a set that the scope does not know.
    """
    present = {name for result in results for name in result.predictions["dataset"].unique()}
    if present - set(scope.kinds):
        raise ValueError(f"data sets without a kind: {sorted(present - set(scope.kinds))}")
    return [name for name in scope.kinds if name in present or not results]


def row_status(
    system: str | None, systems: Mapping[str, Sequence[Result]], withheld: Mapping[str, str]
) -> str | None:
    """Why a row has no numbers, or None. ``system`` None: no system of that label is declared."""
    if system is not None and system in withheld:
        return f"withheld: {withheld[system]}"
    return None if system in systems else "not run"


def read_results(folders: Iterable[Path]) -> list[Result]:
    """Results of every system below ``folders``."""
    looked = list(folders)
    found = [
        path.parent for folder in looked for path in sorted(folder.rglob("predictions.parquet"))
    ]
    if not found:
        raise ValueError(f"{' '.join(map(str, looked))}: no evaluated system; run `dvc repro`")
    return [_read_result(path) for path in found]


def _read_result(folder: Path) -> Result:
    return Result(
        folder.name,
        int(folder.parent.name.removeprefix("seed_")),
        read_json(folder / "metrics.json")["key"],
        read_frame(folder / "predictions.parquet"),
        read_frame(folder / "calls.parquet"),
    )
