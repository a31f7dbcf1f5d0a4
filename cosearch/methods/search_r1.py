"""Search-R1 (arXiv 2503.09516): the shaped reward of its later version.

The method itself is data (``methods.bundle``): its dialogue, and the exact match as the reward.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormatReward:
    """A reward between the exact match and nothing.

    ``structure``: worth of turns that are all well formed, and what a correct answer loses without
    them; ``retrieval``: added if a wrong but well-formed trajectory was shown a gold; ``attempt``:
    worth of a wrong answer in a malformed trajectory.
    """

    structure: float
    retrieval: float
    attempt: float

    def __call__(
        self, *, has_answer: bool, correct: bool, well_formed: bool, retrieved: bool
    ) -> float:
        """Reward of a trajectory. ``correct`` implies ``has_answer``."""
        if correct:
            return 1.0 if well_formed else 1.0 - self.structure
        if well_formed:
            return self.structure + (self.retrieval if retrieved else 0.0)
        return self.attempt if has_answer else 0.0
