"""``python -m cosearch readme``: puts the tables of a finished run into README.md."""

from pathlib import Path

from cosearch.commands.show import check_scope
from cosearch.files.artifacts import Paths
from cosearch.params.rows_file import graph_target

SHOWN = ("main_large", "main_small", "ablations_large", "grid", "comparisons")
"""Tables that the README shows beside the oracle gap."""
MARKS = ("<!-- results: begin -->", "<!-- results: end -->")
"""Lines of the README between which the results stand."""


def readme_block(profile: str, scope: str) -> str:
    """The README's results: the Markdown tables of a scope as the pipeline wrote them. Raises
    ValueError for an unknown profile or scope, and for a table that is not written."""
    check_scope(profile, scope)
    paths = Paths(profile)
    files = [paths.tables(scope) / f"{name}.md" for name in SHOWN]
    files.append(paths.oracle_gap(scope) / "oracle_large.md")
    if missing := [file for file in files if not file.is_file()]:
        target = graph_target(profile, f"report@{scope}")
        raise ValueError(f"{missing[0]}: no such table yet; run `dvc repro {target}`")
    return "\n".join(file.read_text("utf-8") for file in files)


def write_readme(profile: str, scope: str, path: Path = Path("README.md")) -> None:
    """Replace what stands between the two marks. Raises ValueError where they are missing."""
    block = readme_block(profile, scope)
    before, begin, rest = path.read_text("utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{path}: no line {MARKS[0]!r} followed by {MARKS[1]!r}")
    path.write_text(f"{before}{begin}\n\n{block}\n{end}{after}", "utf-8")
