"""The graph of a target as DVC itself tells it; nothing here redeclares a stage (method.md's stages
live in dvc.yaml alone).

Asked through DVC's command line: ``repro --dry --force`` names the stages in the order of a plain
``dvc repro``, ``dag --dot`` the edges, ``status --json`` what has changed.
"""

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DVC = (sys.executable, "-P", "-m", "dvc", "--wait-for-lock")
"""DVC of this interpreter, whatever modules the working folder holds. It waits for the lock of the
repository: to give up after a stage's command has ended would throw its outputs away."""
_PLANNED = re.compile(r"^Running stage '(.+)':$|'(.+)' is frozen\. Its dependencies")
_EDGE = re.compile(r'^"(.+)" -> "(.+)";$', re.MULTILINE)


class GraphError(Exception):
    """DVC could not answer; the message is its own last line of error."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages in the order of a plain ``dvc repro``; ``upstream`` names what each one waits for.

    DVC never runs the command of a ``frozen`` stage: it only checks that its outputs are there.
    """

    order: tuple[str, ...]
    upstream: Mapping[str, frozenset[str]]
    frozen: frozenset[str] = frozenset()

    def downstream(self, names: Collection[str]) -> frozenset[str]:
        """``names`` and every stage that waits for one of them, directly or not."""
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
    """Keep the edges among the stages of ``order`` that lead forwards.

    The inputs of a frozen stage are no edges: a plain ``dvc repro`` does not follow them either.
    """
    place = {name: position for position, name in enumerate(order)}
    upstream: dict[str, set[str]] = {name: set() for name in order}
    for before, after in edges:
        if before in place and after in place and after not in frozen:
            upstream[after].add(before)
    waits = {name: frozenset(names) for name, names in upstream.items()}
    return Graph(tuple(order), waits, frozenset(frozen))


def parse_plan(text: str) -> tuple[list[str], frozenset[str]]:
    """Stages in order of a dry ``dvc repro``, and which of them are frozen."""
    order: dict[str, None] = {}
    frozen = set()
    for line in text.splitlines():
        if match := _PLANNED.search(line):
            order[match[1] or match[2]] = None
            frozen |= {match[2]} - {None}
    return list(order), frozenset(frozen)


def parse_edges(dot: str) -> list[tuple[str, str]]:
    """Edges of ``dvc dag --dot``, from what is needed to what needs it."""
    return [(match[1], match[2]) for match in _EDGE.finditer(dot)]


def read_changed(targets: Sequence[str]) -> frozenset[str]:
    """Stages among what ``targets`` need whose command, inputs or outputs differ from the lock.

    Raises:
        GraphError: DVC could not tell.
    """
    command = [*DVC, "status", "--json", "--with-deps", *targets]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return frozenset(json.loads(done.stdout))
    except ValueError:
        raise GraphError(error_line(done.stdout + done.stderr, done.returncode)) from None


def read_seconds(names: Iterable[str]) -> dict[str, float]:
    """How long stages took when they last ran, of those whose timing was written."""
    found = {}
    for name in names:
        folder, _, stage = name.rpartition("dvc.yaml:")
        try:
            profile = re.findall(r"^profile: (\S+)", Path(folder, "profile.yaml").read_text(), re.M)
            record = Path("artifacts", *profile, "timing", f"{stage}.json").read_text("utf-8")
            found[name] = float(json.loads(record)["seconds"]["total"])
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return found


def error_line(text: str, code: int) -> str:
    """The cause of a failure in one line: the stage's own last word, else DVC's, else the code."""
    lines = [line.strip() for line in text.splitlines()]
    for mark in ("error:", "ERROR:"):
        for line in reversed(lines):
            if line.startswith(mark):
                return line.removeprefix(mark).strip()
    return f"ended with code {code}"


def _ask(*words: str) -> str:
    """What ``dvc`` prints, warnings included."""
    done = subprocess.run(
        [*DVC, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise GraphError(error_line(done.stdout, done.returncode))
    return done.stdout
