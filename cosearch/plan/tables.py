"""Prints the plan as tables in a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from cosearch.params import blocks
from cosearch.params.plan import Habits
from cosearch.plan.cost import HOUR, total_cost
from cosearch.plan.measure import Deviation
from cosearch.plan.outlook import FitVerdict, Outlook, Priced
from cosearch.plan.phases import Phase, phase_lines, phases
from cosearch.plan.simulate import Drive

SHOWN_OTHERS = 3
"""Number of alternatives that are shown if a profile does not fit."""


def show_plan(outlook: Outlook, console: Console, *, rows: bool) -> None:
    """Print the whole plan. With ``rows`` the first table has a line for every row of the graph."""
    for table in tables(outlook, rows=rows):
        console.print(table)
    for line in lines(outlook):
        console.print(line, highlight=False, soft_wrap=True)


def tables(outlook: Outlook, *, rows: bool) -> Iterator[Table]:
    """Tables of stages, of memory by phase and number of GPUs, of a round, of indexes, and of disk
    space."""
    priced = outlook.priced()
    yield _stages(outlook, priced, rows=rows)
    verdicts = [outlook.verdict(outlook.machine(count)) for count in _counts(outlook)]
    if any(verdict.phases for verdict in verdicts):
        yield _memory(verdicts)
    if parts := phases(outlook):
        yield _phases(parts)
    yield _sizes("Index by kind", outlook.indexes())
    seeds = outlook.settings.file.seed_count
    yield _sizes(f"Disk, all rows, seeds: {seeds}", outlook.disk())


def lines(outlook: Outlook) -> Iterator[str]:
    """Sentences on what fits, what does not fit, and what the plan assumes."""
    for count in _counts(outlook):
        yield from _spoken(outlook.verdict(outlook.machine(count)))
    plan, need = outlook.settings.file.plan, sum(outlook.disk().values())
    verdict = "fits" if need <= plan.host.disk else "refused"
    yield f"disk: {verdict}: {need:.0f} GB of {plan.host.disk:.0f}"
    index, searched = outlook.settings.section(blocks.Index), _hours(outlook, "search")
    place = "host" if index.gpus is None else "GPUs"
    yield (
        f"search: {searched:.0f} of these hours go into exact search on the {place};"
        f" index kind {index.kind}"
    )
    yield from phase_lines(outlook)
    assumed = [name for name, h in outlook.work.calibration.habits.items() if h.measured is None]
    if assumed:
        yield f"habits assumed, not measured: {', '.join(assumed)} (plan.calibration)"


def habits_lines(found: Mapping[str, Habits]) -> list[str]:
    """Lines for ``plan.calibration.PROFILE.habits``."""
    return [f"{name}: {{{_values(habits)}}}" for name, habits in found.items()]


def check_table(found: Mapping[str, Sequence[Deviation]], tolerance: float) -> Table:
    """Table of predicted and measured tokens. ``tolerance`` is the largest good deviation."""
    table = _table("Predicted and measured tokens", "variant", "tokens")
    for name in ("predicted", "measured", "off by", "verdict"):
        table.add_column(name, justify="right")
    for variant, deviations in found.items():
        for one in deviations:
            table.add_row(
                variant,
                one.name,
                f"{one.predicted:,.0f}",
                f"{one.measured:,.0f}",
                f"{one.relative:.1%}",
                "good" if one.relative <= tolerance else "beyond",
            )
    return table


def drives_table(drives: Sequence[Drive]) -> Table:
    """Table of a round's rollout under each driver. Parts of a continuous one overlap."""
    table = _table("The rollout of one round, simulated", "driver")
    for name in ("seconds", *drives[0].parts):
        table.add_column(name, justify="right")
    for one in drives:
        table.add_row(one.driver, *(f"{s:,.0f}" for s in (one.seconds, *one.parts.values())))
    return table


def _counts(outlook: Outlook) -> list[int]:
    return sorted({*outlook.settings.file.plan.counts, outlook.count})


