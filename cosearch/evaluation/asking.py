"""Evaluated systems that answer one question while a reader watches.

A system is opened as its evaluation opens it, so a question of the test set gets the trajectory
that the evaluation recorded. Nothing is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

from cosearch.core.credit import CreditRules
from cosearch.core.formats import Grammar
from cosearch.core.observe import PendingSearch, Pipeline, needs_gold
from cosearch.core.protocols import Engine
from cosearch.core.types import Question, Trajectory
from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.evaluation.opened import open_system, start_of
from cosearch.files.artifacts import Paths
from cosearch.methods.bundle import METHODS
from cosearch.params import blocks
from cosearch.params.derived import BASE
from cosearch.params.rows_file import row_command
from cosearch.params.settings import Settings
from cosearch.rollouts.collect import Play
from cosearch.rollouts.deadline import Supervision
from cosearch.rollouts.policy import serving
from cosearch.rollouts.trained import Trained
from cosearch.rollouts.wiring import Parts, engines_of

FREE = "asked"
"""Data set of a question that stands in no test set. It has no golds."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A search of a trajectory that goes on: as the agent asked for it, or ``ranked``."""

    search: PendingSearch
    ranked: bool


@dataclass(frozen=True, slots=True)
class Teller:
    """A stage of a pipeline that tells of every search and changes none."""

    tell: Callable[[Moment], None]
    ranked: bool

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Tell of ``search`` and return it."""
        self.tell(Moment(search, self.ranked))
        return search


class Ear:
    """Stands around a pipeline and keeps the moments that it hears. ``reads_golds``: a stage of the
    pipeline reads the gold answers."""

    def __init__(self) -> None:
        self.reads_golds = False
        self._heard: list[Moment] = []

    def around(self, stages: Pipeline) -> Pipeline:
        """``stages`` between two that tell of every search."""
        self.reads_golds = needs_gold(stages)
        tell = self._heard.append
        return (Teller(tell, ranked=False), *stages, Teller(tell, ranked=True))

    def take(self) -> list[Moment]:
        """What was heard since the last ``take``."""
        taken = list(self._heard)
        self._heard.clear()
        return taken


@dataclass(frozen=True, slots=True)
class Respondent:
    """A row that answers questions. ``grammar`` is that of its agent's turns."""

    name: str
    grammar: Grammar
    play: Play
    engines: Mapping[str, Engine]
    ear: Ear

    def answer(self, question: Question) -> Iterator[Moment | Trajectory]:
        """The moments of the row's trajectory as they happen, then the trajectory.

        Raises ValueError for a question without golds where the row's ranker reads golds.
        """
        if self.ear.reads_golds and not question.golds:
            raise ValueError(
                f"{self.name} ranks by the gold answers, and this question has none; ask a question"
                " of the test set"
            )
        playing, answer = self.play(question, 0), None
        try:
            while True:
                request = playing.send(answer)
                yield from self.ear.take()
                (answer,) = self.engines[request.engine]([request])
        except StopIteration as done:
            yield from self.ear.take()
            yield done.value
        finally:
            playing.close()


@dataclass(frozen=True, slots=True)
class Asked:
    """Rows that are open for questions, the test questions by their text, and the profile's rules
    of rewards and relevance."""

    respondents: tuple[Respondent, ...]
    known: Mapping[str, Question]
    credit: CreditRules

    def question(self, text: str) -> Question:
        """The first test question with this text, or else a question without golds."""
        return self.known.get(text) or Question(text, FREE, text, ())


@contextmanager
def open_rows(settings: Settings, paths: Paths, names: Sequence[str]) -> Iterator[Asked]:
    """The evaluated rows called ``names`` (``ROW-SEED``) over one corpus and index.

    Raises ValueError for a row that is not there, that is not trained, or whose training diverged.
    """
    starts = {name: _start(settings, paths, name) for name in names}
    questions = read_questions(paths, settings.section(blocks.Evaluate).split)
    _, retriever = open_corpus(settings, paths)
    with ExitStack() as stack:
        found = []
        for name, trained in starts.items():
            row, ear = settings.evaluation(name), Ear()
            opened = open_system(settings, row, trained, ear.around)
            stack.enter_context(serving(opened.policies))
            engines = engines_of(retriever, opened.policies, _unwatched(settings))
            grammar = METHODS[settings.system(row.system).method].dialogue.grammar
            found.append(Respondent(name, grammar, opened.play, engines, ear))
        known = {one.text: one for one in reversed(questions)}
        yield Asked(tuple(found), known, Parts.of(settings, {}).credit())


def _start(settings: Settings, paths: Paths, name: str) -> Trained:
    every = settings.graph.evaluations
    if name not in every:
        near = ", ".join(get_close_matches(name, every)) or "rows.yaml lists them"
        raise ValueError(f"no evaluated row {name!r} in profile {settings.profile}; near: {near}")
    row = settings.evaluation(name)
    system, needed = settings.system(row.system), paths.needed(row.needs)
    if system.variant != BASE and not (needed / "trained.json").is_file():
        command = row_command(settings.profile, system.variant, row.seed)
        raise ValueError(f"{name} is not trained here: no {needed}; run `{command}`")
    trained = start_of(Parts.of(settings, {}), system, needed)
    if trained.diverged:
        raise ValueError(
            f"{name} has no models: its training diverged in round {trained.diverged.round}"
            f" ({trained.diverged.reason})"
        )
    return trained


def _unwatched(settings: Settings) -> Supervision:
    """The limits of a stage's engines, without anyone to give a sign to."""
    return Supervision(settings.file.runtime.engine, lambda note: None)
