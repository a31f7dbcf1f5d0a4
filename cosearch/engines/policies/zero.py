"""The plan of one model's training over DeepSpeed, and DeepSpeed's configuration for it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cosearch.engines.policies.loss import LossRules
from cosearch.engines.policies.step import OptimizerRules
from cosearch.params.engines import DeepSpeed

PARTITIONED = 3
"""The stage of ZeRO that parts the parameters, too."""
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What every rank must know to train one model. ``vocabulary`` is None for a scorer, which
    writes no tokens.

    ``zero.stage``: 1 parts the optimiser's state among the ranks, 2 the gradients too, 3 the
    parameters too. Raises ValueError for a stage, an offload or a dtype that DeepSpeed cannot do.
    """

    folder: str
    vocabulary: int | None
    optimizer: OptimizerRules
    loss: LossRules
    zero: DeepSpeed
    scratch: str

    def __post_init__(self) -> None:
        stage, dtype = self.zero.stage, self.zero.dtype
        if stage not in (1, 2, PARTITIONED):
            raise ValueError(f"ZeRO stage {stage}: one of 1, 2 and 3 is needed")
        if self.zero.offload_parameters and stage != PARTITIONED:
            raise ValueError(f"ZeRO stage {stage} does not part parameters: only 3 offloads")
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype}: DeepSpeed's own copy of the weights is float32")

    def record(self) -> dict[str, Any]:
        """The plan as JSON can hold it; ``read`` reads it back."""
        return {**asdict(self), "zero": self.zero.model_dump()}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "TrainingPlan":
        """The plan that ``record`` was made of, perhaps by way of JSON."""
        optimizer = record["optimizer"]
        parts = {
            "optimizer": OptimizerRules(**optimizer | {"betas": tuple(optimizer["betas"])}),
            "loss": LossRules(**record["loss"]),
            "zero": DeepSpeed(**record["zero"]),
        }
        return cls(**{**record, **parts})


def configuration(plan: TrainingPlan, ranks: int) -> dict[str, Any]:
    """DeepSpeed's configuration. Micro-batches are counted by the trainer alone."""
    zero: dict[str, Any] = {"stage": plan.zero.stage}
    if plan.zero.offload_optimizer:
        zero["offload_optimizer"] = {"device": "cpu"}
    if plan.zero.offload_parameters:
        zero["offload_param"] = {"device": "cpu"}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "train_batch_size": ranks,
        "gradient_clipping": plan.optimizer.grad_clip,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,  # torch's AdamW, which needs no compiler
        "zero_force_ds_cpu_optimizer": False,
    }
    if plan.zero.dtype == "bfloat16":
        config["bf16"] = {"enabled": True, "check_grad_overflow": True}
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    return config
