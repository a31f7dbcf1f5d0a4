"""What a table is made of: the evaluated systems, and the frame they are looked at in."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

import polars as pl

from cosearch.files.artifacts import read_frame, read_json
from cosearch.files.hashes import check_hashes
from cosearch.scores.averages import Average, average

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
    ``macro_groups``: the one that verdicts and drops rest on.
    """

    profile: str
    rule: str
    average: str
    kinds: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def comparable(self) -> bool:
        """Whether a published number may stand beside ours."""
        return self.profile == "paper"

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
        """Metric rule, and the average that decides by name."""
        shape = {
            "macro": f"mean of the {len(datasets)} sets",
            "macro_groups": "mean of the single-hop mean and the multi-hop mean",
        }[self.average]
        return self.note(
            f"F1, yes/no golds under the rule {self.rule}", f"Average: {self.average} ({shape})"
        )

    def label(self, system: str) -> str:
        """What a reader calls a system."""
        return self.labels.get(system, system)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A system in a table, under the name that the paper's table gives such a row.

    Labels of systems are unique, names of rows only inside one table: "CoSearch" stands in the
    block of the large and of the small agent.
    """

    system: str
    label: str


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that stand in one table. ``backbone``: the agent model under which the paper's tables
    print such rows; None where no published number may stand beside them. ``varying``: keys in
    which rows may differ because their method says so, as Search-R1 shows three documents; the
    main table names them in a footnote."""

    name: str
    backbone: str | None
    rows: Sequence[TableRow]
    varying: Sequence[str] = ()

    def __post_init__(self) -> None:
        for values in ([row.system for row in self.rows], [row.label for row in self.rows]):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"block {self.name}: {', '.join(twice)} is there twice")

    def chosen(self, results: Sequence[Result], scope: Scope) -> list[Result]:
        """The results of the rows. Raises ValueError where they must not stand together."""
        systems = {row.system for row in self.rows}
        found = [result for result in results if result.system in systems]
        check_comparable(found, scope, varying=self.varying)
        return found

    def varying_footnotes(self, systems: Mapping[str, Sequence[Result]]) -> list[str]:
        """The value of every varying key by row, where rows do differ in it."""
        notes = []
        for key in self.varying:
            values = {
                row.label: systems[row.system][0].key.get(key)
                for row in self.rows
                if row.system in systems
            }
            if len(set(values.values())) > 1:
                texts = (f"{label} {value}" for label, value in values.items())
                notes.append(f"Rows differ in {key}: {'; '.join(texts)}")
        return notes

    def published(self, scope: Scope) -> str | None:
        """The backbone whose published numbers stand beside ours, None where none may."""
        return self.backbone if scope.comparable else None


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


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Questions per data set; empty where nothing was run."""
    frame = results[0].predictions if results else None
    return {} if frame is None else dict(frame.group_by("dataset").len().iter_rows())


def set_means(results: Sequence[Result], column: str, names: Iterable[str]) -> dict[str, float]:
    """Mean over seeds of a predictions column, per data set."""
    return {name: fsum(one.mean(column, name) for one in results) / len(results) for name in names}


def seed_footnotes(
    rows: Sequence[TableRow], systems: Mapping[str, Sequence[Result]], status: Mapping[str, str]
) -> list[str]:
    """Which seeds stand behind the rows that print numbers, where any has several."""
    seeds = {
        row.label: [one.seed for one in systems[row.system]]
        for row in rows
        if row.system in systems and row.system not in status
    }
    if all(len(found) == 1 for found in seeds.values()):
        return []
    texts = [f"{label} {', '.join(map(str, found))}" for label, found in seeds.items()]
    return ["Means over seeds: " + "; ".join(texts)]


def row_status(
    system: str | None, systems: Mapping[str, Sequence[Result]], status: Mapping[str, str]
) -> str | None:
    """Why a row has no numbers, or None. ``status``: system -> what stands in its place, such as
    ``withheld: ...`` or ``diverged at round 7: ...``. ``system`` None: no such row is declared."""
    if system is not None and system in status:
        return status[system]
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
    record = read_json(folder / "metrics.json")
    check_hashes(folder, record["files"], "evaluate the system again")
    return Result(
        folder.name,
        int(folder.parent.name.removeprefix("seed_")),
        record["key"],
        read_frame(folder / "predictions.parquet"),
        read_frame(folder / "calls.parquet"),
    )
