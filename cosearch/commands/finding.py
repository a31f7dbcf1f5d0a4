"""One finding of the doctor."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``fix`` is None if nothing is lacking."""

    name: str
    found: str
    fix: str | None = None


def amount(name: str, have: float, least: float, unit: str, fix: str) -> Finding:
    """A finding that lacks ``fix`` where ``have`` is less than ``least``."""
    found = f"{have:.0f} {unit} of {least:.0f} needed"
    return Finding(name, found, None if have >= least else fix)
