"""A trajectory for a terminal, scene by scene: what the agent wrote and asked for, what was found
and how it was ranked, and how it ended."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cosearch.commands.console import printable
from cosearch.core.credit import CreditRules
from cosearch.core.formats import Grammar, Malformed, parse_turn
from cosearch.core.observe import PendingSearch
from cosearch.core.relevance import RelevanceRule
from cosearch.core.text import answer_f1
from cosearch.core.types import Question, Trajectory
from cosearch.evaluation.asking import Respondent
from cosearch.methods.search_o1 import first_reason

ROWS = 12
"""Candidates that are listed of a search; those that the agent is shown always are."""
TITLE_WIDTH = 30
SCORE_DIGITS = 3


def scenes(
    respondent: Respondent, question: Question, credit: CreditRules
) -> Iterator[RenderableType]:
    """What a row does with ``question``, as it happens: two scenes per search, and a last one."""
    grammar, told = respondent.grammar, 0
    for moment in respondent.answer(question):
        if isinstance(moment, Trajectory):
            last = _turns(moment.turns, told, grammar)
            yield Group(*last, _ending(moment, credit.reward.yes_no_rule))
        elif moment.ranked:
            yield Group(*_ranked(moment.search, credit.relevance))
        else:
            asked = Text.assemble(("search: ", "bold cyan"), printable(moment.search.query))
            yield Group(*_turns(moment.search.turns, told, grammar), asked)
            told = len(moment.search.turns)


def _turns(turns: Sequence[str], told: int, grammar: Grammar) -> list[Text]:
    """The reasoning of every turn after the first ``told``; a malformed turn is shown whole."""
    return [_turn(number, turns[number], grammar) for number in range(told, len(turns))]


def _turn(number: int, text: str, grammar: Grammar) -> Text:
    action = parse_turn(text, grammar)
    if isinstance(action, Malformed):
        said, fault = text, f" (malformed: {action.reason})"
    else:
        said, fault = text[slice(*action.reason_at)], ""
    head = (f"turn {number + 1}: ", "bold")
    return Text.assemble(head, printable(said.strip()), (fault, "red"))


def _ranked(search: PendingSearch, rule: RelevanceRule) -> Iterator[RenderableType]:
    """What the ranker said, the candidates in its order, and the note in their place."""
    output = search.output
    if output is not None and (reason := first_reason(output.text)):
        yield Text.assemble(("ranker: ", "bold magenta"), printable(reason))
    if output is not None and output.fault is not None:
        yield Text(f"ranker: malformed ({output.fault}); the retriever's order is shown", "red")
    yield _candidates(search, rule)
    if search.note is not None:
        yield Text.assemble(("note: ", "bold magenta"), printable(search.note.text))


def _candidates(search: PendingSearch, rule: RelevanceRule) -> Table:
    """Candidates by the order shown, then by the retriever's; those that the agent reads have a
    number and a dot, and those that hold a gold answer a star."""
    labels = rule.label(search.question, search.candidates)
    rest = [at for at in range(len(search.candidates)) if at not in search.ranking]
    listed = [*search.ranking, *rest[: max(0, ROWS - len(search.ranking))]]
    left_out = len(search.candidates) - len(listed)
    table = Table(box=None, pad_edge=False, caption=f"{left_out} more" if left_out else None)
    for name in ("shown", "found", "score", "gold"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("title", max_width=TITLE_WIDTH)
    table.add_column("text")
    for place, at in enumerate(listed, 1):
        found, shown = search.candidates[at], place <= len(search.ranking)
        table.add_row(
            f"● {place}" if shown else "",
            str(at + 1),
            f"{found.score:.{SCORE_DIGITS}f}",
            "*" if labels[at] else "",
            _one_line(found.passage.title),
            _one_line(found.passage.text),
            style="" if shown else "dim",
        )
    return table


def _one_line(text: str) -> Text:
    """A cell that ends with an ellipsis where its column is narrower."""
    cell = printable(" ".join(text.split()))
    cell.no_wrap, cell.overflow = True, "ellipsis"
    return cell


def _ending(trajectory: Trajectory, yes_no_rule: str) -> Text:
    """The answer, its F1 where there are golds, and documents that did not fit the agent."""
    golds = trajectory.question.golds
    if trajectory.answer is None:
        ended = " ".join(filter(None, (trajectory.terminal.value, trajectory.fault)))
        said = Text.assemble(("no answer: ", "bold red"), ended)
    else:
        said = Text.assemble(("answer: ", "bold green"), printable(trajectory.answer))
        f1 = answer_f1(trajectory.answer, golds, yes_no_rule=yes_no_rule) if golds else None
        said.append("" if f1 is None else f" (F1 {f1:.{SCORE_DIGITS}f})")
    for number, call in enumerate(trajectory.calls, 1):
        if call.dropped_documents:
            said.append(f"\nsearch {number}: the last {call.dropped_documents} shown did not fit")
    return said
