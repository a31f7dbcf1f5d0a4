"""Search-o1 (arXiv 2501.05366): the agent reads a note on the documents, not the documents.

After each retrieval the same model is called separately, under engine role ``refiner``. It reads
the question, the query, a short form of the reasoning so far, and the documents, and writes down
what helps. The method trains no model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosearch.core.formats import GRAMMARS, Grammar
from cosearch.core.observe import PendingSearch
from cosearch.core.prompts import Fill, Prompting, fit_documents
from cosearch.core.protocols import Codec, Generate, Segment
from cosearch.core.seeds import derive
from cosearch.core.text import normalize
from cosearch.core.transcript import sampled_body
from cosearch.core.types import Note, Sampling

GRAMMAR = GRAMMARS["react"]
"""The grammar of the agent's turns; the refiner writes its note in a ``reason`` block of it."""
RECENT_STEPS = 4
"""How many of the latest steps of the reasoning are always kept (P: Search-o1)."""
GAP = "…"
"""Stands in place of steps that were left out."""


@dataclass(frozen=True, slots=True)
class NoteStage:
    """Adds the note on D_K to a search. ``max_prompt_tokens`` must leave room for the instructions,
    for all that the agent may have written, and for one document."""

    codec: Codec
    sampling: Sampling
    prompting: Prompting
    max_prompt_tokens: int

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Ask the refiner. A repeated query, or one that found nothing, gets a fixed note."""
        used = {normalize(call.query) for call in search.calls}
        if normalize(search.query) in used:
            return replace(search, note=self._fixed("notes_repeated"))
        if not search.ranking:
            return replace(search, note=self._fixed("notes_nothing"))
        ids, dropped = self.prompt(search)
        seed = derive(search.seed, "refiner", search.turn)
        generation = await Generate("refiner", tuple(ids), self.sampling, seed)
        written = first_reason(self.codec.decode(sampled_body(generation, self.codec)))
        text = written or self.prompting.text("notes_nothing")
        cuts = self.prompting.cuts(search.passages(), dropped)
        return replace(search, note=Note(tuple(ids), generation, text, dropped, cuts))

    def prompt(self, search: PendingSearch) -> tuple[list[int], int]:
        """Prompt ids with as many documents of D_K, from the first, as the budget allows, and how
        many it left out.

        Raises ValueError when it allows none, because instructions and reasoning are never cut.
        """
        documents = self.prompting.documents(search.passages())

        def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
            fills: dict[str, Fill] = {
                "question": search.question.text,
                "query": search.query,
                "reasoning": abridge(search.turns, GRAMMAR),
                "documents": [segment for document in kept for segment in document],
            }
            return self.codec.chat(self.prompting.fill("notes", fills))

        ids, dropped = fit_documents(render, documents, max_tokens=self.max_prompt_tokens)
        if dropped == len(documents):
            raise ValueError(
                f"max_prompt_tokens={self.max_prompt_tokens} of the notes leaves no room for a"
                f" document of query {search.query!r}"
            )
        return ids, dropped

    def _fixed(self, template: str) -> Note:
        return Note((), None, self.prompting.text(template))


def abridge(turns: Sequence[str], grammar: Grammar) -> str:
    """A short form of the reasoning: the first step, the last four, and every step that searches.
    A mark stands for each run of steps that is left out.

    Blank lines separate steps, and every turn begins a new one.
    """
    steps = [step.strip() for turn in turns for step in turn.split("\n\n") if step.strip()]
    kept: list[str] = []
    for number, step in enumerate(steps):
        recent = number >= len(steps) - RECENT_STEPS
        if number == 0 or recent or f"<{grammar.search}>" in step:
            kept.append(step)
        elif kept[-1] != GAP:
            kept.append(GAP)
    return "\n\n".join(kept)


def first_reason(text: str) -> str:
    """The content of the first whole reason block of ``text``; empty without such a block."""
    _, _, rest = text.partition(f"<{GRAMMAR.reason}>")
    inside, end, _ = rest.partition(f"</{GRAMMAR.reason}>")
    return inside.strip() if end else ""
