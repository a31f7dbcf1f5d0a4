"""Every family of docs/models.md works, or is refused, as the page says."""

from pathlib import Path

import pytest

from tests.engines.families import FAMILIES, Family
from tests.engines.models_page import HEAD, line, table


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_family_is_as_the_page_says(family: Family, tmp_path: Path) -> None:
    """Where this fails, ``python -m tests.engines.models_page`` writes the table anew."""
    assert line(family, tmp_path) in table()


def test_the_page_lists_every_family_and_twelve_kinds_work() -> None:
    rows = [row.split(" | ") for row in table()[len(HEAD) :]]
    assert [row[0].removeprefix("| ") for row in rows] == [family.name for family in FAMILIES]
    results = {family.kind: row[3] for family, row in zip(FAMILIES, rows, strict=True)}
    assert sum(result.startswith("works") for result in results.values()) >= 12
