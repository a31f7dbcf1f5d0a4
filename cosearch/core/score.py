"""The cross-encoder ranker: pointwise scores, and a Plackett-Luce policy over them (Table 3).

The model scores every candidate on its own, together with q0 and q_t. The policy picks K documents
one after another by their scores, so it is trained with the same rewards, groups and loss as a
ranker that writes text.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosearch.core.observe import PendingSearch
from cosearch.core.prompts import Fill, fill_template
from cosearch.core.protocols import Choose, Codec
from cosearch.core.seeds import derive
from cosearch.core.types import Passage, RankerOutput, Sampling


@dataclass(frozen=True, slots=True)
class CrossEncoderStage:
    """Ranks D_N by the scoring policy; its output is always well formed (f = 1)."""

    top_k: int
    codec: Codec
    sampling: Sampling
    templates: str
    max_document_chars: int
    max_pair_tokens: int

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Rank with the policy. A search without candidates stays as it is."""
        if not search.candidates:
            return search
        made = [
            self.pair(search.question.text, search.query, candidate.passage)
            for candidate in search.candidates
        ]
        pairs = tuple(tuple(ids) for ids, _ in made)
        cuts = tuple((place, kept) for place, (_, kept) in enumerate(made) if kept is not None)
        count = min(self.top_k, len(pairs))
        seed = derive(search.seed, "ranker", search.turn)
        generation = await Choose("ranker", pairs, count, self.sampling, seed)
        output = RankerOutput((), generation, show_picks(generation.ids), None, 0, pairs, cuts)
        return replace(search, ranking=generation.ids, output=output)

    def pair(self, question: str, query: str, passage: Passage) -> tuple[list[int], int | None]:
        """Ids of a candidate's pair with the query, and how many characters of its text they hold;
        None if they hold all. The end of the text is cut until they fit.

        Raises ValueError when they do not fit without any text.
        """
        text = passage.text[: self.max_document_chars]

        def render(chars: int) -> list[int]:
            fills: dict[str, Fill] = {
                "question": question,
                "query": query,
                "title": passage.title,
                "text": text[:chars],
            }
            return self.codec.chat(fill_template(self.templates, "pair", fills))

        whole = render(len(text))
        if len(whole) <= self.max_pair_tokens:
            return whole, len(text) if len(text) < len(passage.text) else None
        kept = bisect_right(range(len(text)), self.max_pair_tokens, key=lambda n: len(render(n)))
        if kept == 0:
            raise ValueError(
                f"ranker.max_pair_tokens={self.max_pair_tokens} leaves no room for a document"
                f" beside query {query!r}: raise it"
            )
        return render(kept - 1), kept - 1


def show_picks(positions: Sequence[int]) -> str:
    """Picks as a ranking is written: ``[3] > [1]``, numbers from 1."""
    return " > ".join(f"[{position + 1}]" for position in positions)
