"""Makes the parts of a run from the parameters: rules of the core, policies and engines."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cosearch.core.advantages import AdvantageRules
from cosearch.core.credit import CreditRules
from cosearch.core.grouping import GroupRules
from cosearch.core.observe import Pipeline
from cosearch.core.protocols import Codec, Engine, RankingJudge
from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import RewardRules
from cosearch.core.rollout import AgentRules
from cosearch.core.types import Question
from cosearch.engines.judges.build import build_endpoint_judge, build_likelihood_judge
from cosearch.engines.policies.build import (
    ModelBlock,
    TrainerRules,
    build_codec,
    build_sampler,
    build_trainer,
    check_plain_loading,
)
from cosearch.files.hashes import hash_files, hash_folders
from cosearch.methods.bundle import METHODS
from cosearch.params import blocks
from cosearch.params.method import Method
from cosearch.params.settings import Settings
from cosearch.rollouts.collect import Play
from cosearch.rollouts.deadline import Supervision, check_answers, guarded
from cosearch.rollouts.pipelines import Tools, pipeline, prompting, sampling
from cosearch.rollouts.policy import Policy, hand_over
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.shards import EngineMemory
from cosearch.run.stage import Stage


@dataclass(frozen=True)
class Parts:
    """The parameter blocks of one run, with its overrides applied."""

    method: Method
    agent: blocks.Agent
    ranker: blocks.Ranker
    models: blocks.Models

    @classmethod
    def of(cls, settings: Settings, overrides: Mapping[str, Any]) -> "Parts":
        """The blocks of ``settings`` under ``overrides``."""
        return cls(
            settings.method(overrides),
            settings.section(blocks.Agent, overrides),
            settings.section(blocks.Ranker, overrides),
            settings.section(blocks.Models, overrides),
        )

    def model(self, name: str) -> str:
        """Folder of the model called ``name``. Raises ValueError if the profile has none."""
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

    def agent_rules(self, method: str, codec: Codec, temperature: float) -> AgentRules:
        """Prompting and limits of the agent under a method."""
        return AgentRules(
            codec=codec,
            sampling=sampling(temperature, self.agent.max_turn_tokens),
            prompting=prompting(self.agent),
            dialogue=METHODS[method].dialogue,
            max_searches=self.method.rollout.max_searches,
            max_prompt_tokens=self.agent.max_prompt_tokens,
            max_response_tokens=self.agent.max_response_tokens,
            max_observation_tokens=self.agent.max_observation_tokens,
            lenient_answer=self.agent.lenient_answer,
        )

    def tools(self, policies: Mapping[str, Policy], temperature: float, **more: Any) -> Tools:
        """What the stages of a pipeline are made of; ``temperature`` is the ranker's."""
        codecs = {role: policy.codec for role, policy in policies.items()}
        return Tools(self.method, self.agent, self.ranker, codecs, temperature, **more)


@dataclass(frozen=True)
class Learning:
    """How one role learns: its block, the temperature it is sampled at, and the rules of its own
    trainer. ``lr`` is the learning rate; ``max_tokens`` is the constant of the loss aggregation
    ``constant_length``."""

    block: ModelBlock
    temperature: float
    lr: float
    max_tokens: int
    train: blocks.Train


def open_policy(folder: str, block: ModelBlock, temperature: float, head: str = "causal") -> Policy:
    """A frozen policy: codec and sampler."""
    codec = build_codec(folder, block.chat_options)
    return Policy(codec, build_sampler(folder, codec, block, head), None, temperature)


def open_learner(
    folder: str, role: Learning, parts: Parts, scratch: Path, head: str = "causal"
) -> Policy:
    """A policy that learns: codec, sampler and trainer over the same weights. They are handed over
    once, which shows before any work that those of a round will arrive. Raises ValueError for a
    folder that plain transformers, which will open the trained model, reads otherwise."""
    frozen = open_policy(folder, role.block, role.temperature, head)
    check_plain_loading(frozen.codec)
    rules = TrainerRules(role.train, parts.method.loss, role.lr, role.max_tokens)
    frozen.sampler.sleep(discard=True)
    trainer = build_trainer(folder, frozen.codec, rules, scratch, head)
    policy = Policy(frozen.codec, frozen.sampler, trainer, role.temperature)
    hand_over({"": policy})
    return policy


