"""The schema of the file plan.yaml: what ``python -m cosearch plan`` reckons with.

Nothing here changes a result. What each key means and where its value comes from stands beside it
in plan.yaml.
"""

from typing import Annotated

from pydantic import Field, model_validator

from cosearch.params.method import NonNegative, Positive, Section, Share

Amount = Annotated[float, Field(gt=0)]


class Architecture(Section):
    """Shape of a transformer; ``tied``: the output layer is the input embedding."""

    parameters: Positive
    layers: Positive
    hidden: Positive
    heads: Positive
    kv_heads: Positive
    head_size: Positive
    feed_forward: Positive
    vocabulary: Positive
    tied: bool


class Gpu(Section):
    """A kind of GPU: GiB, GB/s, TFLOP/s of dense bf16, and the price of an hour."""

    memory: Amount
    bandwidth: Amount
    peak: Amount
    price: NonNegative


class Habits(Section):
    """Means over rollouts: per trajectory, per turn, per search and per ranker call, in tokens.
    ``live`` and ``live_calls``: the share of tokens that an update runs over. ``measured``: the
    variant whose rollouts they come from; None: assumed."""

    measured: str | None
    searches: NonNegative
    turns: Amount
    prompt_tokens: Amount
    turn_tokens: Amount
    observation_tokens: NonNegative
    call_prompt_tokens: NonNegative
    call_turn_tokens: NonNegative
    live: Share
    live_calls: Share


class Writing(Section):
    """Tokens that an auxiliary model reads and writes per search."""

    prompt_tokens: NonNegative
    turn_tokens: NonNegative


class Calibration(Section):
    """How a profile's policies behave. ``habits``: by variant, or by kind of ranker for the rest.
    ``rollout_bytes``: Parquet bytes per token of a rollout file."""

    passages: Positive
    passage_bytes: Positive
    passage_tokens: Amount
    pair_tokens: Amount
    notes: Writing
    simulated: Writing
    rollout_bytes: Amount
    habits: dict[str, Habits]


class Efficiency(Section):
    """Share of the peak (of the bandwidth for ``decode``) that is reached; TFLOP/s of a thread that
    searches."""

    train: Share
    prefill: Share
    decode: Share
    encode: Share
    host_search: Amount


class RoundCosts(Section):
    """What a round takes beside its models: GB/s of links, disk and hashes, tokens/s of
    serialisation, seconds of waking and of a start; ``most_hours`` that all rounds may take."""

    link: Amount
    host_link: Amount
    disk: Amount
    hash: Amount
    serialise: Amount
    wake: NonNegative
    start: NonNegative
    most_hours: Amount


class Memory(Section):
    """What no engine decides, in GiB per GPU and bytes per weight. ``overhead``: outside the shares
    of the samplers; ``sampler_overhead``: of each sampler, inside its share."""

    overhead: NonNegative
    sampler_overhead: NonNegative
    weight_bytes: Positive
    gradient_bytes: Positive
    optimizer_bytes: Positive


class Host(Section):
    """A node: GPUs, host memory (GiB) and disk (GB)."""

    gpus: Positive
    memory: Amount
    disk: Amount


class Least(Section):
    """The least machine for a profile: host memory (GiB) and free disk (GB); ``gpus``: whether its
    models need GPUs."""

    gpus: bool
    memory: Amount
    disk: Amount


class Plan(Section):
    """All that a plan needs beside the profile."""

    gpu: str
    count: Positive
    counts: tuple[Positive, ...]
    tolerance: Share
    gpus: dict[str, Gpu]
    host: Host
    least: dict[str, Least]
    efficiency: Efficiency
    round: RoundCosts
    memory: Memory
    architectures: dict[str, Architecture]
    models: dict[str, str]
    calibration: dict[str, Calibration]

    @model_validator(mode="after")
    def _consistent(self) -> "Plan":
        if self.gpu not in self.gpus:
            raise ValueError(f"gpu={self.gpu}: not among gpus {sorted(self.gpus)}")
        if unknown := set(self.models.values()) - set(self.architectures):
            raise ValueError(f"models: no architecture {min(unknown)!r}")
        return self