def _stages(outlook: Outlook, priced: Sequence[Priced], *, rows: bool) -> Table:
    machine = outlook.machine()
    title = f"Profile {outlook.settings.profile} on {machine.count} x {machine.name}"
    table = _table(title, "stage", "what")
    for name in ("rows", "read", "sampled", "trained", "FLOPs", "hours", "GPU hours", "USD"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str], list[Priced]] = {}
    for one in priced:
        what = one.stage.name if rows else f"part {one.stage.part}"
        groups.setdefault((one.stage.stage, what), []).append(one)
    for (stage, what), members in groups.items():
        table.add_row(stage, what, *_figures(members, machine.count))
    table.add_section()
    table.add_row("all", "", *_figures(priced, machine.count))
    return table


def _figures(members: Sequence[Priced], gpus: int) -> list[str]:
    flops, hours, price = total_cost((one.stage.rows, one.cost) for one in members)

    def tokens(name: str) -> str:
        values = (one.stage.rows * getattr(x, name) for one in members for x in one.stage.loads)
        return f"{sum(values):.2e}"

    return [
        str(sum(one.stage.rows for one in members)),
        *map(tokens, ("read", "sampled", "trained")),
        f"{flops:.2e}",
        f"{hours:,.1f}",
        f"{hours * gpus:,.0f}",
        f"{price:,.0f}",
    ]


def _memory(verdicts: Sequence[FitVerdict]) -> Table:
    table = _table("GPU memory at its peak, GiB per GPU", "GPUs", "phase")
    for name in ("peak", "may use"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    table.add_column("parts")
    for verdict in verdicts:
        for need in verdict.phases:
            parts = ", ".join(f"{name} {size:.1f}" for name, size in need.parts.items() if size)
            table.add_row(
                str(verdict.machine.count),
                need.phase,
                f"{need.peak:.1f}",
                f"{need.limit:.1f}",
                "fits" if need.fits else "refused",
                f"{parts}; {need.note}" if need.note else parts,
            )
        table.add_section()
    return table


def settings_text(changes: Mapping[str, object]) -> str:
    """Parameters in the spelling of params.yaml."""
    return ", ".join(f"{key}: {_plain(value)}" for key, value in changes.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spoken(verdict: FitVerdict) -> Iterator[str]:
    machine = verdict.machine
    name = f"{machine.count} x {machine.name} ({machine.gpu.memory:.0f} GiB each)"
    if not verdict.phases:
        yield f"{name}: memory is not planned: not all engines are vllm and deepspeed"
        return
    if verdict.fits:
        peak = max(verdict.phases, key=lambda need: need.peak / need.limit)
        yield f"{name}: fits; tightest is {peak.phase}, {peak.peak:.1f} of {peak.limit:.1f} GiB"
    for reason in verdict.reasons:
        yield f"{name}: refused: {reason}"
    for other in verdict.others[:SHOWN_OTHERS]:
        yield f"{name}: would fit with {settings_text(other)}"
    yield f"{name}: host memory {verdict.host_memory:.0f} GiB"


def _phases(parts: Sequence[Phase]) -> Table:
    table = _table("A round of joint training, seconds by phase", "phase")
    table.add_column("seconds", justify="right")
    for name in ("work", "limit", "source"):
        table.add_column(name)
    for one in parts:
        table.add_row(one.name, f"{one.seconds:,.1f}", one.work, one.limit, one.source)
    table.add_section()
    table.add_row("all", f"{sum(one.seconds for one in parts):,.1f}", "", "", "")
    return table


def _sizes(title: str, sizes: Mapping[str, float]) -> Table:
    table = _table(title, "kind")
    table.add_column("GB", justify="right")
    for name, size in sizes.items():
        table.add_row(name, f"{size:,.3g}" if size < 10 else f"{size:,.0f}")
    return table


def _hours(outlook: Outlook, kind: str) -> float:
    return sum(one.stage.rows * one.cost.seconds[kind] for one in outlook.priced()) / HOUR


def _values(habits: Habits) -> str:
    values = habits.model_dump()
    return ", ".join(
        f"{name}: {round(value, 4) if isinstance(value, float) else value}"
        for name, value in values.items()
    )


def _table(title: str, *left: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in left:
        table.add_column(name)
    return table
