"""The judges of a ranking, as the parameters describe them."""

from pathlib import Path
from typing import Any

from cosearch.core.protocols import Judge
from cosearch.engines.policies.build import build_sampler


def build_likelihood_judge(
    folder: str | Path,
    codec: Any,
    *,
    batch_tokens: int,
    dtype: str,
    device: str = "cpu",
    **prompt: Any,
) -> Judge:
    """The likelihood judge over a frozen agent's folder; ``prompt``: fields of its JudgePrompt."""
    from cosearch.engines.judges.likelihood import JudgePrompt, LikelihoodJudge

    return LikelihoodJudge(
        build_sampler(folder, codec, batch_tokens=batch_tokens, dtype=dtype, device=device),
        codec,
        vocabulary=len(codec.tokenizer),
        prompt=JudgePrompt(**prompt),
        batch_tokens=batch_tokens,
    )


def build_endpoint_judge(
    *,
    url: str,
    model: str,
    key_variable: str | None,
    timeout: float,
    tries: int,
    backoff: float,
    parallel: int,
    max_tokens: int,
    templates: str,
    document: str,
    max_document_chars: int,
    cache: Path,
) -> Judge:
    """A judge behind an OpenAI-compatible endpoint; ``cache`` keeps its answers."""
    import time

    from cosearch.engines.judges.endpoint import ChatPrompt, Endpoint, EndpointJudge

    return EndpointJudge(
        Endpoint(url, model, key_variable, timeout, tries, backoff, parallel, max_tokens),
        ChatPrompt(templates, document, max_document_chars),
        cache=cache,
        sleep=time.sleep,
    )
