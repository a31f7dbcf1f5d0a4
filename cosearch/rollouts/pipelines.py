"""The observation pipelines: which stages answer a search, rank what was found, and take notes.

The stages of every kind of ranker and of every method are made here from parameters and codecs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cosearch.core.observe import OracleStage, Pipeline, RankerStage, RetrieverStage
from cosearch.core.prompts import Prompting
from cosearch.core.protocols import Codec
from cosearch.core.relevance import RelevanceRule
from cosearch.core.score import CrossEncoderStage
from cosearch.core.types import Sampling
from cosearch.methods.bundle import METHODS
from cosearch.methods.search_o1 import NoteStage
from cosearch.methods.zerosearch import SimulatorStage, noise_share
from cosearch.params import blocks
from cosearch.params.method import Method

HEADS: Mapping[str, str] = {"cross_encoder": "scorer"}
"""Ranker kind -> kind of its policy, where that is no causal language model."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What stages are made of: parameter blocks, codecs by role, the ranker's temperature, and how
    far training is (round ``step`` of ``steps``), which decides the simulator's noise."""

    method: Method
    agent: blocks.Agent
    ranker: blocks.Ranker
    codecs: Mapping[str, Codec]
    temperature: float
    simulator: blocks.Simulator | None = None
    step: int = 0
    steps: int = 0


def pipeline(method: str, kind: str, tools: Tools) -> Pipeline:
    """The stages of a method under a ranker kind."""
    stages = PIPELINES[kind](tools)
    return (*stages, _notes(tools)) if METHODS[method].notes else stages


def sampling(temperature: float, max_tokens: int) -> Sampling:
    """Sampling from the whole distribution (top_p 1, top_k off), because training compares the
    log-probabilities of sampler and trainer."""
    return Sampling(temperature=temperature, top_p=1.0, top_k=0, max_tokens=max_tokens)


def prompting(block: blocks.Agent | blocks.Ranker | blocks.Judge) -> Prompting:
    """How the prompts of the model of ``block`` are written."""
    return Prompting(block.templates, block.document, block.max_document_chars)


def generative_ranker(tools: Tools) -> RankerStage:
    """The ranker that writes (Section 3.2)."""
    block = tools.ranker
    return RankerStage(
        top_k=tools.method.rollout.top_k,
        codec=tools.codecs["ranker"],
        sampling=sampling(tools.temperature, block.max_turn_tokens),
        prompting=prompting(block),
        max_prompt_tokens=block.max_prompt_tokens,
    )


def cross_encoder(tools: Tools) -> CrossEncoderStage:
    """The ranker that scores (Table 3)."""
    block = tools.ranker
    return CrossEncoderStage(
        top_k=tools.method.rollout.top_k,
        codec=tools.codecs["ranker"],
        sampling=sampling(tools.temperature, block.max_turn_tokens),
        templates=block.templates,
        max_document_chars=block.max_document_chars,
        max_pair_tokens=block.max_pair_tokens,
    )


ModelRanker = RankerStage | CrossEncoderStage
MODEL_RANKERS: Mapping[str, Callable[[Tools], ModelRanker]] = {
    "generative": generative_ranker,
    "cross_encoder": cross_encoder,
}
"""Ranker kinds that are policies, and what makes their stage."""


def roles_under(kind: str) -> tuple[str, ...]:
    """The roles that models play when a row with a ranker of ``kind`` is evaluated."""
    return ("agent", "ranker") if kind in MODEL_RANKERS else ("agent",)


def _retriever(tools: Tools) -> RetrieverStage:
    rollout = tools.method.rollout
    return RetrieverStage(top_n=rollout.top_n, top_k=rollout.top_k)


def _oracle(tools: Tools) -> OracleStage:
    relevance = RelevanceRule(**tools.method.relevance.model_dump())
    return OracleStage(top_k=tools.method.rollout.top_k, relevance=relevance)


def _simulator(tools: Tools) -> SimulatorStage:
    block = tools.simulator
    if block is None:
        raise ValueError("a simulator plays the search engine in training alone")
    return SimulatorStage(
        top_k=tools.method.rollout.top_k,
        codec=tools.codecs["simulator"],
        sampling=sampling(block.temperature, block.max_turn_tokens),
        templates=block.templates,
        max_prompt_tokens=block.max_prompt_tokens,
        noise=noise_share(
            tools.step, tools.steps, block.noise_start, block.noise_end, block.noise_base
        ),
    )


def _notes(tools: Tools) -> NoteStage:
    block = tools.agent.notes
    return NoteStage(
        codec=tools.codecs["agent"],
        sampling=sampling(tools.method.rollout.eval_temperature, block.max_turn_tokens),
        prompting=replace(prompting(tools.agent), max_document_chars=block.max_document_chars),
        max_prompt_tokens=block.max_prompt_tokens,
    )


PIPELINES: Mapping[str, Callable[[Tools], Pipeline]] = {
    "retriever_order": lambda tools: (_retriever(tools),),
    "generative": lambda tools: (_retriever(tools), generative_ranker(tools)),
    "cross_encoder": lambda tools: (_retriever(tools), cross_encoder(tools)),
    "oracle": lambda tools: (_retriever(tools), _oracle(tools)),
    "simulated": lambda tools: (_simulator(tools),),
}
"""Ranker kind -> what makes its stages."""
