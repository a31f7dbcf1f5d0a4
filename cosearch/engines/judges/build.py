"""The judges of a ranking, as the parameters describe them."""

from pathlib import Path

from cosearch.core.protocols import RankingJudge
from cosearch.engines.policies.build import build_codec, hf_sampler
from cosearch.params import blocks


def build_likelihood_judge(folder: str | Path, block: blocks.Judge) -> RankingJudge:
    """The likelihood judge over the frozen agent of a model folder."""
    from cosearch.engines.judges.likelihood import LikelihoodJudge

    codec = build_codec(folder, block.chat_options)
    vocabulary = len(codec.tokenizer)
    return LikelihoodJudge(hf_sampler(folder, codec, block), codec, block, vocabulary=vocabulary)


def build_endpoint_judge(block: blocks.Judge, cache: Path) -> RankingJudge:
    """The judge behind an OpenAI-compatible endpoint; ``cache`` is the file of its answers.

    Raises ValueError where the block names no endpoint.
    """
    import time

    from cosearch.engines.judges.endpoint import EndpointJudge

    if block.endpoint is None:
        raise ValueError("judge.kind is endpoint, and judge.endpoint is null: name the service")
    return EndpointJudge(block.endpoint, block, cache=cache, sleep=time.sleep)
