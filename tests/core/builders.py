"""Small real records for tests, and a table to play them on."""

from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cosearch.core.advantages import AdvantageRules
from cosearch.core.credit import CreditRules
from cosearch.core.formats import GRAMMARS
from cosearch.core.grouping import GroupRules
from cosearch.core.lockstep import run_lockstep
from cosearch.core.observe import OracleStage, RankerStage, RetrieverStage
from cosearch.core.prompts import Prompting
from cosearch.core.protocols import Segment
from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import RewardRules
from cosearch.core.rollout import AgentRules, Dialogue
from cosearch.core.types import (
    Candidate,
    Generation,
    Passage,
    Question,
    RankerOutput,
    Sampling,
    SearchCall,
    Terminal,
    Trajectory,
)
from cosearch.engines.scripted import (
    CONTROLS,
    ScriptedCodec,
    ScriptedPolicy,
    ScriptedReply,
    ScriptedRetriever,
)

ROOT = Path(__file__).resolve().parents[2]
CODEC = ScriptedCodec()
ASSISTANT = CONTROLS.index("<|assistant|>")
SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_tokens=500)
TOKENS = RelevanceRule(match="tokens", strip_marks=False, min_gold_chars=0)
REACT = GRAMMARS["react"]
DIALOGUE = Dialogue(REACT, "agent", "observation", None, None)
PROMPTING = Prompting("tiny", "{title} [{number}] {text}\n", max_document_chars=100)
CITIES = [
    Passage(str(number), f"Town {number}", f"{city} lies here")
    for number, city in enumerate(("Rome", "Paris", "Oslo", "Bern", "Wien", "Graz"))
]


@cache
def preset(name: str) -> CreditRules:
    """The rules of a preset of params.yaml."""
    block = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))["presets"][name]
    reward = block["reward"] | {"hit_cutoffs": tuple(block["reward"]["hit_cutoffs"])}
    return CreditRules(
        reward=RewardRules(**reward),
        relevance=RelevanceRule(**block["relevance"]),
        group=GroupRules(**block["group"]),
        advantage=AdvantageRules(**block["advantage"]),
        **block["credit"],
    )


def question(*golds: str, text: str = "capital of Norway", name: str = "q1") -> Question:
    return Question(name, "nq", text, golds or ("Oslo",))


def candidates(*texts: str) -> tuple[Candidate, ...]:
    """D_N of passages with these texts and no title."""
    return tuple(
        Candidate(Passage(str(number), "", text), 1.0 - number / 100)
        for number, text in enumerate(texts)
    )


def generation(text: str, *, stopped: bool = True) -> Generation:
    """A completion as the scripted policy would give it."""
    ids = CODEC.encode([_trusted(text + ("<|end|>" if stopped else ""))])
    return Generation(tuple(ids), (-0.5,) * len(ids), stopped, SAMPLING, 0)


def output(text: str = "ranking", *, fault: str | None = None) -> RankerOutput:
    return RankerOutput((1, 2, 3), generation(text), text, fault, 0)


def call(
    query: str = "capital",
    *,
    texts: Sequence[str] = ("Oslo", "x", "y"),
    ranking: Sequence[int] = (0, 1, 2),
    turn: int = 0,
    fault: str | None = None,
    ranked: bool = True,
) -> SearchCall:
    """A ranker call over ``texts``; ``ranked`` off is a call that no ranker policy took part in."""
    result = output(fault=fault) if ranked else None
    return SearchCall(turn, query, candidates(*texts), tuple(ranking), result)


def trajectory(
    *calls: SearchCall,
    answer: str | None = "Oslo",
    sample: int = 0,
    asked: Question | None = None,
) -> Trajectory:
    """A finished trajectory of three tokens, the second one sampled; no answer: malformed."""
    return Trajectory(
        question=asked or question(),
        sample=sample,
        ids=(7, 8, 9),
        loss_mask=(0, 1, 0),
        logprobs=(0.0, -0.5, 0.0),
        spans=(),
        turns=("turn",),
        calls=calls,
        answer=answer,
        terminal=Terminal.MALFORMED if answer is None else Terminal.ANSWERED,
        fault="blocks" if answer is None else None,
        sampling=SAMPLING,
        weights=0,
        notices=0,
    )


def agent_rules(**changes: Any) -> AgentRules:
    settings: dict[str, Any] = {
        "codec": CODEC,
        "sampling": SAMPLING,
        "prompting": PROMPTING,
        "dialogue": DIALOGUE,
        "max_searches": 3,
        "max_prompt_tokens": 100,
        "max_response_tokens": 5000,
        "max_observation_tokens": 400,
        "lenient_answer": False,
    }
    return AgentRules(**settings | changes)


def ranker_stage(**changes: Any) -> RankerStage:
    settings: dict[str, Any] = {
        "top_k": 3,
        "codec": CODEC,
        "sampling": SAMPLING,
        "prompting": PROMPTING,
        "max_prompt_tokens": 2000,
    }
    return RankerStage(**settings | changes)


RETRIEVE = RetrieverStage(top_n=5, top_k=3)
ORACLE = OracleStage(top_k=3, relevance=TOKENS)


def search_turn(query: str, reason: str = "look") -> str:
    call = f'{{"name": "search", "arguments": {{"query": "{query}"}}}}'
    return f"<reason>{reason}</reason><tool_call>{call}</tool_call><|end|>"


def answer_turn(answer: str, reason: str = "known") -> str:
    return f"<reason>{reason}</reason><answer>{answer}</answer><|end|>"


def ranking_turn(ranking: str, reason: str = "compare") -> str:
    return f"<reason>{reason}</reason><rerank>{ranking}</rerank><|end|>"


def in_turn(*turns: str) -> ScriptedReply:
    """A script that says its turns one after another, whatever it is shown."""
    return lambda _, request: turns[request.prompt_ids.count(ASSISTANT) - 1]


class Table:
    """Scripted engines around one game, with what they were asked."""

    def __init__(
        self,
        agent: ScriptedReply,
        ranker: ScriptedReply | None = None,
        auxiliary: ScriptedReply | None = None,
    ) -> None:
        self.agent = ScriptedPolicy(agent, weights=4)
        self.ranker = ScriptedPolicy(ranker or (lambda *_: ranking_turn("[1] > [2] > [3]")))
        self.auxiliary = ScriptedPolicy(auxiliary or (lambda *_: "<|end|>"))
        self.retriever = ScriptedRetriever(CITIES)

    def play(self, *coroutines: Coroutine[Any, Any, Trajectory]) -> list[Trajectory]:
        engines: dict[str, Callable[..., Any]] = {
            "agent": self.agent,
            "ranker": self.ranker,
            "refiner": self.auxiliary,
            "simulator": self.auxiliary,
            "retriever": self.retriever,
        }
        return run_lockstep(coroutines, engines)


def _trusted(text: str) -> Segment:
    return Segment(text, trusted=True)
