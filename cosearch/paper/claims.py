"""The claims that the paper's text makes about its tables, each recomputed by a function.

``claims.csv`` names section, claim and printed value, and says in words or as a formula where the
value comes from. Every claim of the file must have a function here, and every function a claim of
the file.
"""

from collections.abc import Callable, Iterator, Mapping

from cosearch.paper.numbers import GROUP_MEANS, Claim, Discrepancy, Paper
from cosearch.paper.published import AVERAGE, LATER_NAMES, ORACLE, OURS
from cosearch.statistics.rounding import ValueRange, gain, printed_range, range_sum, weighted

LARGE, SMALL = "Qwen2.5-7B-Instruct", "Qwen2.5-3B-Instruct"
TABLE_2_NAMES = {later: name for name, later in LATER_NAMES.items()}
"""A method's name in Table 7 and the figures -> its name in Table 2."""

ClaimCheck = Callable[[Paper, Claim], Iterator[Discrepancy]]


def check_claims(paper: Paper) -> Iterator[Discrepancy]:
    """Claims that the tables contradict.

    Raises ValueError for a claim without a function that checks it, or the reverse.
    """
    stated = {(claim.section, claim.claim): claim for claim in paper.claims}
    if set(stated) != set(CLAIMS):
        odd = sorted(set(stated) ^ set(CLAIMS))
        raise ValueError(f"claims and their checks do not match: {odd}")
    for key, claim in stated.items():
        yield from CLAIMS[key](paper, claim)


def _value(compute: Callable[[Paper], ValueRange], note: str) -> ClaimCheck:
    """The check of a claim of one number, which ``compute`` derives from the tables."""

    def check(paper: Paper, claim: Claim) -> Iterator[Discrepancy]:
        computed = compute(paper)
        if not printed_range(claim.printed).meets(computed):
            yield _discrepancy(claim, claim.printed, computed, note)

    return check


def _discrepancy(
    claim: Claim, shown: str, computed: ValueRange, note: str, what: str = ""
) -> Discrepancy:
    where = f"Section {claim.section}: {claim.claim}{what}"
    return Discrepancy("claim", where, shown, computed, note)


def _average(paper: Paper, method: str, backbone: str) -> ValueRange:
    return paper.cells(2, method, backbone)[AVERAGE]


def _gain_over(method: str, backbone: str, new: str = OURS) -> ClaimCheck:
    return _value(
        lambda paper: gain(_average(paper, new, backbone), _average(paper, method, backbone)),
        f"Table 2, {new} over {method}, {backbone}, printed averages",
    )


def _closed(backbone: str) -> ClaimCheck:
    """The share of the gap between Retrieval Only and Oracle that CoSearch closes, in percent."""

    def compute(paper: Paper) -> ValueRange:
        ours, base, best = (
            _average(paper, method, backbone) for method in (OURS, "Retrieval Only", ORACLE)
        )
        ends = [
            100 * (a - b) / (c - b)
            for a in (ours.low, ours.high)
            for b in (base.low, base.high)
            for c in (best.low, best.high)
        ]
        value = 100 * (ours.value - base.value) / (best.value - base.value)
        return ValueRange(min(ends), value, max(ends))

    return _value(compute, "Table 2, printed averages")


def _drop(method: str) -> ClaimCheck:
    """The drop from the full model to a row in percent, both as the mean of seven sets."""

    def compute(paper: Paper) -> ValueRange:
        full, row = (
            paper.cells(3, name, paper.backbones(3)[0]) for name in (paper.methods(3)[0], method)
        )
        return gain(weighted(GROUP_MEANS["macro"], row), full[AVERAGE]).times(-1)

    return _value(compute, f"Table 3, {method}: mean of the seven sets against the full model")


def _turns(method: str, *turns: int) -> ClaimCheck:
    def compute(paper: Paper) -> ValueRange:
        shares = paper.by_metric(7, method, "pct_questions@turns=")
        return range_sum(shares[str(n)] for n in turns)

    return _value(compute, f"Table 7, {method}")


