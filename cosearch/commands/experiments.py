"""``python -m cosearch experiments``: what each DVC experiment changed, and the numbers it gave.

``dvc exp show`` has a column for every value of params.yaml and every number of every row. This
command asks DVC for the same data, and prints a line for each row whose numbers an experiment
changed.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from cosearch.commands.console import open_console
from cosearch.params.overrides import flatten
from cosearch.params.rows_file import first_profile

ASK = (sys.executable, "-P", "-m", "dvc", "exp", "show", "--json")
NUMBERS = ("f1", "em", "searches")
BLANK = "–"


def show_experiments() -> None:
    """Print the experiments of the present commit. Raises ValueError outside a project, and where
    DVC fails."""
    first_profile()
    done = subprocess.run(ASK, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise ValueError(f"dvc exp show: {done.stderr.strip() or done.returncode}")
    lines = [line for entry in json.loads(done.stdout) for line in lines_of(entry)]
    if not lines:
        print("no experiment of this commit; `dvc exp run --temp` makes one")
        return
    names = ("Experiment", "State", "Values", "Row", *NUMBERS, "f1 before")
    table = Table(*names, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for line in lines:
        table.add_row(*line)
    open_console().print(table)


def lines_of(commit: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line for every row that an experiment of the commit changed, as texts by column."""
    for experiment in commit["experiments"] or ():
        executor = experiment["executor"] or {}
        state, shown = executor.get("state", "success"), experiment["name"] or BLANK
        for told in experiment["revs"][:1]:
            values = ", ".join(changed_values(commit["data"], told["data"])) or BLANK
            rows = list(changed_rows(commit["data"], told["data"]))
            for row in rows or [(BLANK,) * (len(NUMBERS) + 2)]:
                yield shown, state, values, *row


def changed_values(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[str]:
    """``key=value`` for every value of params.yaml that is another one than before."""
    old, new = (dict(flatten(_file(told, "params", "params.yaml"))) for told in (before, after))
    yield from (f"{key}={value}" for key, value in new.items() if value != old.get(key, BLANK))


def changed_rows(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> Iterator[tuple[str, ...]]:
    """Row, its numbers, and its F1 before, for every row whose numbers are others than before."""
    for path in (after or {}).get("metrics") or ():
        old, new = (_file(told, "metrics", path) for told in (before, after))
        if new and new != old:
            numbers = (_text(new.get(name)) for name in NUMBERS)
            yield Path(path).stem, *numbers, _text(old.get("f1"))


def _file(told: Mapping[str, Any] | None, kind: str, path: str) -> Mapping[str, Any]:
    """What DVC read of a file; empty where it read nothing."""
    return (((told or {}).get(kind) or {}).get(path) or {}).get("data") or {}


def _text(value: float | None) -> str:
    if value is None:
        return BLANK
    return f"{value:.3f}" if isinstance(value, float) else str(value)
