"""vLLM under a sampler: one engine, or several replicas that share the requests.

Prompts are token ids and answers are token ids: vLLM loads no tokenizer.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosearch.core.protocols import Generate
from cosearch.core.types import Sampling
from cosearch.engines.policies.arrival import Digests
from cosearch.engines.policies.generator_vllm import VllmEngine, Written
from cosearch.engines.policies.placement_vllm import apart, prepare_environment, visible
from cosearch.engines.policies.worker_vllm import WeightsWorker
from cosearch.params.engines import Vllm

PADDING_BIAS = -100.0
"""The lowest bias that vLLM lets a request add to a logit; e^-100 vanishes in any float32 sum."""
MAX_PADDING = 1024
"""Rows that vLLM's GPU runner can bias in one request; Qwen2.5 has 271 to 399."""


def open_engine(
    folder: str | Path, rules: Vllm, *, dtype: str, vocabulary: int, eos_ids: frozenset[int]
) -> VllmEngine:
    """The engine of a model folder, ready to answer.

    Raises ValueError where the placement asks for GPUs that are not there.
    """
    gpus = prepare_environment(rules)
    arguments = _arguments(folder, rules, dtype, gpus)
    kind = Replicas if rules.replicas > 1 else OneEngine
    with visible(rules.devices), apart():
        return kind(arguments, _Translator(vocabulary, eos_ids))


def _arguments(folder: str | Path, rules: Vllm, dtype: str, gpus: bool) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
        "generation_config": "vllm",  # sampling follows the request, never the folder
        "dtype": dtype,
        "seed": 0,
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "tensor_parallel_size": rules.tensor_parallel,
        "distributed_executor_backend": rules.backend,
        "gpu_memory_utilization": rules.memory_share,
        "max_model_len": rules.max_model_tokens,
        "max_num_seqs": rules.max_sequences,
        "enforce_eager": rules.eager or not gpus,
        "enable_sleep_mode": rules.shared_gpus and gpus,
        "worker_extension_cls": f"{WeightsWorker.__module__}.{WeightsWorker.__qualname__}",
    }
    if rules.transfer != "file":
        from vllm.config.weight_transfer import WeightTransferConfig

        arguments["weight_transfer_config"] = WeightTransferConfig(backend=rules.transfer)
    if rules.replicas > 1:
        arguments["data_parallel_size"] = rules.replicas
    if not gpus:
        # A seeded request whose prompt is cut into chunks ends the CPU engine: its random
        # generator knows no offset.
        arguments["enable_chunked_prefill"] = False
    return arguments


