"""ZeroSearch (arXiv 2505.04588): the agent learns with a model that plays the search engine.

The simulator reads the query, the question and the gold answer, and writes the documents itself,
useful ones or noise; the share of noise grows over the run. It answers searches in training only:
the agent is evaluated with the real retriever.
"""

import hashlib
import math
import random
import re
from dataclasses import dataclass, replace
from typing import ClassVar

from cosearch.core.observe import PendingSearch
from cosearch.core.prompts import Fill, fill_template
from cosearch.core.protocols import Codec, Generate
from cosearch.core.seeds import derive
from cosearch.core.transcript import sampled_body
from cosearch.core.types import Candidate, Passage, Sampling

_MARK = re.compile(r"\[([1-9][0-9]{0,2})\]", re.ASCII)


def noise_share(step: int, total: int, start: float, end: float, base: float) -> float:
    """p(s), the chance that a search of step ``s`` is answered with noise: from ``start`` at step 0
    to ``end`` at step ``total`` and after, along an exponential of ``base`` (not 1)."""
    if step >= total:
        return end
    return start + (math.pow(base, step / total) - 1) / (base - 1) * (end - start)


@dataclass(frozen=True, slots=True)
class SimulatorStage:
    """Brings D_N from engine role ``simulator``, in place of a retriever; ``noise`` is p(s) of this
    step. Only the simulator's prompt holds the gold answer; the agent does not see it.
    """

    needs_gold: ClassVar[bool] = True

    top_k: int
    codec: Codec
    sampling: Sampling
    templates: str
    max_prompt_tokens: int
    noise: float

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        """Add D_N, ranked in the order in which it was written."""
        seed = derive(search.seed, "simulator", search.turn)
        prompt = tuple(self.prompt(search))
        generation = await Generate("simulator", prompt, self.sampling, seed)
        text = self.codec.decode(sampled_body(generation, self.codec))
        candidates = tuple(
            Candidate(passage, 0.0 - place)
            for place, passage in enumerate(parse_documents(text, at_most=self.top_k))
        )
        return replace(search, candidates=candidates, ranking=tuple(range(len(candidates))))

    def prompt(self, search: PendingSearch) -> list[int]:
        """Prompt ids. Raises ValueError when they exceed the budget, as prompts are never cut."""
        fills: dict[str, Fill] = {
            "question": search.question.text,
            "query": search.query,
            "gold": search.question.golds[0],
            "k": self.top_k,
        }
        ids = self.codec.chat(fill_template(self.templates, self._template(search), fills))
        if len(ids) > self.max_prompt_tokens:
            raise ValueError(
                f"query {search.query!r} needs a prompt of {len(ids)} tokens, max_prompt_tokens of"
                f" the simulator is {self.max_prompt_tokens}"
            )
        return ids

    def _template(self, search: PendingSearch) -> str:
        draw = random.Random(derive(search.seed, "noise", search.turn)).random()
        return "simulate_noisy" if draw <= self.noise else "simulate_useful"


def parse_documents(text: str, *, at_most: int) -> list[Passage]:
    """The passages of ``[1] Title: text [2] …``, at most ``at_most``, without duplicates. Text
    without ``[1]`` is one passage; blank text has none.

    A number out of order belongs to the text of the passage in which it stands.
    """
    cuts: list[tuple[int, int]] = []
    for mark in _MARK.finditer(text):
        if len(cuts) <= at_most and int(mark[1]) == len(cuts) + 1:
            cuts.append(mark.span())
    if not cuts:
        return [_passage("", text.strip())] if text.strip() else []
    ends = [start for start, _ in cuts[1:]] + [len(text)]
    pieces = [text[cut[1] : end].strip() for cut, end in zip(cuts, ends, strict=True)]
    passages = [_passage(*_parted(piece)) for piece in pieces[:at_most] if piece]
    return list({passage.id: passage for passage in passages}.values())


def _parted(piece: str) -> tuple[str, str]:
    """Title and text; a piece that is not ``Title: text`` has no title."""
    title, _, body = piece.partition(":")
    return (title.strip(), body.strip()) if body.strip() else ("", piece)


def _passage(title: str, text: str) -> Passage:
    """A passage whose id is a hash of title and text, so that equal texts are one passage."""
    name = hashlib.sha256(ascii((title, text)).encode()).hexdigest()[:16]
    return Passage(f"simulated/{name}", title, text)
