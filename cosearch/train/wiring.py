"""From parameters to the parts of a run: rules of the core, policies, and their engines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch import presets, schema
from cosearch.artifacts import Paths, hash_folder, hash_value
from cosearch.config import Settings
from cosearch.core.advantages import AdvantageRules
from cosearch.core.credit import CreditRules
from cosearch.core.grouping import GroupRules
from cosearch.core.observe import OracleStage, RankerStage, RetrieverStage, Stage
from cosearch.core.protocols import Codec, Engine
from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import RewardRules
from cosearch.core.rollout import AgentRules, roll_out
from cosearch.core.types import Question, Sampling
from cosearch.engines import build
from cosearch.methods.oneshot import direct, rag
from cosearch.train.collect import Play
from cosearch.train.policy import Policy

METHODS: Mapping[str, Any] = {"react": roll_out, "direct": direct, "rag": rag}
"""How a system answers; each plays one trajectory and leaves the same record."""


@dataclass(frozen=True)
class Parts:
    """The parameter blocks of one run, with its overrides applied."""

    method: presets.Method
    agent: schema.Agent
    ranker: schema.Ranker
    train: schema.Train
    models: schema.Models

    @classmethod
    def of(cls, settings: Settings, overrides: Mapping[str, Any]) -> "Parts":
        """Ask ``settings`` for every block."""
        return cls(
            settings.method(overrides),
            settings.section(schema.Agent, overrides),
            settings.section(schema.Ranker, overrides),
            settings.section(schema.Train, overrides),
            settings.section(schema.Models, overrides),
        )

    def model(self, name: str) -> str:
        """Folder of the model called ``name``. Raises ValueError where the profile has none."""
        folder: str | None = getattr(self.models, name)
        if folder is None:
            raise ValueError(f"models.{name} is null: this profile has no model for this row")
        return folder

    def credit(self) -> CreditRules:
        """Rules between a rollout and the trainer."""
        method = self.method
        return CreditRules(
            reward=RewardRules(**method.reward.model_dump()),
            relevance=RelevanceRule(**method.relevance.model_dump()),
            group=GroupRules(**method.group.model_dump()),
            advantage=AdvantageRules(**method.advantage.model_dump()),
            **method.credit.model_dump(),
        )

    def agent_rules(self, codec: Codec, temperature: float) -> AgentRules:
        """Prompting and bounds of the agent."""
        return AgentRules(
            codec=codec,
            sampling=_sampling(temperature, self.agent.max_turn_tokens),
            templates=self.agent.templates,
            document=self.agent.document,
            max_document_chars=self.agent.max_document_chars,
            max_searches=self.method.rollout.max_searches,
            max_prompt_tokens=self.agent.max_prompt_tokens,
            max_response_tokens=self.agent.max_response_tokens,
            max_observation_tokens=self.agent.max_observation_tokens,
        )

    def ranker_stage(self, codec: Codec, temperature: float) -> RankerStage:
        """Prompting and bounds of the generative ranker."""
        return RankerStage(
            top_k=self.method.rollout.top_k,
            codec=codec,
            sampling=_sampling(temperature, self.ranker.max_turn_tokens),
            templates=self.ranker.templates,
            document=self.ranker.document,
            max_document_chars=self.ranker.max_document_chars,
            max_prompt_tokens=self.ranker.max_prompt_tokens,
        )

    def stages(self, kind: str, codec: Codec | None, temperature: float) -> tuple[Stage, ...]:
        """The observation pipeline of a ranker kind; ``codec`` is the generative ranker's."""
        rollout = self.method.rollout
        first = RetrieverStage(top_n=rollout.top_n, top_k=rollout.top_k)
        if codec is not None:
            return first, self.ranker_stage(codec, temperature)
        relevance = RelevanceRule(**self.method.relevance.model_dump())
        modelless: dict[str, tuple[Stage, ...]] = {
            "retriever_order": (),
            "oracle": (OracleStage(top_k=rollout.top_k, relevance=relevance),),
        }
        return (first, *modelless[kind])


def open_policy(folder: str, block: schema.Agent | schema.Ranker, temperature: float) -> Policy:
    """A frozen policy: codec and sampler."""
    codec = build.build_codec(folder)
    sampler = build.build_sampler(folder, codec, batch_tokens=block.batch_tokens, dtype=block.dtype)
    return Policy(codec, sampler, None, temperature)


def open_learner(
    folder: str,
    block: schema.Agent | schema.Ranker,
    parts: Parts,
    *,
    temperature: float,
    lr: float,
    max_tokens: int,
    scratch: Path,
) -> Policy:
    """A policy that learns: codec, sampler and trainer over the same weights."""
    frozen = open_policy(folder, block, temperature)
    trainer = build.build_trainer(
        folder,
        frozen.codec,
        lr=lr,
        train=parts.train,
        loss=parts.method.loss,
        max_tokens=max_tokens,
        scratch=scratch,
    )
    return Policy(frozen.codec, frozen.sampler, trainer, temperature)


def engines_of(
    retriever: Engine, policies: Mapping[str, Policy], sign: Callable[[str], None]
) -> dict[str, Engine]:
    """Engines by the names that requests use; each batch answered is a ``sign`` of life."""
    engines: dict[str, Engine] = {"retriever": retriever}
    engines |= {role: policy.sampler for role, policy in policies.items()}
    return {name: _heard(name, engine, sign) for name, engine in engines.items()}


def _heard(name: str, engine: Engine, sign: Callable[[str], None]) -> Engine:
    def answer(requests: Sequence[Any]) -> Sequence[Any]:
        answers = engine(requests)
        sign(f"{name} answered {len(requests)}")
        return answers

    return answer


def player(method: str, rules: AgentRules, stages: Sequence[Stage], seed: int) -> Play:
    """A starter of trajectories under fixed rules and seed."""
    play: Callable[..., Any] = METHODS[method]

    def start(question: Question, sample: int) -> Any:
        return play(question, sample, rules, stages, seed)

    return start


def identity(parts: Parts, paths: Paths, folders: Sequence[str], **more: Any) -> dict[str, Any]:
    """What a run's state depends on: resolved parameters and the hashes of its inputs."""
    return {
        "parameters": {
            name: getattr(parts, name).model_dump(mode="json")
            for name in ("method", "agent", "ranker", "train")
        },
        "data": hash_folder(paths.data),
        "index": hash_folder(paths.index),
        "models": {folder: hash_folder(Path(folder)) for folder in folders},
        **more,
    }


def fingerprint(identity: Mapping[str, Any]) -> str:
    """A short name for an identity."""
    return hash_value(identity)[:16]


def _sampling(temperature: float, max_tokens: int) -> Sampling:
    """The whole distribution: training compares log-probabilities of sampler and trainer."""
    return Sampling(temperature=temperature, top_p=1.0, top_k=0, max_tokens=max_tokens)
