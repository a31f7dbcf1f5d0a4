"""What the prompts of a search really held: documents that did not fit, texts that were cut, and
the answers that this hid from their readers."""

from collections.abc import Sequence

from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Passage, Question, SearchCall, as_read

LEFT_OUT = (
    "dropped_documents",
    "cut_documents",
    "dropped_candidates",
    "cut_candidates",
    "dropped_noted",
    "cut_noted",
)
"""Counts of a search: whole documents that did not fit, and texts that were cut, in what the agent
read (``documents``), in the ranker's prompt (``candidates``) and in that of a note (``noted``)."""


def left_out(call: SearchCall) -> dict[str, int]:
    """The counts of ``call``, by the names of ``LEFT_OUT``."""
    output, note = call.output, call.note
    counts = (
        call.dropped_documents,
        len(call.cuts),
        output.dropped_candidates if output else 0,
        len(output.cuts) if output else 0,
        note.dropped_documents if note else 0,
        len(note.cuts) if note else 0,
    )
    return dict(zip(LEFT_OUT, counts, strict=True))


def exposure(call: SearchCall, question: Question, rule: RelevanceRule) -> dict[str, int | None]:
    """All that this module says of ``call``, as columns of a table."""
    return {
        "shown_answer": shows_answer(call, question, rule),
        "shown_documents": len(call.shown()),
        **left_out(call),
        "hidden_documents": hidden_documents(call, question, rule),
        "hidden_candidates": hidden_candidates(call, question, rule),
    }


def shows_answer(call: SearchCall, question: Question, rule: RelevanceRule) -> bool:
    """Whether the agent read an answer: in a document, as far as it was shown, or in the note."""
    return any(rule.is_relevant(passage, question.golds) for passage in call.shown())


def hidden_documents(call: SearchCall, question: Question, rule: RelevanceRule) -> int:
    """Documents of D_K that hold an answer which their reader was not shown. The reader of a search
    with a note is the model that wrote the note."""
    ranked = [call.candidates[position].passage for position in call.ranking]
    if call.note is None:
        return _hidden(ranked, call.shown(), question, rule)
    held = ranked[: len(ranked) - call.note.dropped_documents]
    return _hidden(ranked, as_read(held, call.note.cuts), question, rule)


def hidden_candidates(call: SearchCall, question: Question, rule: RelevanceRule) -> int | None:
    """Members of D_N that hold an answer which the ranker's prompt did not; None without one."""
    if call.output is None:
        return None
    found = [candidate.passage for candidate in call.candidates]
    return _hidden(found, call.output.read(call.candidates), question, rule)


def _hidden(
    whole: Sequence[Passage], read: Sequence[Passage], question: Question, rule: RelevanceRule
) -> int:
    """Relevant passages of ``whole`` without an answer in ``read``, which holds the first ones."""
    kept = [rule.is_relevant(passage, question.golds) for passage in read]
    kept += [False] * (len(whole) - len(read))
    relevant = [rule.is_relevant(passage, question.golds) for passage in whole]
    return sum(wanted and not held for wanted, held in zip(relevant, kept, strict=True))
