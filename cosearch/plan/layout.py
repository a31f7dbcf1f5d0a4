"""How the models of a profile share the GPUs, according to the parameters of its engines.

A policy on vLLM takes a fixed share of the memory of each of its GPUs, for weights and cache
together. The states of DeepSpeed need memory beside these shares while the policies sample. Joint
training keeps the samplers of both policies on the GPUs at the same time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cosearch.params import blocks
from cosearch.params.engines import DeepSpeed, IndexGpus, Vllm
from cosearch.params.plan import Architecture, Gpu, Memory
from cosearch.params.settings import Settings

GIB = 2.0**30
OFFLOADS = ((False, False), (True, False), (True, True))
"""Whether the optimiser and the parameters lie in host memory. The plan tries these in order."""


def cache_bytes(shape: Architecture, width: int) -> int:
    """Bytes of keys and values per token. ``width`` is the bytes of one number."""
    return 2 * shape.layers * shape.kv_heads * shape.head_size * width


def cache_gib(rules: Vllm, shape: Architecture, memory: Memory, tokens: float) -> float:
    """GiB per GPU for keys and values of ``tokens``. Tensor parallelism splits them over its
    GPUs."""
    return tokens * cache_bytes(shape, memory.weight_bytes) / rules.tensor_parallel / GIB


def share_parts(rules: Vllm, shape: Architecture, gpu: Gpu, memory: Memory) -> dict[str, float]:
    """GiB per GPU of a sampler's share, by use.

    The cache gets what the other parts leave. It is negative if they need more than the share.
    """
    weights = shape.parameters * memory.weight_bytes / rules.tensor_parallel / GIB
    cache = rules.memory_share * gpu.memory - weights - memory.sampler_overhead
    return {"weights": weights, "working memory": memory.sampler_overhead, "cache": cache}


@dataclass(frozen=True, slots=True)
class SamplerLayout:
    """How a model generates text: on vLLM by ``rules``, or in the stage's own process.

    Without ``rules`` the model runs on one GPU with ``batch_tokens`` tokens at once.
    """

    rules: Vllm | None
    batch_tokens: int

    @classmethod
    def of(cls, block: blocks.Agent | blocks.Ranker | blocks.Simulator) -> "SamplerLayout":
        """Read the layout from the parameters of a policy."""
        return cls(block.vllm if block.engine == "vllm" else None, block.batch_tokens)

    def replicas(self, count: int) -> int:
        """Number of engines that run side by side on at most ``count`` GPUs."""
        if self.rules is None:
            return 1
        return max(1, min(self.rules.replicas, count // self.rules.tensor_parallel))

    @property
    def width(self) -> int:
        """Number of GPUs of one replica."""
        return 1 if self.rules is None else self.rules.tensor_parallel

    def sequences(self, shape: Architecture, tokens: float, gpu: Gpu, memory: Memory) -> int:
        """Number of sequences of ``tokens`` that fit into a replica at once. At least one."""
        if self.rules is None:
            return max(1, int(self.batch_tokens / tokens))
        cache = share_parts(self.rules, shape, gpu, memory)["cache"]
        room = int(cache / cache_gib(self.rules, shape, memory, tokens))
        return max(1, min(self.rules.max_sequences, room))


@dataclass(frozen=True, slots=True)
class Layout:
    """Joint training with both policies on vLLM and both trainers on DeepSpeed.

    ``gpus`` says how the index lies on the GPUs. It is None if the host searches the index.
    """

    agent: Vllm
    ranker: Vllm
    trainer: DeepSpeed
    gpus: IndexGpus | None

    @property
    def samplers(self) -> dict[str, Vllm]:
        """Parameters of vLLM by role."""
        return {"agent": self.agent, "ranker": self.ranker}

    @property
    def own_gpus(self) -> int:
        """Number of GPUs that only the samplers use. 0 if the trainers use the same GPUs."""
        if any(rules.shared_gpus or not rules.devices for rules in self.samplers.values()):
            return 0
        return len({number for rules in self.samplers.values() for number in rules.devices})

    def lacks(self, count: int) -> Iterator[str]:
        """Reasons why the layout needs more than ``count`` GPUs."""
        for role, rules in self.samplers.items():
            highest = max(rules.devices, default=-1) + 1
            wanted = max(rules.replicas * rules.tensor_parallel, highest)
            if wanted > count:
                yield (
                    f"{role}.vllm has {rules.replicas} replicas on {wanted} GPUs, and there are"
                    f" {count}"
                )
        if 0 < count <= self.own_gpus:
            yield f"the samplers' devices leave none of {count} GPUs to the trainers"

    def settings(self) -> dict[str, Any]:
        """Values of the parameters that another layout may change, by key of params.yaml."""
        zero = ("stage", "offload_optimizer", "offload_parameters")
        found = {f"train.deepspeed.{name}": getattr(self.trainer, name) for name in zero}
        for role, rules in self.samplers.items():
            found[f"{role}.vllm.replicas"] = rules.replicas
            found[f"{role}.vllm.memory_share"] = rules.memory_share
        return found

    def changes(self, other: "Layout") -> dict[str, Any]:
        """Parameters to change in order to get the layout ``other``."""
        own = self.settings()
        return {key: value for key, value in other.settings().items() if value != own[key]}

    def with_samplers(self, **values: Any) -> "Layout":
        """A copy with ``values`` in the vLLM parameters of both samplers."""
        agent, ranker = (rules.model_copy(update=values) for rules in self.samplers.values())
        return replace(self, agent=agent, ranker=ranker)

    def nearby(self, count: int) -> Iterator["Layout"]:
        """Other layouts for ``count`` GPUs, the most similar one first.

        They have as many replicas as fit, and split or offload the trainers' states differently.
        """
        agent, ranker = (
            rules.model_copy(update={"replicas": SamplerLayout(rules, 0).replicas(count)})
            for rules in self.samplers.values()
        )
        usual = replace(self, agent=agent, ranker=ranker)
        stages = sorted((3, 2, 1), key=lambda stage: abs(stage - self.trainer.stage))
        for optimizer, parameters in OFFLOADS:
            for stage in stages:
                if parameters and stage != 3:  # only stage 3 splits parameters
                    continue
                update = {"stage": stage, "offload_optimizer": optimizer}
                update["offload_parameters"] = parameters
                yield replace(usual, trainer=self.trainer.model_copy(update=update))


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a profile.

    Holds the samplers by role, the parameters of DeepSpeed (None for another trainer), how the
    index lies on the GPUs (None for the host), and the threads that search it on the host.
    """

    samplers: Mapping[str, SamplerLayout]
    trainer: DeepSpeed | None
    gpus: IndexGpus | None
    search_threads: int

    @classmethod
    def of(cls, settings: Settings) -> "Engines":
        """Read the engines from the parameters. The agent's own model also writes the notes."""
        train = settings.section(blocks.Train)
        agent = SamplerLayout.of(settings.section(blocks.Agent))
        samplers = {
            "agent": agent,
            "notes": agent,
            "ranker": SamplerLayout.of(settings.section(blocks.Ranker)),
            "simulator": SamplerLayout.of(settings.section(blocks.Simulator)),
        }
        trainer = train.deepspeed if train.engine == "deepspeed" else None
        index = settings.section(blocks.Index)
        return cls(samplers, trainer, index.gpus, index.threads)

    def layout(self) -> Layout | None:
        """How joint training shares the GPUs. None if it runs in the stage's own process."""
        agent, ranker = (self.samplers[role].rules for role in ("agent", "ranker"))
        if agent is None or ranker is None or self.trainer is None:
            return None
        return Layout(agent, ranker, self.trainer, self.gpus)
