"""The paper's own numbers, recomputed: every average, gain and claim that does not add up.

A printed number counts as wrong only when no rounding of the numbers behind it explains it. Every
number stands for all values that print like it (``rounding.ValueRange``), and two numbers agree
where these ranges overlap. The checks compare the paper with itself and use no number of ours.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from itertools import pairwise
from statistics import fmean

from cosearch.paper import claims
from cosearch.paper.numbers import GROUP_MEANS, MACRO, SETS, Discrepancy, Paper, read_paper
from cosearch.paper.published import AVERAGE, EXPECTED, ORACLE, OURS
from cosearch.scores.averages import KINDS, kind_average
from cosearch.statistics.rounding import ValueRange, gain, printed_range, range_sum, weighted

DEFAULT_K = 5
LAST_ROUNDS = 10
"""Number of rounds at the end of a curve whose mean counts as its final value."""
MESSAGES_WITHIN = 0.5
"""Largest distance, in messages, between the end of a curve and 2 x searches + 2 of Table 7.

Half a message is a quarter of a search. The curve is of sampled training rollouts, Table 7 is of
an evaluation, so the two differ a little.
"""
CURVES_WITHIN = 2e-4
"""Two readings of the same drawn curve differ by at most this much."""


def check_paper(folder: Traversable = EXPECTED) -> list[Discrepancy]:
    """Everything that does not add up in the paper: tables, then claims, then figures.

    ``folder``: a copy of the files of ``expected/``; the default is the product's own copy.
    """
    paper = read_paper(folder)
    checks: Sequence[Callable[[Paper], Iterator[Discrepancy]]] = (
        check_main,
        check_repeated,
        check_gap,
        check_ablations,
        check_grid,
        check_searches,
        claims.check_claims,
        check_figures,
    )
    return [one for check in checks for one in check(paper)]


def check_main(paper: Paper) -> Iterator[Discrepancy]:
    """Table 2: compare every printed average with the mean of its seven cells."""
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


def check_repeated(paper: Paper) -> Iterator[Discrepancy]:
    """Table 2: find cells of the second agent that equal those of the first digit for digit."""
    first, *others = paper.backbones(2)
    for method in paper.methods(2):
        for name, text in paper.texts(2, method, first).items():
            for other in others:
                if paper.texts(2, method, other).get(name) == text:
                    where = f"Table 2, {method}, {name}"
                    note = f"the cell of {other} is that of {first}"
                    yield Discrepancy("repeated cell", where, text, None, note)


def check_gap(paper: Paper) -> Iterator[Discrepancy]:
    """Table 1: compare cells with Table 2, averages with cells, gains with both rows."""
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


def check_ablations(paper: Paper) -> Iterator[Discrepancy]:
    """Table 3: compare every average with the mean of the sets, which the full model prints."""
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
        yield Discrepancy(
            "mixed averages" if mixed else "average",
            f"Table 3, {method}",
            str(cells[AVERAGE]),
            macro,
            note if mixed else "neither the mean of the sets nor that of the two groups",
        )


def check_grid(paper: Paper) -> Iterator[Discrepancy]:
    """Table 4: compare changes with values and K = 5 with Table 2; more documents must not make the
    oracle worse."""
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


def _falls(values: Mapping[str, ValueRange]) -> Iterator[Discrepancy]:
    """Every K after which the oracle is worse with more documents, although its first ones stay."""
    ks = sorted(values, key=int)
    for k, more in pairwise(ks):
        if values[more].surely_below(values[k]):
            yield Discrepancy(
                "upper bound",
                f"Table 4, {ORACLE}, K={k} and K={more}",
                str(values[more]),
                values[k],
                f"more documents in the same order, lower F1 (K={k} gives the computed value)",
            )


def check_searches(paper: Paper) -> Iterator[Discrepancy]:
    """Table 7: compare the sum of the percentages with 100, and their mean with the printed one."""
    for method in paper.methods(7):
        shares = paper.by_metric(7, method, "pct_questions@turns=")
        mean = paper.by_metric(7, method, "avg_search_turns")[""]
        whole = range_sum(shares.values())
        yield from _compare("sum", f"Table 7, {method}", printed_range("100"), whole, "percent")
        counted = range_sum(share.times(int(turns) / 100) for turns, share in shares.items())
        yield from _compare("average", f"Table 7, {method}", mean, counted, "mean searches")


def check_figures(paper: Paper) -> Iterator[Discrepancy]:
    """Compare Figures 2 and 3 with each other and with Tables 2 and 7."""
    hits = paper.curve("fig2b_hit5", OURS)
    relevance = paper.curve("fig3b_relevance_reward", "pre-filter")
    apart = max(abs(hits[step] - relevance[step]) for step in hits)
    if apart <= CURVES_WITHIN:
        note = "the curve named Hit@5 is the relevance reward of Figure 3b before filtering"
        where = f"Figure 2b, {OURS}, and Figure 3b"
        yield Discrepancy("figure", where, "Hit@5", f"apart by at most {apart:.4f}", note)
    for method in paper.methods(7):
        final = list(paper.curve("fig2a_val_f1_avg7", method).values())[-1]
        main = paper.cells(2, claims.TABLE_2_NAMES.get(method, method), paper.backbones(4)[0])
        where = f"Figure 2a, {method}, last point"
        yield from _compare(
            "figure", where, printed_range(f"{final:.3f}"), main[AVERAGE], "average of Table 2"
        )
        ends = fmean(list(paper.curve("fig2c_turns", method).values())[-LAST_ROUNDS:])
        searches = paper.by_metric(7, method, "avg_search_turns")[""]
        messages = 2 * searches.value + 2
        if abs(ends - messages) <= MESSAGES_WITHIN < abs(ends - searches.value):
            note = f"ends at 2 x searches + 2 of Table 7 ({searches}): messages, not search turns"
            yield Discrepancy(
                "figure", f"Figure 2c, {method}", f"{ends:.2f}", f"{messages:.2f}", note
            )


def _compare(
    kind: str, where: str, shown: ValueRange, computed: ValueRange, note: str
) -> Iterator[Discrepancy]:
    if not shown.meets(computed):
        yield Discrepancy(kind, where, str(shown), computed, note)
