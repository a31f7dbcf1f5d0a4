"""Reads the graph of a target from DVC. Stages are declared in dvc.yaml only.

This calls the command line of DVC. ``repro --dry --force`` lists the stages in the order of a plain
``dvc repro``, ``dag --dot`` lists the edges, and ``status --json`` lists the changed stages.
"""

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DVC = (sys.executable, "-P", "-m", "dvc", "--wait-for-lock")
"""The command that starts DVC. ``-P`` keeps modules of the working folder from being imported. DVC
waits for the lock of the repository. Without waiting it would fail after the command of a stage has
ended, and the outputs of the stage would be lost."""
IDENTITY = "identity"
"""The stage whose files say what each other stage depends on; its own run takes seconds."""
_PLANNED = re.compile(r"^Running stage '(.+)':$|'(.+)' is frozen\. Its dependencies")
_EDGE = re.compile(r'^"(.+)" -> "(.+)";$', re.MULTILINE)


class GraphError(Exception):
    """DVC failed. The message is the last error line that DVC printed."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages in the order of a plain ``dvc repro``. ``upstream`` gives the stages that each awaits.

    DVC never runs the command of a ``frozen`` stage. It only checks that the outputs exist.
    """

    order: tuple[str, ...]
    upstream: Mapping[str, frozenset[str]]
    frozen: frozenset[str] = frozenset()

    def downstream(self, names: Collection[str]) -> frozenset[str]:
        """``names`` and all stages that depend on one of them, directly or indirectly."""
        found = set(names)
        for name in self.order:
            if self.upstream[name] & found:
                found.add(name)
        return frozenset(found)


def read_graph(targets: Sequence[str]) -> Graph:
    """The stages that ``targets`` need.

    Raises:
        GraphError: a target or a dvc.yaml is wrong.
    """
    order, frozen = parse_plan(_ask("repro", "--dry", "--force", *targets))
    return build_graph(order, parse_edges(_ask("dag", "--dot")), frozen)


def build_graph(
    order: Sequence[str], edges: Iterable[tuple[str, str]], frozen: Collection[str] = ()
) -> Graph:
    """The graph of the stages in ``order``. Edges from or to other stages are left out.

    Edges into a frozen stage are left out too, because a plain ``dvc repro`` ignores them.
    """
    place = {name: position for position, name in enumerate(order)}
    upstream: dict[str, set[str]] = {name: set() for name in order}
    for before, after in edges:
        if before in place and after in place and after not in frozen:
            upstream[after].add(before)
    waits = {name: frozenset(names) for name, names in upstream.items()}
    return Graph(tuple(order), waits, frozenset(frozen))


def parse_plan(text: str) -> tuple[list[str], frozenset[str]]:
    """The stages in the output of a dry ``dvc repro``, in order, and the frozen ones among them."""
    order: dict[str, None] = {}
    frozen = set()
    for line in text.splitlines():
        if match := _PLANNED.search(line):
            order[match[1] or match[2]] = None
            frozen |= {match[2]} - {None}
    return list(order), frozenset(frozen)


def parse_edges(dot: str) -> list[tuple[str, str]]:
    """Edges in the output of ``dvc dag --dot``, each as (needed stage, stage that needs it)."""
    return [(match[1], match[2]) for match in _EDGE.finditer(dot)]


def refresh(graph: Graph) -> None:
    """Run the stages ``identity`` of a graph, since what they write decides what has changed.

    Raises:
        GraphError: one of them failed; the message is its own last word.
    """
    for name in graph.order:
        if name.rpartition("dvc.yaml:")[2] == IDENTITY:
            _ask("repro", "--single-item", name)


def read_changed(targets: Sequence[str]) -> frozenset[str]:
    """Stages that ``targets`` need and whose command, inputs or outputs differ from dvc.lock.

    Raises:
        GraphError: DVC failed.
    """
    command = [*DVC, "status", "--json", "--with-deps", *targets]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    try:
        return frozenset(json.loads(done.stdout))
    except ValueError:
        raise GraphError(error_line(done.stdout + done.stderr, done.returncode)) from None


def read_seconds(names: Iterable[str]) -> dict[str, float]:
    """Seconds that each stage took in its last run. Stages without a timing record are left out."""
    found = {}
    for name in names:
        folder, _, stage = name.rpartition("dvc.yaml:")
        try:
            told = Path(folder, "profile.yaml").read_text("utf-8")
            profile = re.findall(r"^profile: (\S+)", told, re.M)
            record = Path("artifacts", *profile, "timing", f"{stage}.json").read_text("utf-8")
            found[name] = float(json.loads(record)["seconds"]["total"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return found


def error_line(text: str, code: int) -> str:
    """The cause of a failure: the last error line of the stage, else of DVC, else the exit code."""
    lines = [line.strip() for line in text.splitlines()]
    for mark in ("error:", "ERROR:"):
        for line in reversed(lines):
            if line.startswith(mark):
                return line.removeprefix(mark).strip()
    return f"ended with code {code}"


def _ask(*words: str) -> str:
    """Everything that ``dvc`` prints, warnings included. Raises GraphError if it fails."""
    done = subprocess.run(
        [*DVC, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise GraphError(error_line(done.stdout, done.returncode))
    return done.stdout
