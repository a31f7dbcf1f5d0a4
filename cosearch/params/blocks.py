"""The schema of params.yaml: one class per block, strict and frozen.

What each key means and where its value comes from stands beside it in params.yaml.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cosearch.params.data import ListSource, SetCounts
from cosearch.params.engines import (
    DeepSpeed,
    Device,
    Endpoint,
    IndexGpus,
    Torch,
    Upkeep,
    Vllm,
)
from cosearch.params.hub import Hub
from cosearch.params.method import Method, NonNegative, Positive, Section, Share
from cosearch.params.plan import Plan
from cosearch.params.rows import Comparison, RowEntry, Statistics, TableFrames


class Data(Section):
    """Where questions and corpus come from; without ``lists`` the Fixed Ranker's queries are the
    training questions."""

    source: Literal["world", "files"]
    folder: str | None
    corpus: str | None
    reference_run: str | None
    seed: int
    eval_fraction: Annotated[float, Field(gt=0, le=1)]
    sets: dict[str, SetCounts]
    lists: dict[str, ListSource]


class Models(Section):
    """Model folders by name; variants say which role starts from which. None: the profile has
    none of the kind, and rows that ask for it are refused."""

    encoder: str
    agent: str
    agent_small: str | None
    agent_tags: str | None
    agent_tags_small: str | None
    shared: str | None
    ranker: str
    ranker_small: str | None
    cross_encoder: str | None
    simulator: str | None


class Encoder(Section):
    """The dense encoder."""

    query_prefix: str
    passage_prefix: str
    pooling: Literal["mean"]
    normalize: bool
    max_length: Positive
    batch_size: Positive
    dtype: Literal["float32", "bfloat16"]
    device: Device
    storage: Literal["float32", "float16"]
    shard_size: Positive
    processes: Positive


ChatOptions = dict[str, bool | int | str]
"""What a model's chat template is asked with, beside the messages."""
IndexKind = Literal["flat", "fp16", "sq8", "pq", "ivf_flat", "ivf_sq8", "ivf_pq", "hnsw"]


class Index(Section):
    """The FAISS index and its self-check. A parameter that the kind does not use may be None."""

    kind: IndexKind
    shards: Positive
    threads: Positive
    nlist: Positive | None
    nprobe: Positive | None
    pq_m: Positive | None
    hnsw_m: Annotated[int, Field(ge=2)] | None
    ef_construction: Positive | None
    ef_search: Positive | None
    train_rows: Positive | None
    seed: Annotated[int, Field(ge=0)] | None
    gpus: IndexGpus | None
    recall: dict[IndexKind, Share]
    self_check: Annotated[int, Field(ge=0)]
    self_check_floor: dict[IndexKind, Share]

    @model_validator(mode="after")
    def _has_floor(self) -> "Index":
        if self.kind not in self.self_check_floor:
            raise ValueError(f"self_check_floor: has none for kind {self.kind}")
        return self


class Notes(Section):
    """Notes on documents (Search-o1)."""

    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    max_document_chars: Positive


class Agent(Section):
    """Prompting and bounds of the agent, and the engine that samples it."""

    templates: str
    chat_options: ChatOptions
    document: str
    max_document_chars: Positive
    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    max_response_tokens: Positive
    max_observation_tokens: Positive
    lenient_answer: bool
    notes: Notes
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]
    device: Device
    engine: Literal["hf", "vllm"]
    vllm: Vllm | None


class Ranker(Section):
    """Prompting and bounds of the ranker; ``max_pair_tokens`` is a cross-encoder's."""

    templates: str
    chat_options: ChatOptions
    document: str
    max_document_chars: Positive
    max_prompt_tokens: Positive
    max_pair_tokens: Positive
    max_turn_tokens: Positive
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]
    device: Device
    engine: Literal["hf", "vllm"]
    vllm: Vllm | None


