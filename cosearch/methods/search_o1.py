"""Search-o1 (arXiv 2501.05366): the agent reads a note on the documents, not the documents.

After each retrieval a separate call of the same model, engine role ``refiner``, is given the
question, the query, the reasoning so far in short, and the documents, and writes down what helps.
Nothing is trained.
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
"""How the agent writes, and the note in its ``reason`` block."""
RECENT_STEPS = 4
"""How many of the latest steps of the reasoning are always kept (P: Search-o1)."""
GAP = "…"


@dataclass(frozen=True, slots=True)
class NoteStage:
    """Adds the note on D_K to a search. ``max_prompt_tokens`` has to hold the instructions, all
    that the agent may have written and one document."""

    codec: Codec
    sampling: Sampling
    prompting: Prompting
    max_prompt_tokens: int

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Ask the refiner, unless the query was used before or nothing was found."""
        used = {normalize(call.query) for call in search.calls}
        if normalize(search.query) in used:
            return replace(search, note=self._fixed("notes_repeated"))
        if not search.ranking:
            return replace(search, note=self._fixed("notes_nothing"))
        prompt = tuple(self.prompt(search))
        seed = derive(search.seed, "refiner", search.turn)
        generation = await Generate("refiner", prompt, self.sampling, seed)
        written = first_reason(self.codec.decode(sampled_body(generation, self.codec)))
        text = written or self.prompting.text("notes_nothing")
        return replace(search, note=Note(prompt, generation, text))

    def prompt(self, search: PendingSearch) -> list[int]:
        """Prompt ids with as many documents of D_K, from the first, as the budget holds.

        Raises ValueError when it holds none: instructions and reasoning are never cut.
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
        return ids

    def _fixed(self, template: str) -> Note:
        return Note((), None, self.prompting.text(template))


def abridge(turns: Sequence[str], grammar: Grammar) -> str:
    """The reasoning in short: of its steps, which blank lines part, the first, the last four and
    all that search; a mark stands for each run of steps left out.

    A turn begins a new step, so that a turn without blank lines is one step.
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
    """What the first whole reason block of ``text`` holds; empty if there is none."""
    _, _, rest = text.partition(f"<{GRAMMAR.reason}>")
    inside, end, _ = rest.partition(f"</{GRAMMAR.reason}>")
    return inside.strip() if end else ""