def _holds_everywhere(paper: Paper, claim: Claim) -> Iterator[Discrepancy]:
    """Compare CoSearch with the best other method, the oracle excluded, on every set."""
    for backbone in paper.backbones(2):
        ours = paper.cells(2, OURS, backbone)
        others = [method for method in paper.methods(2) if method not in (OURS, ORACLE)]
        for name in (name for name in ours if name != AVERAGE):
            rivals = {method: paper.cells(2, method, backbone)[name] for method in others}
            best = max(rivals, key=lambda method: rivals[method].value)
            if ours[name].surely_below(rivals[best]):
                what, note = f" ({name}, {backbone})", f"{best} has the computed value"
                yield _discrepancy(claim, str(ours[name]), rivals[best], note, what)


def _bounds(paper: Paper, claim: Claim) -> Iterator[Discrepancy]:
    """Compare the oracle with CoSearch on every set."""
    for backbone in paper.backbones(2):
        ours, oracle = (paper.cells(2, method, backbone) for method in (OURS, ORACLE))
        for name in (name for name in ours if name != AVERAGE):
            if oracle[name].surely_below(ours[name]):
                what, note = f" ({name}, {backbone})", f"{OURS} has the computed value"
                yield _discrepancy(claim, str(oracle[name]), ours[name], note, what)


def _in_range(paper: Paper, claim: Claim) -> Iterator[Discrepancy]:
    """Compare the gain from K = 5 to K = 10 of every method with the printed range."""
    low, high = (printed_range(text) for text in claim.printed.split(" to "))
    for method in paper.methods(4):
        values = paper.by_metric(4, method, "F1@K=")
        computed = gain(values["10"], values["5"])
        if computed.surely_below(low) or high.surely_below(computed):
            note = "Table 4 is outside the printed range"
            yield _discrepancy(claim, claim.printed, computed, note, f" ({method})")


CLAIMS: Mapping[tuple[str, str], ClaimCheck] = {
    ("introduction", "3B gain over Search-R1 (relative %)"): _gain_over("Search-R1", SMALL),
    ("conclusion", "3B gain over Search-R1 (relative %)"): _gain_over("Search-R1", SMALL),
    ("4.2", "7B gain over Search-R1 (relative %)"): _gain_over("Search-R1", LARGE),
    ("4.2", "7B gain over Retrieval Only (relative %)"): _gain_over("Retrieval Only", LARGE),
    ("4.2", "7B gain over Fixed Ranker (relative %)"): _gain_over("Fixed Ranker", LARGE),
    ("4.2", "3B gain over Retrieval Only (relative %)"): _gain_over("Retrieval Only", SMALL),
    ("4.2", "3B gain over Fixed Ranker (relative %)"): _gain_over("Fixed Ranker", SMALL),
    ("4.2", "RAG over Direct, 7B (relative %)"): _gain_over("Direct Inference", LARGE, "RAG"),
    ("4.2", "Search-R1 over RAG, 7B (relative %)"): _gain_over("RAG", LARGE, "Search-R1"),
    ("4.2", "share of oracle gap closed, 7B (%)"): _closed(LARGE),
    ("4.2", "share of oracle gap closed, 3B (%)"): _closed(SMALL),
    ("4.2", "improvement holds across all seven benchmarks"): _holds_everywhere,
    ("4.2", "Oracle is an upper bound"): _bounds,
    ("4.3", "drop w/o r_main (relative %)"): _drop("w/o r_main"),
    ("4.3", "drop w/o r_rel (relative %)"): _drop("w/o r_rel"),
    ("4.3", "drop nDCG (relative %)"): _drop("Replace Hit@k with nDCG@k"),
    ("4.3", "drop LLM-as-judge (relative %)"): _drop("Replace Composite with LLM-as-judge"),
    ("4.3", "drop w/o grouping (relative %)"): _drop("w/o semantic grouping"),
    ("4.3", "drop shared backbone (relative %)"): _drop("Shared backbone"),
    ("4.3", "drop cross-encoder (relative %)"): _drop("Cross-Encoder Ranker"),
    ("4.4", "gain K 5 to 10, all methods (relative %)"): _in_range,
    ("appendix G", "Oracle questions at 1-2 turns (%)"): _turns(ORACLE, 1, 2),
    ("appendix G", "CoSearch questions at 1-2 turns (%)"): _turns(OURS, 1, 2),
    ("appendix G", "Fixed Ranker questions at 3 turns (%)"): _turns("Fixed Reranker", 3),
}
"""(section, claim) of claims.csv -> its check."""
