"""The likelihood judge: how likely a frozen agent finds the gold answer, given what it was shown.

Stands in for the LLM-as-judge of Table 3 where no large model is at hand: documents that hold the
answer make it likelier. The score of a case is the geometric mean of the token probabilities of
its likeliest gold, put as the agent's answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import torch

from cosearch.core.credit import completion_sample
from cosearch.core.prompts import (
    Fill,
    document_segments,
    fill_template,
    fill_text,
    fit_documents,
    load_template,
)
from cosearch.core.protocols import Codec, JudgeCase, Segment
from cosearch.core.types import Sample
from cosearch.engines.generator_hf import disable_progress_bar
from cosearch.engines.heads import CausalHead, micro_batches

disable_progress_bar()


@dataclass(frozen=True, slots=True)
class JudgePrompt:
    """How a case is put to the judge; lengths as for the agent's observations."""

    templates: str
    document: str
    max_document_chars: int
    max_prompt_tokens: int


class LikelihoodJudge:
    """Implements ``core.protocols.Judge`` over a causal language model that is never trained.

    The last block of template ``judge`` is the agent's answer turn around ``{gold}``; scored are
    its tokens from the gold on, the closing of the answer included.
    """

    def __init__(
        self,
        folder: str | Path,
        codec: Codec,
        *,
        vocabulary: int,
        prompt: JudgePrompt,
        batch_tokens: int,
        dtype: str,
    ) -> None:
        self._head = CausalHead(vocabulary)
        self._model = self._head.load(folder, dtype)
        self._codec = codec
        self._prompt = prompt
        self._batch_tokens = batch_tokens

    def __call__(self, cases: Sequence[JudgeCase]) -> list[float]:
        """Scores in [0, 1]; equal cases are scored once, and a case without golds earns 0."""
        unique = list(dict.fromkeys(cases))
        rows = [(case, sample) for case in unique for sample in self.samples(case)]
        scores: dict[JudgeCase, float] = dict.fromkeys(unique, 0.0)
        likelihoods = self._likelihoods([sample for _, sample in rows])
        for (case, _), likelihood in zip(rows, likelihoods, strict=True):
            scores[case] = max(scores[case], likelihood)
        return [scores[case] for case in cases]

    def samples(self, case: JudgeCase) -> list[Sample]:
        """A row per gold: the conversation up to the answer, and the answer's tokens."""
        prompt_ids = self._render(case)
        rows = []
        for gold in dict.fromkeys(filter(None, map(str.strip, case.golds))):
            given, answer = self._answer(gold)
            zeros = [0.0] * len(answer)
            rows.append(completion_sample([*prompt_ids, *given], answer, zeros, 0.0))
        return rows

    def _answer(self, gold: str) -> tuple[list[int], list[int]]:
        """Ids of the answer turn before the gold and from it on, cut from one joint encoding."""
        *_, (_, text) = load_template(self._prompt.templates, "judge")
        whole = self._codec.encode(fill_text(text, {"gold": gold}))
        opening = self._codec.encode(fill_text(text.partition("{gold}")[0], {}))
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(opening, whole)))  # noqa: B905
        return whole[:shared], whole[shared:]

    def _render(self, case: JudgeCase) -> list[int]:
        """Ids of question, query and documents; documents over the budget go from the tail."""
        prompt = self._prompt
        documents = document_segments(
            prompt.document, case.passages, max_chars=prompt.max_document_chars
        )

        def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
            fills: dict[str, Fill] = {
                "question": case.question,
                "query": case.query,
                "documents": [segment for document in kept for segment in document],
                "gold": "",
            }
            *messages, _ = fill_template(prompt.templates, "judge", fills)
            return self._codec.chat(messages)

        ids, _ = fit_documents(render, documents, max_tokens=prompt.max_prompt_tokens)
        if not ids:
            raise ValueError(
                f"judge.max_prompt_tokens={prompt.max_prompt_tokens} has no room for the question"
                f" and query {case.query!r}: raise it"
            )
        return ids

    @torch.inference_mode()
    def _likelihoods(self, samples: Sequence[Sample]) -> list[float]:
        """exp of the mean log-probability of each row's answer."""
        found: dict[int, float] = {}
        for batch in micro_batches(samples, self._head, self._batch_tokens):
            logprobs, _ = self._head(self._model, batch, 1.0)
            counts = [sum(sample.loss_mask) for sample in batch.samples]
            for index, own in zip(batch.indices, logprobs.split(counts), strict=True):
                found[index] = float(own.mean().exp().clamp(max=1.0))
        return [found[index] for index in range(len(samples))]
