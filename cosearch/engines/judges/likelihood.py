"""The likelihood judge: how likely a frozen agent gives the gold answer, after what it was shown.

It stands in for the LLM-as-judge of Table 3 where no large model is at hand. The agent reads
question, query and documents and thinks greedily; then the golds are put as its answer. The score
of a case is the geometric mean of the token probabilities of its likeliest gold.
"""

from collections.abc import Sequence
from itertools import takewhile

import torch

from cosearch.core.credit import completion_sample
from cosearch.core.prompts import (
    Fill,
    Prompting,
    fill_text,
    fit_documents,
    load_template,
)
from cosearch.core.protocols import Codec, Generate, JudgeCase, Judgement, Segment
from cosearch.core.types import Sample, Sampling
from cosearch.engines.policies.generator_hf import HfGenerator
from cosearch.engines.policies.heads import BatchBounds, CausalHead, micro_batches
from cosearch.params.blocks import Judge


class LikelihoodJudge:
    """Implements ``core.protocols.RankingJudge`` over a sampler whose weights stay as they are.

    The last block of template ``judge`` is the agent's turn around ``{reason}`` and ``{gold}``;
    its tokens from the gold on are scored, with those that close the answer.

    Scores are rounded to ``block.score_digits`` digits. Two lists that both miss the answer differ
    by noise only, and normalisation inside a group would turn that noise into a signal.
    """

    def __init__(self, agent: HfGenerator, codec: Codec, block: Judge, *, vocabulary: int) -> None:
        self._agent = agent
        self._head = CausalHead(vocabulary)
        self._codec = codec
        self._block = block
        self._prompting = Prompting(block.templates, block.document, block.max_document_chars)

    def __call__(self, cases: Sequence[JudgeCase]) -> list[Judgement]:
        """Equal cases are scored once, and one with blank golds alone earns 0."""
        unique = list(dict.fromkeys(cases))
        rendered = {case: self._render(case) for case in unique}
        prompts = [ids for ids, _ in rendered.values()]
        rows = [
            (case, sample)
            for case, prompt, thought in zip(unique, prompts, self._think(prompts), strict=True)
            for sample in self._samples(case, prompt, thought)
        ]
        scores: dict[JudgeCase, float] = dict.fromkeys(unique, 0.0)
        likelihoods = self._likelihoods([sample for _, sample in rows])
        for (case, _), likelihood in zip(rows, likelihoods, strict=True):
            scores[case] = max(scores[case], likelihood)
        return [self._judgement(case, scores[case], rendered[case][1]) for case in cases]

    def _judgement(self, case: JudgeCase, score: float, dropped: int) -> Judgement:
        cuts = self._prompting.cuts(case.passages, dropped)
        return Judgement(round(score, self._block.score_digits), dropped, len(cuts))

    def _think(self, prompts: Sequence[Sequence[int]]) -> list[str]:
        """What the agent writes first, greedily, inside its reason; nothing if it opens none."""
        sampling = Sampling(0.0, 1.0, 0, self._block.max_turn_tokens)
        found = self._agent([Generate("judge", tuple(ids), sampling, 0) for ids in prompts])
        texts = [self._codec.decode(generation.ids) for generation in found]
        return [text.partition("<reason>")[2].partition("</reason>")[0].strip() for text in texts]

    def _samples(self, case: JudgeCase, prompt_ids: Sequence[int], thought: str) -> list[Sample]:
        """A row per gold: the conversation up to the answer, and the answer's tokens."""
        rows = []
        for gold in dict.fromkeys(filter(None, map(str.strip, case.golds))):
            given, answer = self._answer(thought, gold)
            zeros = [0.0] * len(answer)
            rows.append(completion_sample([*prompt_ids, *given], answer, zeros, 0.0))
        return rows

    def _answer(self, thought: str, gold: str) -> tuple[list[int], list[int]]:
        """Ids of the agent's turn before the gold and from it on, cut from one joint encoding."""
        *_, (_, text) = load_template(self._block.templates, "judge")
        fills = {"reason": thought, "gold": gold}
        whole = self._codec.encode(fill_text(text, fills))
        opening = self._codec.encode(fill_text(text.partition("{gold}")[0], fills))
        pairs = zip(opening, whole, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return whole[:shared], whole[shared:]

    def _render(self, case: JudgeCase) -> tuple[list[int], int]:
        """Ids of question, query and documents, and how many documents over the budget went from
        the tail."""
        block = self._block
        documents = self._prompting.documents(case.passages)

        def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
            fills: dict[str, Fill] = {
                "question": case.question,
                "query": case.query,
                "documents": [segment for document in kept for segment in document],
                "reason": "",
                "gold": "",
            }
            *messages, _ = self._prompting.fill("judge", fills)
            return self._codec.chat(messages)

        ids, dropped = fit_documents(render, documents, max_tokens=block.max_prompt_tokens)
        if not ids:
            raise ValueError(
                f"judge.max_prompt_tokens={block.max_prompt_tokens} has no room for the question"
                f" and query {case.query!r}: raise it"
            )
        return ids, dropped

    @torch.inference_mode()
    def _likelihoods(self, samples: Sequence[Sample]) -> list[float]:
        """exp of the mean log-probability of each row's answer."""
        found: dict[int, float] = {}
        bounds = BatchBounds(self._block.batch_tokens, self._block.batch_tokens)
        for batch in micro_batches(samples, self._head, bounds):
            with self._agent.device:  # where the head makes its tensors
                logprobs, _ = self._head(self._agent.model, batch, 1.0)
            counts = [sum(sample.loss_mask) for sample in batch.samples]
            for index, own in zip(batch.indices, logprobs.split(counts), strict=True):
                found[index] = float(own.mean().exp().clamp(max=1.0))
        return [found[index] for index in range(len(samples))]