class _Translator:
    """Our requests in vLLM's terms, and its answers in ours."""

    def __init__(self, vocabulary: int, eos_ids: frozenset[int]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._make = SamplingParams
        self._whole = RequestOutputKind.FINAL_ONLY
        self._vocabulary = vocabulary
        self._stops = sorted(eos_ids)
        self._bias: dict[int, float] | None = None

    def pad(self, rows: int) -> None:
        """Learn how many rows the output layer has. Raises ValueError for too much padding."""
        if rows - self._vocabulary > MAX_PADDING:
            raise ValueError(
                f"the output layer has {rows} rows for {self._vocabulary} tokens; vLLM can exclude"
                f" {MAX_PADDING} of them"
            )
        self._bias = {row: PADDING_BIAS for row in range(self._vocabulary, rows)} or None

    def prompt(self, request: Generate) -> dict[str, Any]:
        """The prompt as token ids."""
        return {"prompt_token_ids": list(request.prompt_ids)}

    def parameters(self, request: Generate, stops: bool) -> Any:
        """Sampling parameters. The stop tokens are those given here, not those of the folder."""
        sampling: Sampling = request.sampling
        return self._make(
            temperature=sampling.temperature,
            max_tokens=sampling.max_tokens,
            seed=request.seed,
            ignore_eos=True,
            stop_token_ids=self._stops if stops else None,
            logprobs=0,
            logit_bias=self._bias,
            detokenize=False,
            output_kind=self._whole,
        )

    def written(self, output: Any) -> Written:
        """Ids and log-probabilities of a finished answer. Raises RuntimeError if it is not."""
        (found,) = output.outputs
        if found.finish_reason not in ("stop", "length"):
            raise RuntimeError(f"vLLM ended a request with {found.finish_reason!r}")
        ids = tuple(found.token_ids)
        return ids, tuple(
            float(step[token].logprob) for token, step in zip(ids, found.logprobs, strict=True)
        )


class OneEngine:
    """A single engine behind vLLM's offline interface."""

    def __init__(self, arguments: Mapping[str, Any], translator: _Translator) -> None:
        from vllm import LLM

        self._llm: Any = LLM(**arguments)
        self._translator = translator
        self.max_tokens: int = self._llm.model_config.max_model_len
        translator.pad(self._llm.model_config.get_vocab_size())

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        """Completions, in order."""
        outputs = self._llm.generate(
            [self._translator.prompt(request) for request in requests],
            [self._translator.parameters(request, stops) for request in requests],
            use_tqdm=False,
        )
        return [self._translator.written(output) for output in outputs]

    def call(self, method: str, **values: Any) -> None:
        """Call ``method`` of every worker."""
        self._llm.collective_rpc(method, kwargs=values)

    def forget(self) -> None:
        """Drop every cached prefix."""
        _forgotten(self._llm.reset_prefix_cache())

    def digests(self) -> Digests:
        """Digests of all workers' tensors."""
        return _merged(self._llm.collective_rpc("weight_digests"))

    def sleep(self, *, discard: bool) -> None:
        """Leave the GPU; the weights wait in host memory, or are gone with ``discard``."""
        self._llm.sleep(level=_level(discard))

    def wake(self, part: str) -> None:
        """Take back the memory of ``part``."""
        self._llm.wake_up(tags=[part])

    def close(self) -> None:
        """End the engine and its processes."""
        self._llm.llm_engine.engine_core.shutdown()


class Replicas:
    """Several engines that share the requests, behind vLLM's asynchronous interface.

    Each replica batches continuously; a call returns when its last request has ended.
    """

    def __init__(self, arguments: Mapping[str, Any], translator: _Translator) -> None:
        self._loop = asyncio.new_event_loop()
        self._translator = translator
        self._engine: Any = self._run(self._open(dict(arguments)))
        self.max_tokens: int = self._engine.model_config.max_model_len
        translator.pad(self._engine.model_config.get_vocab_size())
        self._asked = 0

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        """Completions, in order."""
        found: list[Written] = self._run(self._write(requests, stops))
        return found

    def call(self, method: str, **values: Any) -> None:
        """Call ``method`` of every worker of every replica."""
        self._run(self._engine.collective_rpc(method, kwargs=values))

    def forget(self) -> None:
        """Drop every cached prefix of every replica."""
        _forgotten(self._run(self._engine.reset_prefix_cache()))

    def digests(self) -> Digests:
        """Digests of all replicas' tensors. (``collective_rpc`` gives those of the first alone.)"""
        asked = self._engine.engine_core.call_utility_all_async(
            "collective_rpc", "weight_digests", None, (), None
        )
        return _merged(worker for replica in self._run(asked) for worker in replica)

    def sleep(self, *, discard: bool) -> None:
        """Leave the GPUs; the weights wait in host memory, or are gone with ``discard``."""
        self._run(self._engine.sleep(level=_level(discard)))

    def wake(self, part: str) -> None:
        """Take back the memory of ``part``."""
        self._run(self._engine.wake_up(tags=[part]))

    def close(self) -> None:
        """End the replicas and the loop that spoke to them."""
        self._engine.shutdown()
        del self._engine  # else it shuts down again when the interpreter is half gone
        # The engine's tasks were told to end, and the loop must run for them to hear it.
        ending = asyncio.all_tasks(self._loop)
        for task in ending:
            task.cancel()
        self._run(_ended(ending))
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    @staticmethod
    async def _open(arguments: dict[str, Any]) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))

    async def _write(self, requests: Sequence[Generate], stops: bool) -> list[Written]:
        first = self._asked
        self._asked += len(requests)
        return list(
            await asyncio.gather(
                *(self._one(request, stops, first + n) for n, request in enumerate(requests))
            )
        )

    async def _one(self, request: Generate, stops: bool, number: int) -> Written:
        stream = self._engine.generate(
            self._translator.prompt(request),
            self._translator.parameters(request, stops),
            request_id=str(number),
        )
        outputs = [output async for output in stream]
        return self._translator.written(outputs[-1])


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def _merged(parts: Iterable[Digests]) -> Digests:
    return {name: digest for part in parts for name, digest in part.items()}


def _level(discard: bool) -> int:
    """vLLM's level of sleep: 1 keeps the weights in host memory, 2 keeps nothing."""
    return 2 if discard else 1


def _forgotten(done: bool) -> None:
    if not done:
        raise RuntimeError("vLLM kept prefixes that were cached under the weights before")
