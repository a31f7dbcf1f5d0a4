"""``python -m cosearch ask``: asks one or two evaluated rows a question, and shows how each of them
reasons, searches, ranks and answers while it does so."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import zip_longest

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cosearch.commands.console import open_console, printable
from cosearch.commands.scenes import scenes
from cosearch.core.types import Question
from cosearch.evaluation.asking import FREE, Asked, open_rows
from cosearch.files.artifacts import Paths
from cosearch.params.settings import load_settings
from cosearch.run.pins import hold_pins

PROMPT = "question (an empty line ends): "


def ask_rows(profile: str, names: Sequence[str], text: str | None) -> None:
    """Ask the rows called ``names``, one or two, side by side. Without ``text``, questions are read
    from standard input until an empty line or its end. Ctrl-C ends the command.

    Raises ValueError for a row that cannot answer; between the questions that are read, an error is
    one line, and the next question is read.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    console = open_console()
    settings = load_settings(profile)
    hold_pins(settings)
    opened = open_rows(settings, Paths(profile), names)
    with suppress(KeyboardInterrupt), opened as asked:
        if text is not None:
            _show(console, asked, text)
            return
        for line in _lines():
            try:
                _show(console, asked, line)
            except ValueError as error:
                print(f"error: {error}", file=sys.stderr)


def _lines() -> Iterator[str]:
    """Lines of standard input up to the first empty one."""
    while line := _line():
        yield line


def _line() -> str:
    try:
        return input(PROMPT if sys.stdin.isatty() else "").strip()
    except EOFError:
        return ""


def _show(console: Console, asked: Asked, text: str) -> None:
    """Print what every row does with one question, as it happens."""
    question = asked.question(text)
    console.print(_heading(question))
    names = [respondent.name for respondent in asked.respondents]
    parts = [scenes(one, question, asked.credit) for one in asked.respondents]
    work = console.status(" and ".join(names)) if console.is_terminal else nullcontext()
    with work:
        console.print(_beside([Text(name, "bold reverse") for name in names]))
        for pair in zip_longest(*parts, fillvalue=""):
            console.print(_beside(pair))


def _heading(question: Question) -> Text:
    golds = " · ".join(question.golds)
    known = f"test question {question.id} of {question.dataset}; golds: {golds}"
    said = "not a question of the test set" if question.dataset == FREE else known
    return Text.assemble("\n", ("question: ", "bold"), printable(question.text), "\n").append(
        printable(f"({said})\n")
    )


def _beside(parts: Sequence[RenderableType]) -> RenderableType:
    """One part as it is, or two in columns of the same width."""
    if len(parts) == 1:
        return parts[0]
    grid = Table.grid(expand=True, padding=(0, 2))
    for _ in parts:
        grid.add_column(ratio=1)
    grid.add_row(*parts)
    return grid
