"""``python -m cosearch readme``: puts the tables of a finished run into README.md."""

from pathlib import Path

from cosearch.files.artifacts import Paths

SHOWN = ("main_large", "main_small", "ablations_large", "grid", "comparisons")
"""Tables that the README shows beside the oracle gap."""
MARKS = ("<!-- results: begin -->", "<!-- results: end -->")
"""Lines of the README between which the results stand."""


def readme_block(profile: str, scope: str) -> str:
    """The README's results: the Markdown tables of a scope as the pipeline wrote them."""
    paths = Paths(profile)
    files = [paths.tables(scope) / f"{name}.md" for name in SHOWN]
    files.append(paths.oracle_gap(scope) / "oracle_large.md")
    return "\n".join(file.read_text("utf-8") for file in files)


def write_readme(profile: str, scope: str, path: Path = Path("README.md")) -> None:
    """Replace what stands between the two marks. Raises ValueError where they are missing."""
    before, begin, rest = path.read_text("utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{path}: no line {MARKS[0]!r} followed by {MARKS[1]!r}")
    block = f"{begin}\n\n{readme_block(profile, scope)}\n{end}"
    path.write_text(f"{before}{block}{after}", "utf-8")