class Simulator(Section):
    """The model that plays the search engine in training (ZeroSearch), and its noise."""

    templates: str
    chat_options: ChatOptions
    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    temperature: NonNegative
    noise_start: Share
    noise_end: Share
    noise_base: Annotated[float, Field(gt=1)]
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]
    device: Device
    engine: Literal["hf", "vllm"]
    vllm: Vllm | None


class Judge(Section):
    """Who scores a ranker's documents where ``reward.source`` is ``judge``."""

    kind: Literal["likelihood", "endpoint"]
    model: str
    templates: str
    chat_options: ChatOptions
    document: str
    max_document_chars: Positive
    max_prompt_tokens: Positive
    max_turn_tokens: Positive
    score_digits: Positive
    batch_tokens: Positive
    dtype: Literal["float32", "bfloat16"]
    device: Device
    endpoint: Endpoint | None


class Guards(Section):
    """When a run counts as diverged; None switches a guard off (not in paper)."""

    min_well_formed: Share | None
    min_ranker_well_formed: Share | None
    min_entropy: NonNegative | None
    max_entropy: NonNegative | None
    max_gap: NonNegative | None
    max_reward_drop: NonNegative | None
    patience: Positive


class Train(Section):
    """Joint training. The block that is named like ``engine`` holds its rules."""

    rounds: Annotated[int, Field(ge=0)]
    questions: Positive
    update_questions: Positive
    dev_every: Positive
    checkpoint_rounds: Positive
    shard_questions: Positive
    agent_lr: Annotated[float, Field(gt=0)]
    ranker_lr: Annotated[float, Field(gt=0)]
    betas: tuple[Share, Share]
    weight_decay: NonNegative
    grad_clip: Annotated[float, Field(gt=0)]
    warmup_updates: Annotated[int, Field(ge=0)]
    batch_tokens: Positive
    logit_tokens: Positive
    engine: Literal["torch", "deepspeed"]
    torch: Torch | None
    deepspeed: DeepSpeed | None
    guards: Guards


class FixedRanker(Section):
    """Single-turn training of the Fixed Ranker. Equal rankings of a list teach nothing, so the
    temperature is not 0."""

    rounds: Annotated[int, Field(ge=0)]
    questions: Positive
    lists: Positive
    temperature: Annotated[float, Field(gt=0)]
    lr: Annotated[float, Field(gt=0)]
    seed: int


class Gate(Section):
    """What a trained ranker must show."""

    lists: Positive
    min_id_accuracy: Share
    min_gain_over_retriever: float
    max_constant_share: Share
    max_identity_share: Share


class Evaluate(Section):
    """What is evaluated, and how retrieval is measured."""

    split: Literal["dev", "test"]
    systems: tuple[str, ...] | None
    questions_per_set: Positive | None
    shard_questions: Positive
    recall_cutoffs: tuple[Positive, ...]
    bm25: bool
    k_grid: tuple[Positive, ...]
    document_tokens: Positive


class Runtime(Section):
    """``portable``: on which processors the same bytes come out. 0: on those of one model, 1: on
    those of one maker, 2: on those of every maker (docs/reproducibility.md)."""

    portable: Literal[0, 1, 2]


class Profile(Section):
    """All settings of a profile."""

    preset: str
    method: dict[str, Any]
    data: Data
    models: Models
    encoder: Encoder
    index: Index
    agent: Agent
    ranker: Ranker
    simulator: Simulator
    judge: Judge
    train: Train
    fixed_ranker: FixedRanker
    gate: Gate
    evaluate: Evaluate
    runtime: Runtime


class File(Section):
    """params.yaml as a whole."""

    rows: dict[str, RowEntry]
    seed_count: Positive
    comparisons: tuple[Comparison, ...]
    tables: TableFrames
    statistics: Statistics
    presets: dict[str, Method]
    profiles: dict[str, Profile]
    base_models: dict[str, Any]
    runtime: Upkeep
    plan: Plan
    hub: dict[str, Hub]
