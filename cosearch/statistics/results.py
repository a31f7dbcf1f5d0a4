"""Evaluated systems: one result per system and seed, and the set of results of a scope.

Every table asks one ``ResultSet``: which systems have numbers, why others have none, which results
may stand in one table, and under which bootstrap settings intervals are drawn.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from pathlib import Path

import polars as pl

from cosearch.files.artifacts import read_frame, read_json
from cosearch.files.hashes import check_hashes
from cosearch.params import rows
from cosearch.scores.averages import Average
from cosearch.scores.metrics import SCORES
from cosearch.statistics.scope import Scope

NOT_RUN = "not run"
"""What stands in place of the numbers of a system that was not evaluated."""


@dataclass(frozen=True, slots=True)
class Result:
    """One system at one seed.

    ``key``: corpus hash, retriever manifest hash, top_k and metric rule. They must be equal for
    numbers to stand in one table. ``trained``: its models were trained here, with this seed.
    """

    system: str
    seed: int
    key: Mapping[str, str | int]
    predictions: pl.DataFrame
    calls: pl.DataFrame
    trained: bool = False

    def mean(self, column: str, dataset: str) -> float:
        """Mean of a predictions column over one data set. Raises ValueError for a set without
        questions."""
        values = self.predictions.filter(pl.col("dataset") == dataset)[column].to_list()
        if not values:
            raise ValueError(f"{self.name}: no question of {dataset} was evaluated")
        return fsum(values) / len(values)

    @property
    def name(self) -> str:
        """The row at its seed, as commands name it: ``cosearch-0``."""
        return f"{self.system}-{self.seed}"

    @property
    def counts(self) -> dict[str, int]:
        """Number of questions per data set."""
        return dict(self.predictions.group_by("dataset").len().sort("dataset").iter_rows())

    def check_sets(self, wanted: Iterable[str]) -> None:
        """Raises ValueError that names the first of the data sets ``wanted`` without a question."""
        for dataset in wanted:
            if not self.counts.get(dataset):
                raise ValueError(
                    f"{self.name}: 0 questions of {dataset}, which the profile evaluates; evaluate"
                    " the row again"
                )

    def check_scores(self) -> None:
        """Raises ValueError that names the first data set with a score that is NaN or null."""
        finite = pl.col(SCORES).is_finite().fill_null(False)
        lost = self.predictions.filter(~pl.all_horizontal(finite))
        if lost.is_empty():
            return
        dataset = lost["dataset"][0]
        count = lost.filter(dataset=dataset).height
        raise ValueError(
            f"{self.name}: {count} of {self.counts[dataset]} questions of {dataset} have a score"
            " that is NaN or null; evaluate the row again"
        )


@dataclass(frozen=True)
class ResultSet:
    """The evaluated systems of a scope.

    ``status``: system -> the text that stands in place of its numbers, such as ``withheld: ...``
    or ``diverged at round 7: ...``. ``statistics``: the settings of every bootstrap interval.
    """

    evaluated: Sequence[Result]
    scope: Scope
    status: Mapping[str, str]
    statistics: rows.Statistics

    @cached_property
    def by_system(self) -> Mapping[str, Sequence[Result]]:
        """Results of each system in seed order, those of systems with a status included."""
        grouped: dict[str, list[Result]] = defaultdict(list)
        for result in sorted(self.evaluated, key=lambda result: (result.system, result.seed)):
            grouped[result.system].append(result)
        return dict(grouped)

    @cached_property
    def datasets(self) -> Sequence[str]:
        """Data sets present, in the scope's order; all of the scope's where nothing was run.

        Raises ValueError for a set that the scope does not know.
        """
        kinds = self.scope.kinds
        present = {name for one in self.evaluated for name in one.predictions["dataset"].unique()}
        if present - set(kinds):
            raise ValueError(f"data sets without a kind: {sorted(present - set(kinds))}")
        return [name for name in kinds if name in present or not self.evaluated]

    @property
    def kinds(self) -> dict[str, str]:
        """Kind of every data set present, ``single`` or ``multi``."""
        return {name: self.scope.kinds[name] for name in self.datasets}

    @property
    def question_counts(self) -> dict[str, int]:
        """Number of questions per data set; empty where nothing was run."""
        return self.evaluated[0].counts if self.evaluated else {}

    @property
    def average(self) -> Average:
        """The scope's average over the data sets present."""
        return self.scope.average_of(self.datasets)

    def known(self, systems: Iterable[str]) -> list[str]:
        """Those of ``systems`` that have numbers or a status."""
        return [name for name in systems if name in self.by_system or name in self.status]

    def knows_all(self, *systems: str) -> bool:
        """True if each of ``systems`` has numbers or a status."""
        return len(self.known(systems)) == len(systems)

    def missing(self, system: str | None) -> str | None:
        """Why a table prints no numbers for a system, or None if it prints them.

        ``system`` None: the table names a row that params.yaml declares no system for.
        """
        if system is not None and system in self.status:
            return self.status[system]
        return None if system in self.by_system else NOT_RUN

    def seeds_of(self, system: str) -> Sequence[Result]:
        """Results of a system in seed order; empty if it is ``missing``."""
        return self.by_system[system] if self.missing(system) is None else ()

    def of(self, systems: Iterable[str], *, varying: Iterable[str] = ()) -> "ResultSet":
        """The results of ``systems`` alone. Raises ValueError as ``check_comparable`` does."""
        chosen = frozenset(systems)
        found = [result for result in self.evaluated if result.system in chosen]
        check_comparable(found, self.scope, varying=varying)
        return replace(self, evaluated=found)

    def pair(self, left: str, right: str) -> "ResultSet":
        """The results of two systems that are compared. They may show another number of documents,
        because K belongs to a system. Raises ValueError as ``check_comparable`` does."""
        return self.of((left, right), varying=("top_k",))

    def differing(self, key: str, labels: Mapping[str, str]) -> list[str]:
        """A footnote with the value of ``key`` for each of ``labels`` (system -> label) that was
        evaluated, if these values differ; else nothing."""
        values = {
            label: self.by_system[system][0].key.get(key)
            for system, label in labels.items()
            if system in self.by_system
        }
        if len(set(values.values())) < 2:
            return []
        texts = (f"{label} {value}" for label, value in values.items())
        return [f"Rows differ in {key}: {'; '.join(texts)}"]

    def of_block(self, block: rows.TableBlock) -> "ResultSet":
        """The results of a block's rows.

        Raises ValueError for a system or label that stands twice in the block, and for results
        that must not stand together.
        """
        for values in ([row.system for row in block.rows], [row.label for row in block.rows]):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"block {block.name}: {', '.join(twice)} is there twice")
        return self.of((row.system for row in block.rows), varying=block.varying)


