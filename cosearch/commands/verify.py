"""``python -m cosearch verify``: compares the results on this machine with committed ones.

Committed are the tables, which git keeps, and in dvc.lock the hash of every output, in git or not.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cosearch.commands.console import open_console
from cosearch.commands.show import check_scope
from cosearch.files.artifacts import Paths
from cosearch.files.holders import HeldFolder, Holder, holder_of
from cosearch.params.rows_file import graph_target, profile_folders
from cosearch.run.lock import LOCK, Entry, hashes_in, is_of, needed_by, output_hash, parse_lock
from cosearch.run.reads import READS
from cosearch.statistics.agreement import (
    Difference,
    differing_cells,
    json_table,
    questions_of,
    without_numbers,
)

HERE = HeldFolder(Path())


class ExitCode(IntEnum):
    """What the command found."""

    BYTES = 0
    NOISE = 1
    DIFFERENT = 2
    NOTHING = 3


WORDS = {
    ExitCode.BYTES: "reproduced to the byte",
    ExitCode.NOISE: "reproduced within noise",
    ExitCode.DIFFERENT: "different",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two holders have of a scope. ``outputs``: path -> whether it is equal, in the order of
    the graph; ``files``: the same of the files with results; ``moved``: stages that ran under other
    settings, models or code."""

    outputs: Mapping[str, bool]
    files: Mapping[str, bool]
    moved: Sequence[str]
    differences: Sequence[Difference]

    @property
    def outcome(self) -> ExitCode:
        """What is reproduced. Where only hashes are held, noise cannot be told from an error."""
        if all(self.outputs.values()) and all(self.files.values()):
            return ExitCode.BYTES
        wrong = any(one.allowed is False for one in self.differences)
        return ExitCode.DIFFERENT if wrong or not self.files else ExitCode.NOISE


def verify(profile: str, scope: str, against: str) -> ExitCode:
    """Print how the results of a scope on this machine agree with those of ``against``, a revision
    or a folder. Where there is nothing to compare, one line says why."""
    try:
        holder = holder_of(against)
        found = _agreement(holder, profile, scope)
    except (ValueError, OSError) as error:  # 1, the exit code of other commands, is taken here
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return ExitCode.NOTHING
    console = open_console()
    console.print(f"scope {scope} of profile {profile}, against {holder.name}", highlight=False)
    show_agreement(found, console)
    return found.outcome


def _agreement(holder: Holder, profile: str, scope: str) -> Agreement:
    """Raises ValueError where one of the two sides has no results."""
    check_scope(profile, scope)
    entries = _entries(holder, profile, f"report@{scope}")
    _check_made(entries, graph_target(profile, f"report@{scope}"))
    return compare_results(holder, entries, Paths(profile), scope)


def _entries(holder: Holder, profile: str, target: str) -> dict[str, Entry]:
    """What the holder's lock says of ``target`` and of all that it rests on, in the order of the
    graph."""
    place = profile_folders().get(profile, Path()) / LOCK
    text = holder.read(place)
    entries = {} if text is None else parse_lock(text, f"{place} of {holder.name}")
    if target not in entries:
        raise ValueError(
            f"{place} of {holder.name} holds no results of {target}: nothing to compare"
        )
    order = {kind: place for place, kind in enumerate(READS)}
    needed = sorted(needed_by(entries, target), key=lambda name: order.get(name.split("@")[0], 0))
    return {name: entries[name] for name in needed}


def _check_made(entries: Mapping[str, Entry], target: str) -> None:
    """Raises ValueError unless every output is on this machine: what git alone brought is no
    result of this machine."""
    every = [path for entry in entries.values() for path in hashes_in(entry, "outs")]
    if lacking := [path for path in every if not Path(path).exists()]:
        raise ValueError(
            f"{len(lacking)} of {len(every)} outputs are not on this machine, the first is"
            f" {lacking[0]}: nothing to compare; run `dvc repro {target}`"
        )


