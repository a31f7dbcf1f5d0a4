"""The paper's own numbers, recomputed: every average, gain and claim that does not add up.

A printed number counts as wrong only when no rounding of the numbers it rests on explains it: every
number stands for all values that print like it (``rounding.Span``), and two numbers agree where
those overlap. Nothing of ours enters; this is the paper against itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from itertools import pairwise
from statistics import fmean

from cosearch.paper import claims
from cosearch.paper.numbers import GROUP_MEANS, MACRO, SETS, Finding, Paper, read_paper
from cosearch.paper.published import AVERAGE, EXPECTED, ORACLE, OURS
from cosearch.scores.averages import KINDS, kind_average
from cosearch.statistics.rounding import Span, gain, printed, total, weighted
from cosearch.tables.layout import Column, Row, Table

DEFAULT_K = 5
LAST_ROUNDS = 10
"""Rounds at the end of a curve that stand for where it ends."""
MESSAGES_WITHIN = 0.5
"""How near a curve of messages must end to 2 x searches + 2: training is sampled, Table 7 is not.
Half a message is a quarter of a search."""
CURVES_WITHIN = 2e-4
"""Two readings of one drawn curve differ by less."""


def check_paper(folder: Traversable = EXPECTED) -> list[Finding]:
    """What does not add up in the paper: tables, then claims, then figures.

    ``folder``: a copy of the files of ``expected/``; the product's own where none is named.
    """
    paper = read_paper(folder)
    checks: Sequence[Callable[[Paper], Iterator[Finding]]] = (
        check_main,
        check_repeated,
        check_gap,
        check_ablations,
        check_grid,
        check_searches,
        claims.check_claims,
        check_figures,
    )
    return [finding for check in checks for finding in check(paper)]


def check_main(paper: Paper) -> Iterator[Finding]:
    """Table 2: the printed average is that of the seven cells."""
    for backbone in paper.backbones(2):
        for method in paper.methods(2):
            cells = paper.cells(2, method, backbone)
            yield from _compare(
                "average",
                f"Table 2, {method}, {backbone}",
                cells[AVERAGE],
                weighted(MACRO, cells),
                "mean of the seven sets",
            )


def check_repeated(paper: Paper) -> Iterator[Finding]:
    """Table 2: no cell of one agent is that of the other, digit for digit."""
    first, *others = paper.backbones(2)
    for method in paper.methods(2):
        for name, text in paper.texts(2, method, first).items():
            for other in others:
                if paper.texts(2, method, other).get(name) == text:
                    where = f"Table 2, {method}, {name}"
                    note = f"the cell of {other} is that of {first}"
                    yield Finding("repeated cell", where, text, None, note)


def check_gap(paper: Paper) -> Iterator[Finding]:
    """Table 1: cells from Table 2, averages from the cells, gains from both rows."""
    sides = {"Standard": "Retrieval Only", "Oracle Retrieval": "Oracle"}
    for backbone in paper.backbones(1):
        rows = {side: paper.cells(1, side, backbone) for side in sides}
        for side, method in sides.items():
            main = paper.cells(2, method, backbone)
            where = f"Table 1, {side}, {backbone}"
            for kind in KINDS:
                means = weighted(kind_average(kind, SETS), main)
                note = f"mean of the sets of Table 2, {method}"
                yield from _compare(
                    "average", f"{where}, {kind}", rows[side][f"{kind}_hop"], means, note
                )
            computed = weighted(GROUP_MEANS["macro"], rows[side])
            yield from _compare("average", where, rows[side][AVERAGE], computed, "mean of the sets")
        for name, shown in paper.cells(1, "Rel. Gain", backbone).items():
            computed = gain(rows["Oracle Retrieval"][name], rows["Standard"][name])
            where = f"Table 1, relative gain, {backbone}, {name}"
            yield from _compare("gain", where, shown, computed, "oracle over standard, percent")


def check_ablations(paper: Paper) -> Iterator[Finding]:
    """Table 3: every average is the mean of the sets, as that of the full model is."""
    backbone = paper.backbones(3)[0]
    for method in paper.methods(3):
        cells = paper.cells(3, method, backbone)
        if set(cells) != {"single_hop", "multi_hop", AVERAGE}:
            continue
        macro, groups = (weighted(look, cells) for look in GROUP_MEANS.values())
        if cells[AVERAGE].meets(macro):
            continue
        mixed = cells[AVERAGE].meets(groups)
        note = "the mean of single-hop and multi-hop, where other rows average seven sets"
        yield Finding(
            "mixed averages" if mixed else "average",
            f"Table 3, {method}",
            str(cells[AVERAGE]),
            macro,
            note if mixed else "neither the mean of the sets nor that of the two groups",
        )


def check_grid(paper: Paper) -> Iterator[Finding]:
    """Table 4: changes from the values, K = 5 from Table 2, the oracle no worse with more."""
    backbone = paper.backbones(4)[0]
    for method in paper.methods(4):
        values = paper.by_metric(4, method, "F1@K=")
        changes = paper.by_metric(4, method, f"rel_change_pct_vs_K{DEFAULT_K}@K=")
        base = values[str(DEFAULT_K)]
        main = paper.cells(2, method, backbone)[AVERAGE]
        where = f"Table 4, {method}, K={DEFAULT_K}"
        yield from _compare("average", where, base, main, "average of Table 2")
        for k, shown in changes.items():
            where = f"Table 4, {method}, change to K={k}"
            yield from _compare("gain", where, shown, gain(values[k], base), "percent")
        if method == ORACLE:
            yield from _falls(values)


def _falls(values: Mapping[str, Span]) -> Iterator[Finding]:
    """Where the oracle gets worse although it shows more: its first documents stay the same."""
    ks = sorted(values, key=int)
    for k, more in pairwise(ks):
        if values[more].surely_below(values[k]):
            yield Finding(
                "upper bound",
                f"Table 4, {ORACLE}, K={k} and K={more}",
                str(values[more]),
                values[k],
                f"more documents in the same order, lower F1 (K={k} gives the computed value)",
            )


def check_searches(paper: Paper) -> Iterator[Finding]:
    """Table 7: percentages add up to 100, and give the printed mean."""
    for method in paper.methods(7):
        shares = paper.by_metric(7, method, "pct_questions@turns=")
        mean = paper.by_metric(7, method, "avg_search_turns")[""]
        whole = total(shares.values())
        yield from _compare("sum", f"Table 7, {method}", printed("100"), whole, "percent")
        counted = total(share.times(int(turns) / 100) for turns, share in shares.items())
        yield from _compare("average", f"Table 7, {method}", mean, counted, "mean searches")


def check_figures(paper: Paper) -> Iterator[Finding]:
    """Figures 2 and 3 against each other and against Tables 2 and 7."""
    hits = paper.curve("fig2b_hit5", OURS)
    relevance = paper.curve("fig3b_relevance_reward", "pre-filter")
    apart = max(abs(hits[step] - relevance[step]) for step in hits)
    if apart <= CURVES_WITHIN:
        note = "the curve named Hit@5 is the relevance reward of Figure 3b before filtering"
        where = f"Figure 2b, {OURS}, and Figure 3b"
        yield Finding("figure", where, "Hit@5", f"apart by at most {apart:.4f}", note)
    for method in paper.methods(7):
        final = list(paper.curve("fig2a_val_f1_avg7", method).values())[-1]
        main = paper.cells(2, claims.TABLE_2_NAMES.get(method, method), paper.backbones(4)[0])
        where = f"Figure 2a, {method}, last point"
        yield from _compare(
            "figure", where, printed(f"{final:.3f}"), main[AVERAGE], "average of Table 2"
        )
        ends = fmean(list(paper.curve("fig2c_turns", method).values())[-LAST_ROUNDS:])
        searches = paper.by_metric(7, method, "avg_search_turns")[""]
        messages = 2 * searches.value + 2
        if abs(ends - messages) <= MESSAGES_WITHIN < abs(ends - searches.value):
            note = f"ends at 2 x searches + 2 of Table 7 ({searches}): messages, not search turns"
            yield Finding("figure", f"Figure 2c, {method}", f"{ends:.2f}", f"{messages:.2f}", note)


def _compare(kind: str, where: str, shown: Span, computed: Span, note: str) -> Iterator[Finding]:
    if not shown.meets(computed):
        yield Finding(kind, where, str(shown), computed, note)


def paper_check_table(findings: Sequence[Finding]) -> Table:
    """The findings as a section of the report. No number of ours stands in it."""
    rows = [Row(one.where, (one.kind, one.printed, one.shown, one.note)) for one in findings]
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
