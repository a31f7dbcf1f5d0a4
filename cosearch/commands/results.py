"""``python -m cosearch results``: writes the tables of a finished run into docs/results.md, the
comparisons of one system into README.md, and beside the tables which machines made them."""

from pathlib import Path

from cosearch.commands.show import check_scope
from cosearch.files.artifacts import Paths, write_text
from cosearch.params.rows_file import graph_target
from cosearch.params.settings import load_settings
from cosearch.run.makers import record_makers

SHOWN = ("comparisons", "main_large", "main_small", "ablations_large", "grid", "walk_large")
"""Tables of docs/results.md beside the oracle gap, in their order."""
HEADS = ("difference", "95 % interval", "verdict")
"""Columns of the short table behind the two scores."""
MARKS = ("<!-- results: begin -->", "<!-- results: end -->")
"""Lines between which the results stand in a document."""
DOCUMENTS = (Path("README.md"), Path("docs/results.md"))


def write_results(profile: str, scope: str, root: Path = Path()) -> None:
    """Replace what stands between the two marks of README.md and of docs/results.md.

    Raises ValueError where the marks or a table are missing, and for an unknown profile or scope.
    Then neither document changes.
    """
    check_scope(profile, scope)
    if missing := [file for file in shown_files(Paths(profile), scope) if not file.is_file()]:
        target = graph_target(profile, f"report@{scope}")
        raise ValueError(f"{missing[0]}: no such table yet; run `dvc repro {target}`")
    blocks = (short_table(Paths(profile), scope), long_tables(Paths(profile), scope))
    places = [root / path for path in DOCUMENTS]
    texts = [_replaced(path, block) for path, block in zip(places, blocks, strict=True)]
    for path, text in zip(places, texts, strict=True):
        write_text(path, text)
    record_makers(load_settings(profile), Paths(profile), scope)


def shown_files(paths: Paths, scope: str) -> list[Path]:
    """The Markdown tables of a scope that docs/results.md shows, in their order."""
    tables = [paths.tables(scope) / f"{name}.md" for name in SHOWN]
    return [*tables, paths.oracle_gap(scope) / "oracle_large.md"]


def long_tables(paths: Paths, scope: str) -> str:
    """The Markdown tables of a scope, as the pipeline wrote them."""
    return "\n".join(file.read_text("utf-8") for file in shown_files(paths, scope))


def short_table(paths: Paths, scope: str) -> str:
    """The comparisons in F1 of the system that is compared first, with the digits that the table of
    all comparisons shows. Raises ValueError where that table has no rows."""
    text = (paths.tables(scope) / "comparisons.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and " against " in line]
    rows = [line.strip("| ").split(" | ") for line in lines[1:]]  # the first one has the heads
    if not rows:
        raise ValueError(f"{paths.tables(scope)}: no comparisons; run `make repro` first")
    pairs = [(*names.split(" against "), metric, *rest) for names, metric, *rest in rows]
    system = pairs[0][0]
    heads = (f"{system} against", f"F1 of {system}", "F1 of the other", *HEADS)
    shown = [f"| {' | '.join(heads)} |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for left, right, metric, own, other, difference, low, high, verdict, *_ in pairs:
        if (left, metric) == (system, "f1"):
            cells = (right, own, other, difference, f"{low} to {high}", verdict)
            shown.append(f"| {' | '.join(cells)} |")
    return "\n".join(shown) + "\n"


def _replaced(path: Path, block: str) -> str:
    """The document with ``block`` between its marks."""
    before, begin, rest = path.read_text("utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{path}: no line {MARKS[0]!r} followed by {MARKS[1]!r}")
    return f"{before}{begin}\n\n{block}\n{end}{after}"