def compare_results(
    holder: Holder, entries: Mapping[str, Entry], paths: Paths, scope: str
) -> Agreement:
    """Outputs by their hashes in the lock, files with results by their contents."""
    outputs = {
        path: output_hash(Path(path)) == known
        for entry in entries.values()
        for path, known in hashes_in(entry, "outs").items()
    }
    folders = paths.tables(scope), paths.oracle_gap(scope), paths.summary(scope)
    names = {path for folder in folders for one in (holder, HERE) for path in one.below(folder)}
    names |= {Path(path) for path in outputs if Path(path).parent == paths.score("").parent}
    texts = {path: (_text(holder, path), _text(HERE, path)) for path in sorted(names)}
    held = any(there for there, _ in texts.values())
    counts = questions_of(texts.get(paths.tables(scope) / "detectable.csv", ("", ""))[0])
    return Agreement(
        outputs,
        {path.as_posix(): there == here for path, (there, here) in texts.items() if held},
        [name for name, entry in entries.items() if not is_of(entry, paths.identity(name))],
        [one for path, pair in texts.items() if held for one in _differences(path, *pair, counts)],
    )


def _text(holder: Holder, path: Path) -> str:
    return (holder.read(path) or b"").decode("utf-8")


def _differences(
    path: Path, there: str, here: str, questions: Mapping[str, int]
) -> Iterator[Difference]:
    name = "/".join(path.parts[2:])
    if there == here:
        return
    if not there or not here:
        old, new = ("there" if text else "missing" for text in (there, here))
        yield Difference(name, "", "file", old, new, allowed=False)
    elif path.suffix == ".json":
        yield from differing_cells(name, json_table(there), json_table(here), {})
    elif path.suffix == ".csv":
        scored = questions if path.stem.startswith("main_") else {}
        yield from differing_cells(name, there, here, scored)
    elif without_numbers(there) != without_numbers(here):
        yield Difference(name, "", "text", "", "more than numbers differ", allowed=False)


def show_agreement(found: Agreement, console: Console) -> None:
    """Print what is equal and what differs, and the outcome as the last line."""
    for line in (*_equal_lines(found), *_loose_lines(found.differences)):
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    judged = [one for one in found.differences if one.allowed is not None]
    if judged:
        console.print(_table(judged))
    changed = sum(one.verdict for one in judged)
    outside = sum(one.allowed is False for one in judged)
    if not all(found.files.values()):
        console.print(f"verdicts that changed: {changed}; differences beyond noise: {outside}")
    console.print(WORDS[found.outcome], highlight=False)


def _equal_lines(found: Agreement) -> Iterator[str]:
    for what, parts in (("outputs of stages", found.outputs), ("files of results", found.files)):
        other = [name for name, equal in parts.items() if not equal]
        first = f"; the first that differs is {other[0]}" if other else ""
        yield f"{what}: {len(parts) - len(other)} of {len(parts)} equal to the byte{first}"
    if found.moved:
        yield (
            f"made under other settings, models or code there: {len(found.moved)} stages, the first"
            f" is {found.moved[0]}"
        )


def _loose_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """One line for each table with numbers that have no interval."""
    loose = [one for one in differences if one.allowed is None]
    for table in dict.fromkeys(one.table for one in loose):
        own = [one for one in loose if one.table == table]
        most = max(own, key=lambda one: one.relative)
        yield (
            f"{table}: {len(own)} numbers without an interval differ, the most is {most.row},"
            f" {most.column}: {most.there} there, {most.here} here"
        )


def _table(judged: Sequence[Difference]) -> Table:
    table = Table(title="What an interval or a verdict judges", title_justify="left")
    for name in ("table", "row", "column", "there", "interval there", "here", "noise"):
        table.add_column(name, overflow="fold")
    for one in judged:
        bounds = "" if one.bounds is None else "{:.3f} to {:.3f}".format(*one.bounds)
        noise = "yes" if one.allowed else "NO"
        table.add_row(one.table, one.row, one.column, one.there, bounds, one.here, noise)
    return table
