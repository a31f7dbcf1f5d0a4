"""Parameter blocks of what runs on GPUs or beside the process: vLLM, DeepSpeed, FAISS's GPUs and
services; and how long any engine may take."""

from typing import Annotated, Literal

from pydantic import Field

from cosearch.params.method import NonNegative, Positive, Section

Device = Literal["cpu", "cuda"]
"""Where transformers runs a model; vLLM has a placement of its own."""
TrackerName = Literal["tensorboard", "mlflow", "wandb"]


class VllmProbe(Section):
    """Greedy continuations after a hand-over. Sampler and trainer may differ over them by at most
    ``factor`` times what they differed by with the first weights."""

    prompts: Positive
    tokens: Positive
    factor: Annotated[float, Field(gt=1)]


class Vllm(Section):
    """Where vLLM runs and how much it takes; ``devices`` empty means all visible GPUs. ``transfer``
    says how weights come: by a file, from a trainer on the same GPUs, or from one on others."""

    replicas: Positive
    tensor_parallel: Positive
    devices: tuple[Annotated[int, Field(ge=0)], ...]
    shared_gpus: bool
    memory_share: Annotated[float, Field(gt=0, le=1)]
    max_model_tokens: Positive | None
    max_sequences: Positive
    eager: bool
    backend: Literal["mp", "ray"] | None
    transfer: Literal["file", "ipc", "nccl"]
    probe: VllmProbe


class Torch(Section):
    """The number type in which plain torch holds the weights that it trains, and computes."""

    dtype: Literal["float32", "bfloat16"]


class DeepSpeed(Section):
    """How DeepSpeed parts a model among the ranks (ZeRO) and saves memory."""

    stage: Literal[1, 2, 3]
    offload_optimizer: bool
    offload_parameters: bool
    gradient_checkpointing: bool
    dtype: Literal["float32", "bfloat16"]


class Endpoint(Section):
    """An OpenAI-compatible service; the key stands in the environment, never in a file."""

    url: str
    model: str
    key_variable: str | None
    timeout: Annotated[float, Field(gt=0)]
    tries: Positive
    backoff: NonNegative
    parallel: Positive


class IndexGpus(Section):
    """Search on all GPUs: vectors spread over them or copied to each, in half precision or not."""

    spread: bool
    float16: bool


class EngineLimits(Section):
    """How long a batch of an engine may take, and how often one that failed is tried."""

    deadline_s: Annotated[float, Field(gt=0)]
    request_s: NonNegative
    tries: Positive
    backoff_s: NonNegative

    def deadline(self, requests: int) -> float:
        """Seconds that a batch of that many requests may take."""
        return self.deadline_s + requests * self.request_s


class Upkeep(Section):
    """How fast, how patiently and how watched, not what. ``scalars`` names the trackers that keep
    the metrics of rounds."""

    threads: Positive
    engine: EngineLimits
    scalars: tuple[TrackerName, ...]
