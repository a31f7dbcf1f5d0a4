"""One table, five faces."""

import csv
import io
import math

import pytest
from rich.console import Console
from rich.markdown import Markdown

from cosearch.scores.averages import Average
from cosearch.tables.layout import Column, PrintedRow, Table, cell_text, signed_text

HOSTILE = "<script>alert('x')</script> & [red]|\\textbf{_}`$%\n\"end"


def make_table(rows, **changes):
    given = {
        "name": "t",
        "title": "Title",
        "note": "profile tiny: made up.",
        "profile": "tiny",
        "columns": (Column("a"), Column("b"), Column("mean")),
        "rows": tuple(rows),
        "averages": (("mean", Average("macro", {"a": 0.5, "b": 0.5})),),
    }
    return Table(**(given | changes))


def terminal(table):
    console = Console(file=io.StringIO(), width=200, no_color=True)
    console.print(Markdown(table.markdown()))
    return console.file.getvalue()


def test_an_average_must_be_that_of_its_cells():
    make_table([PrintedRow("good", (0.1, 0.3, 0.2))])
    with pytest.raises(ValueError, match=r"bad prints 0.2001 as its macro average"):
        make_table([PrintedRow("bad", (0.1, 0.3, 0.2001))])


def test_every_average_is_proven_and_may_rest_on_numbers_that_are_not_printed():
    columns = (Column("a"), Column("b"), Column("mean"), Column("micro"), Column("EM"))
    averages = (
        ("mean", Average("macro", {"a": 0.5, "b": 0.5})),
        ("micro", Average("micro", {"a": 0.25, "b": 0.75})),
        ("EM", Average("macro", {"em/a": 0.5, "em/b": 0.5})),
    )
    basis = {"em/a": 0.0, "em/b": 0.5}
    good = (0.1, 0.3, 0.2, 0.25, 0.25)
    make_table([PrintedRow("good", good, basis=basis)], columns=columns, averages=averages)
    for at, name in ((2, "macro"), (3, "micro"), (4, "macro")):
        bad = tuple(cell + 0.001 * (n == at) for n, cell in enumerate(good))
        with pytest.raises(ValueError, match=f"as its {name} average"):
            make_table([PrintedRow("bad", bad, basis=basis)], columns=columns, averages=averages)
    with pytest.raises(ValueError, match=r"averages \['em/a', 'em/b'\], which it lacks"):
        make_table([PrintedRow("bare", good)], columns=columns, averages=averages)
    unknown = (*good[:3], None, None)
    make_table([PrintedRow("unknown", unknown)], columns=columns, averages=averages)


def test_rows_must_fit_and_hold_numbers():
    with pytest.raises(ValueError, match="short has 2 cells"):
        make_table([PrintedRow("short", (0.1, 0.3))])
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="no number"):
            make_table([PrintedRow("odd", (value, 0.3, 0.2))])


@pytest.mark.parametrize(
    ("cell", "column", "text"),
    [
        (0.12345, Column("c"), "0.123"),
        (0.12345, Column("c", 1, signed=True), "+0.1"),
        (-0.0001, Column("c"), "0.000"),
        (-0.0001, Column("c", signed=True), "+0.000"),
        (-0.1, Column("c"), "-0.100"),
        (None, Column("c"), "–"),
        (7, Column("c"), "7"),
        ("word", Column("c"), "word"),
    ],
)
def test_cells_print_as_readers_expect(cell, column, text):
    assert cell_text(cell, column) == text


def test_status_takes_the_place_of_numbers_in_every_face():
    table = make_table(
        [PrintedRow("kept", (0.1, 0.3, 0.2)), PrintedRow("gone", (), "withheld: why", ruled=True)]
    )
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert rows[0] == {
        "System": "kept", "a": "0.100000", "b": "0.300000", "mean": "0.200000", "status": "",
        "profile": "tiny",
    }  # fmt: skip
    assert rows[1]["status"] == "withheld: why"
    assert {rows[1][name] for name in ("a", "b", "mean")} == {""}
    assert "| gone | withheld: why | – | – |" in table.markdown()
    assert r"gone & \multicolumn{3}{c}{withheld: why} \\" in table.latex()
    assert "withheld: why" in terminal(table)


def test_every_face_names_the_profile():
    table = make_table([])
    for face in (table.markdown(), table.latex(), terminal(table)):
        assert "profile tiny" in face
    assert table.csv().splitlines()[0].endswith("status,profile")


def test_hostile_text_is_harmless_in_every_face():
    table = make_table(
        [PrintedRow(HOSTILE, (HOSTILE, 0.3, None)), PrintedRow("state", (), HOSTILE)],
        title=HOSTILE,
        note=HOSTILE,
        footnotes=(HOSTILE,),
        columns=(Column(HOSTILE, text=True), Column("b"), Column("c")),
        averages=(),
    )
    lines = table.markdown().splitlines()
    assert not any("<script" in line for line in lines)
    assert {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")} == {5}
    rows = list(csv.reader(io.StringIO(table.csv())))
    assert rows[1][0] == HOSTILE
    assert r"\textbf" not in table.latex()
    assert "[red]" in terminal(table)


@pytest.mark.parametrize("middle", [0.0105, -0.0015, 0.4125])
def test_a_number_in_the_middle_is_printed_alike_however_it_was_computed(middle):
    near = [math.nextafter(middle, end) for end in (-1, 1)]
    column = Column("", signed=True)
    assert len({f"{one:+.3f}" for one in near}) == 2
    assert len({cell_text(one, column) for one in near} | {signed_text(one) for one in near}) == 1


def test_words_are_set_flush_left():
    table = make_table([PrintedRow("r", ("w", 0.1, None))], averages=(),
                       columns=(Column("a", text=True), Column("b"), Column("c")))  # fmt: skip
    assert "| --- | --- | ---: | ---: |" in table.markdown()
    assert r"\begin{tabular}{llrr}" in table.latex()


def test_a_table_without_its_clocks_keeps_the_rest():
    columns = (Column("tokens"), Column("seconds", clock=True), Column("searches"))
    rows = [PrintedRow("one", (1, 2.5, 3)), PrintedRow("none", (), status="not run")]
    table = make_table(rows, columns=columns, averages=()).timeless()
    assert [column.name for column in table.columns] == ["tokens", "searches"]
    assert [row.cells for row in table.rows] == [(1, 3), ()]
