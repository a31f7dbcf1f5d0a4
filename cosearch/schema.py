"""The schema of params.yaml: one class per block, strict and frozen.

What each key means and where its value comes from stands beside it in params.yaml.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A block of params.yaml: unknown keys are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)


class Reward(Section):
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


class Relevance(Section):
    match: Literal["tokens", "substring"]
    strip_marks: bool
    min_gold_chars: Annotated[int, Field(ge=0)]


class Group(Section):
    semantic: bool
    delta: Share
    k_min: Positive


class Advantage(Section):
    std: Literal["sample", "population"]
    adv_eps: Annotated[float, Field(gt=0)]


class Credit(Section):
    average_duplicates: bool
    drop_constant_groups: bool
    max_ranker_samples: Annotated[float, Field(gt=0)] | None


class Loss(Section):
    clip_eps: Annotated[float, Field(gt=0, lt=1)]
    aggregation: Literal["sum_per_sequence", "token_mean", "sequence_mean", "constant_length"]
    dual_clip: Annotated[float, Field(gt=1)] | None
    kl_coef: NonNegative
    importance_cap: Annotated[float, Field(gt=0)] | None


class Rollout(Section):
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


class QuestionSource(Section):
    path: str
    split: str | None
    source: str
    format: str | None


class SetCounts(Section):
    kind: Literal["single", "multi"]
    train: Annotated[int, Field(ge=0)] | None
    dev: Annotated[int, Field(ge=0)] | None
    test: Annotated[int, Field(ge=0)] | None
    files: dict[Literal["train", "dev", "test"], QuestionSource]


class Data(Section):
    source: Literal["world", "files"]
    folder: str | None
    corpus: str | None
    reference_run: str | None
    seed: int
    eval_fraction: Annotated[float, Field(gt=0, le=1)]
    sets: dict[str, SetCounts]


class Models(Section):
    encoder: str
    agent: str
    ranker: str


class Encoder(Section):
    query_prefix: str
    passage_prefix: str
    pooling: Literal["mean"]
    normalize: bool
    max_length: Positive
    batch_size: Positive
    dtype: Literal["float32", "bfloat16"]
    shard_size: Positive
    processes: Positive


class Index(Section):
    kind: Literal["flat"]
    self_check: Annotated[int, Field(ge=0)]
    self_check_floor: Share


class Agent(Section):
    templates: str
    document: str
    max_document_chars: Positive
    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    max_response_tokens: Positive
    max_observation_tokens: Positive
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]


class Ranker(Section):
    templates: str
    document: str
    max_document_chars: Positive
    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]


class Train(Section):
    rounds: Annotated[int, Field(ge=0)]
    questions: Positive
    update_questions: Positive
    dev_every: Positive
    shard_questions: Positive
    agent_lr: Annotated[float, Field(gt=0)]
    ranker_lr: Annotated[float, Field(gt=0)]
    betas: tuple[Share, Share]
    weight_decay: NonNegative
    grad_clip: Annotated[float, Field(gt=0)]
    warmup_updates: Annotated[int, Field(ge=0)]
    batch_tokens: Positive


class FixedRanker(Section):
    rounds: Annotated[int, Field(ge=0)]
    questions: Positive
    lists: Positive
    lr: Annotated[float, Field(gt=0)]
    seed: int


class Gate(Section):
    lists: Positive
    min_id_accuracy: Share
    min_gain_over_retriever: float
    max_constant_share: Share
    max_identity_share: Share


class Evaluate(Section):
    split: Literal["dev", "test"]
    questions_per_set: Positive | None
    shard_questions: Positive
    recall_cutoffs: tuple[Positive, ...]


class Profile(Section):
    preset: str
    method: dict[str, Any]
    data: Data
    models: Models
    encoder: Encoder
    index: Index
    agent: Agent
    ranker: Ranker
    train: Train
    fixed_ranker: FixedRanker
    gate: Gate
    evaluate: Evaluate


class Variant(Section):
    ranker: Literal["retriever_order", "generative", "oracle"]
    ranker_from: Literal["base", "fixed_ranker"]
    train: tuple[Literal["agent", "ranker"], ...]
    set: dict[str, Any]


class System(Section):
    label: str
    variant: str
    method: Literal["react", "direct", "rag"]
    ranker: Literal["retriever_order", "generative", "oracle"]
    set: dict[str, Any]


class Rows(Section):
    variants: tuple[str, ...]
    systems: tuple[str, ...]


class Comparison(Section):
    left: str
    right: str
    metric: str


class Statistics(Section):
    level: Annotated[float, Field(gt=0, lt=1)]
    draws: Positive
    seed: int
    resample_seeds: bool
    power: Annotated[float, Field(gt=0, lt=1)]


class Runtime(Section):
    threads: Positive


class File(Section):
    """params.yaml as a whole."""

    rows: Rows
    seeds: tuple[int, ...]
    comparisons: tuple[Comparison, ...]
    statistics: Statistics
    variants: dict[str, Variant]
    systems: dict[str, System]
    presets: dict[str, Method]
    profiles: dict[str, Profile]
    base_models: dict[str, Any]
    runtime: Runtime
