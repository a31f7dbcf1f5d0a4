"""Renders prompts through the template files, in the same way as rollouts do."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosearch.core.prompts import Fill, fill_template, fill_text, load_template
from cosearch.core.protocols import Segment
from cosearch.core.types import Passage
from cosearch.pretrain.words import WordCodec


@dataclass(frozen=True, slots=True)
class Prompts:
    """Renders prompts with a codec, a set of templates and the document templates of both roles."""

    codec: WordCodec
    templates: str
    agent_document: str
    ranker_document: str

    def question(self, text: str) -> list[int]:
        """The agent's prompt."""
        return self.codec.chat(fill_template(self.templates, "agent", {"question": text}))

    def observation(self, passages: Sequence[Passage]) -> list[int]:
        """The agent's observation after a search. The agent has sampled the end token of the
        search."""
        ((_, template),) = load_template(self.templates, "observation")
        documents = _documents(self.agent_document, passages, 1)
        return self.codec.reply(fill_text(template, {"documents": documents}), after_eos=True)

    def candidates(
        self, question: str, query: str, passages: Sequence[Passage], *, top_k: int, start: int
    ) -> list[int]:
        """The ranker's prompt. The first candidate has the number ``start``."""
        fills: dict[str, Fill] = {
            "question": question,
            "query": query,
            "candidates": _documents(self.ranker_document, passages, start),
            "n": len(passages),
            "k": min(top_k, len(passages)),
        }
        return self.codec.chat(fill_template(self.templates, "ranker", fills))

    def request(self, question: str, query: str, gold: str, *, useful: bool) -> list[int]:
        """The simulator's prompt."""
        name = "simulate_useful" if useful else "simulate_noisy"
        fills: dict[str, Fill] = {"question": question, "query": query, "gold": gold}
        return self.codec.chat(fill_template(self.templates, name, fills))

    def pair(self, question: str, query: str, passage: Passage) -> list[int]:
        """The cross-encoder's prompt. The model scores it at the last token."""
        fills: dict[str, Fill] = {
            "question": question,
            "query": query,
            "title": passage.title,
            "text": passage.text,
        }
        return self.codec.chat(fill_template(self.templates, "pair", fills))


def _documents(document: str, passages: Sequence[Passage], start: int) -> list[Segment]:
    return [
        segment
        for number, passage in enumerate(passages, start=start)
        for segment in fill_text(
            document, {"number": number, "title": passage.title, "text": passage.text}
        )
    ]
