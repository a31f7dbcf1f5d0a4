"""The schema of a preset: one complete reading of the paper's method.

What each key means and where its value comes from stands beside it in params.yaml.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A block of params.yaml: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


class Reward(Section):
    """Eqs. 4-6."""

    format_penalty: NonNegative
    gamma: NonNegative
    gate_inclusive: bool
    hit_cutoffs: Annotated[tuple[Positive, ...], Field(min_length=1)]
    ranking_metric: Literal["hit", "ndcg"]
    use_relevance: bool
    use_main: bool
    main_threshold: Share | None
    exclude_malformed_trajectories: bool
    yes_no_rule: Literal["bag", "squad"]
    source: Literal["composite", "judge"]
    answer_metric: Literal["f1", "em"]


class Relevance(Section):
    """How a passage is found to contain an answer."""

    match: Literal["tokens", "substring"]
    strip_marks: bool
    min_gold_chars: Annotated[int, Field(ge=0)]


class Group(Section):
    """Algorithm 2."""

    semantic: bool
    delta: Share
    k_min: Positive


class Advantage(Section):
    """Group-relative advantage."""

    std: Literal["sample", "population"]
    adv_eps: Annotated[float, Field(gt=0)]


class Credit(Section):
    """What enters an update."""

    average_duplicates: bool
    drop_constant_groups: bool
    max_ranker_samples: Annotated[float, Field(gt=0)] | None


class Loss(Section):
    """Eq. 3."""

    clip_eps: Annotated[float, Field(gt=0, lt=1)]
    aggregation: Literal[
        "sum_per_sequence", "token_mean", "sequence_mean", "constant_length", "per_group_mean"
    ]
    dual_clip: Annotated[float, Field(gt=1)] | None
    kl_coef: NonNegative
    importance_cap: Annotated[float, Field(gt=0)] | None


class Rollout(Section):
    """Sizes and temperatures of rollouts."""

    group_size: Annotated[int, Field(ge=2)]
    max_searches: Positive
    top_n: Positive
    top_k: Positive
    agent_temperature: NonNegative
    ranker_temperature: NonNegative
    eval_temperature: NonNegative


class Method(Section):
    """One complete reading of the paper (a preset), with overrides applied."""

    reward: Reward
    relevance: Relevance
    group: Group
    advantage: Advantage
    credit: Credit
    loss: Loss
    rollout: Rollout

    @model_validator(mode="after")
    def _consistent(self) -> "Method":
        rollout = self.rollout
        if rollout.top_k > rollout.top_n:
            raise ValueError(
                f"rollout.top_k={rollout.top_k} is above rollout.top_n={rollout.top_n}: the agent"
                " cannot read more documents than are retrieved"
            )
        if max(self.reward.hit_cutoffs) > rollout.top_k:
            raise ValueError(
                f"reward.hit_cutoffs={list(self.reward.hit_cutoffs)} exceeds"
                f" rollout.top_k={rollout.top_k}: Hit@k is taken over the K documents shown"
            )
        return self
