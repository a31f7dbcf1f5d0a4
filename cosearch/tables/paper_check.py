"""The table of the paper's own numbers that contradict each other."""

from collections.abc import Sequence

from cosearch.paper.numbers import Discrepancy
from cosearch.tables.layout import Column, PrintedRow, Table


def paper_check_table(found: Sequence[Discrepancy]) -> Table:
    """One row per discrepancy. It shows numbers of the paper only, none of this pipeline."""
    rows = [PrintedRow(one.where, (one.kind, one.printed, one.shown, one.note)) for one in found]
    return Table(
        "paper_check",
        "The paper's own numbers, checked",
        "Printed numbers that their own cells do not give. A number counts as wrong only when no"
        " rounding of the cells explains it. None of the numbers was made by this pipeline.",
        "published",
        tuple(Column(name, text=True) for name in ("kind", "printed", "computed", "note")),
        tuple(rows),
        head="Where",
    )