def check_comparable(
    results: Sequence[Result], scope: Scope, *, varying: Iterable[str] = ()
) -> None:
    """Raise ValueError for results that must not stand in one table.

    The message names two results and the key in which they differ (keys in ``varying`` may
    differ), two results with other questions, a result that is there twice, or a system without a
    label.
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
            raise ValueError(
                f"{names} were evaluated on different questions{_uneven(first, other)}"
            )
        identity = (other.system, other.seed, *(other.key.get(name) for name in sorted(free)))
        if identity in seen:
            raise ValueError(f"{other.system} (seed {other.seed}) is there twice")
        seen.add(identity)
        if other.system not in scope.labels:
            raise ValueError(f"system {other.system} has no label")


def questions(result: Result) -> pl.DataFrame:
    """The questions of a result: columns data set and id, sorted by both."""
    return result.predictions.select("dataset", "question_id").sort("dataset", "question_id")


def _uneven(first: Result, other: Result) -> str:
    """The data sets of which two results have other numbers of questions, with these numbers."""
    left, right = first.counts, other.counts
    sets = sorted(left.keys() | right.keys())
    pairs = {name: (left.get(name, 0), right.get(name, 0)) for name in sets}
    told = [
        f"{name} {ours} and {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs
    ]
    return f" ({', '.join(told)})" if told else ""


def set_means(results: Sequence[Result], column: str, names: Iterable[str]) -> dict[str, float]:
    """Mean over seeds of a predictions column, per data set."""
    return {name: fsum(one.mean(column, name) for one in results) / len(results) for name in names}


def row_of(folder: Path) -> tuple[str, int]:
    """Name and seed of a row's folder, ``.../seed_SEED/NAME``."""
    return folder.name, int(folder.parent.name.removeprefix("seed_"))


def read_results(folders: Iterable[Path]) -> list[Result]:
    """Results of every system below ``folders``.

    Raises ValueError where there is none, or for a file that changed after it was written.
    """
    looked = list(folders)
    found = [
        path.parent for folder in looked for path in sorted(folder.rglob("predictions.parquet"))
    ]
    if not found:
        raise ValueError(f"{' '.join(map(str, looked))}: no evaluated system; run `dvc repro`")
    return [_read_result(path) for path in found]


def _read_result(folder: Path) -> Result:
    record = read_json(folder / "metrics.json")
    check_hashes(folder, record["files"], "evaluate the system again")
    system, seed = row_of(folder)
    found = Result(
        system,
        seed,
        record["key"],
        read_frame(folder / "predictions.parquet"),
        read_frame(folder / "calls.parquet"),
    )
    found.check_scores()
    return found