def open_judge(block: blocks.Judge, folder: str, answers: Path) -> RankingJudge:
    """The judge of the parameters; ``answers`` is the file that keeps what an endpoint said."""
    if block.kind == "likelihood":
        return build_likelihood_judge(folder, block)
    return build_endpoint_judge(block, answers)


def supervision(stage: Stage) -> Supervision:
    """How the engines of a stage are supervised: by the limits of ``runtime.engine``."""
    return Supervision(stage.settings.file.runtime.engine, stage.sign)


def engines_of(
    retriever: Engine, policies: Mapping[str, Policy], supervision: Supervision
) -> dict[str, Engine]:
    """Supervised engines by the names that requests use.

    The agent's own model writes the notes, under the name ``refiner``.
    """
    samplers = {role: (policy.sampler, vocabulary(policy)) for role, policy in policies.items()}
    if "agent" in policies:
        samplers["refiner"] = samplers["agent"]
    limits = supervision.limits
    engines = {"retriever": guarded("retriever", retriever, limits, check_answers)}
    for name, (sampler, tokens) in samplers.items():
        check = partial(check_answers, vocabulary=tokens)
        engines[name] = guarded(name, sampler, limits, check)
    return {name: _heard(name, engine, supervision.sign) for name, engine in engines.items()}


def vocabulary(policy: Policy) -> int | None:
    """How many token ids a policy's tokenizer has; None for a codec without a tokenizer."""
    tokenizer = getattr(policy.codec, "tokenizer", None)
    return None if tokenizer is None else len(tokenizer)


def _heard(name: str, engine: Engine, sign: Callable[[str], None]) -> Engine:
    def answer(requests: Sequence[Any]) -> Sequence[Any]:
        answers = engine(requests)
        sign(f"{name} answered {len(requests)}")
        return answers

    return answer


def player(method: str, rules: AgentRules, stages: Pipeline, seed: int) -> Play:
    """What starts a trajectory of ``method`` under fixed rules, stages and seed."""
    play = METHODS[method].play

    def start(question: Question, sample: int) -> Any:
        return play(question, sample, rules, stages, seed)

    return start


def greedy_player(
    parts: Parts,
    method: str,
    kind: str,
    policies: Mapping[str, Policy],
    seed: int,
    around: Callable[[Pipeline], Pipeline] = tuple,
) -> Play:
    """What starts a trajectory of ``method`` under a ranker of ``kind``, as evaluation does it.
    ``around`` makes the pipeline that is played of the pipeline of ``kind``."""
    greedy = parts.method.rollout.eval_temperature
    stages = around(pipeline(method, kind, parts.tools(policies, greedy)))
    rules = parts.agent_rules(method, policies["agent"].codec, greedy)
    return player(method, rules, stages, seed)


def hashes_beside(stage: Stage, folders: Iterable[str]) -> dict[str, str]:
    """Hashes of those model folders that the stage's identity does not hold, because another stage
    trained them. A stage has held the others against the identity before it began."""
    return hash_folders(set(folders) - stage.identity.models.keys())


@contextmanager
def open_run(
    stage: Stage,
    models: Mapping[str, str],
    memory: EngineMemory | None = None,
    every: int = 1,
) -> Iterator[RunStore]:
    """The stage's run under its identity and the hashes of its inputs, begun or gone on with; says
    how it differs from an older one. ``models``: the hashes, by path, of what the stage starts from
    beside the models of its identity."""
    told = {
        "settings": stage.identity.settings,
        "models": stage.identity.models,
        "inputs": {**_file_hashes(stage.paths.data), **_file_hashes(stage.paths.index), **models},
    }
    name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    folder = stage.paths.run(stage.title, name)
    with RunStore(folder, told, stage.identity.code, memory, every) as store:
        if store.notice:
            stage.progress.say(f"{stage.title}: {store.notice}")
        yield store


def _file_hashes(folder: Path) -> dict[str, str]:
    """Hash of every file below ``folder`` by its path, so that the one that changed is named."""
    return {(folder / name).as_posix(): sum for name, sum in hash_files(folder).items()}
