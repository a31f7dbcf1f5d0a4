"""The frame of a table: the profile that made its numbers, the F1 rule, the average, the labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosearch.scores.averages import Average, average

PROFILE_NOTES = {
    "tiny": "profile tiny: a generated world, not comparable with the paper",
    "mini": "profile mini: small models on a part of the data, not comparable with the paper",
    "paper": "profile paper: the published setting",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """The frame of a table. ``kinds`` and ``labels`` give the order of data sets and systems.

    ``rule``: yes/no rule of the F1 (``bag`` or ``squad``). ``average``: ``macro`` or
    ``macro_groups``; verdicts and drops use this average.
    """

    profile: str
    rule: str
    average: str
    kinds: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def f1(self) -> str:
        """The predictions column of the F1."""
        return f"f1_{self.rule}"

    @property
    def comparable(self) -> bool:
        """True if a published number may stand beside ours: under profile ``paper`` only."""
        return self.profile == "paper"

    def published(self, backbone: str | None) -> str | None:
        """The backbone whose published numbers stand beside ours, or None.

        ``backbone``: the agent model that a table names, None where it names none.
        """
        return backbone if self.comparable else None

    def average_of(self, datasets: Sequence[str]) -> Average:
        """The table's average over these sets."""
        return average(self.average, {name: self.kinds[name] for name in datasets})

    def note(self, *more: str) -> str:
        """The sentence about the profile, then the sentences about what is measured."""
        lead = PROFILE_NOTES.get(self.profile, f"profile {self.profile}: not comparable")
        return ". ".join([lead, *more]) + "."

    def f1_note(self, datasets: Sequence[str]) -> str:
        """The note with the F1 rule and the scope's average over ``datasets``."""
        shape = {
            "macro": f"mean of the {len(datasets)} sets",
            "macro_groups": "mean of the single-hop mean and the multi-hop mean",
        }[self.average]
        return self.note(
            f"F1, yes/no golds under the rule {self.rule}", f"Average: {self.average} ({shape})"
        )

    def label(self, system: str) -> str:
        """The name of a system for a reader; its identifier where it has no label."""
        return self.labels.get(system, system)
