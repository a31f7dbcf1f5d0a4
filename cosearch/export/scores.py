"""What a row reached, with an interval for every number, as the tables draw them."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosearch.params.rows import Statistics
from cosearch.scores.averages import sets_and_kinds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import value_interval
from cosearch.statistics.results import Result, ResultSet
from cosearch.statistics.scope import Scope


@dataclass(frozen=True, slots=True)
class Score:
    """F1 and EM over the ``questions`` of a data set, a kind of sets, or all sets."""

    name: str
    questions: int
    f1: Interval
    em: Interval


def row_scores(result: Result, scope: Scope, statistics: Statistics) -> Sequence[Score]:
    """A score for every data set, for each kind, and for the average that the tables print."""
    found = ResultSet([result], scope, {}, statistics)
    looks = sets_and_kinds(found.kinds) | {f"average ({scope.average})": found.average}
    counts = found.question_counts
    return [
        Score(
            name,
            sum(counts[dataset] for dataset in look.weights),
            value_interval([result], scope.f1, look, statistics),
            value_interval([result], "em", look, statistics),
        )
        for name, look in looks.items()
    ]
