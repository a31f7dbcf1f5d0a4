"""Deterministic engines and a codec for tests: complete, with a script in place of weights."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cosearch.core.protocols import Generate, Message, Retrieve, Segment
from cosearch.core.text import token_f1
from cosearch.core.types import Candidate, Generation, Passage

CONTROLS = (
    *("<|user|>", "<|assistant|>", "<|end|>"),
    *("<reason>", "</reason>", "<tool_call>", "</tool_call>"),
    *("<answer>", "</answer>", "<rerank>", "</rerank>"),
)
END = CONTROLS.index("<|end|>")
_CONTROL = re.compile(f"({'|'.join(map(re.escape, CONTROLS))})")


class ScriptedCodec:
    """Implements ``core.protocols.Codec``: one id per control token, one per other character.

    Controls are recognised in trusted text only, so data can never become one.
    """

    eos_ids: frozenset[int] = frozenset({END})

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Every message as ``<|ROLE|>`` text ``<|end|>``, then the assistant's opening."""
        ids: list[int] = []
        for message in messages:
            opening = Segment(f"<|{message.role}|>", trusted=True)
            ids += [*self.encode((opening, *message.segments)), END]
        return [*ids, CONTROLS.index("<|assistant|>")]

    def reply(self, segments: Sequence[Segment], *, after_eos: bool) -> list[int]:
        """The end of the assistant's turn unless it was sampled, and a user message."""
        return [*([] if after_eos else [END]), *self.chat([Message("user", tuple(segments))])]

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Ids of bare segments."""
        ids: list[int] = []
        for segment in segments:
            ids += _trusted(segment.text) if segment.trusted else _data(segment.text)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, controls included."""
        first = len(CONTROLS)
        return "".join(CONTROLS[i] if i < first else chr(i - first) for i in ids)


def _data(text: str) -> list[int]:
    return [ord(char) + len(CONTROLS) for char in text]


def _trusted(text: str) -> list[int]:
    ids: list[int] = []
    for number, part in enumerate(_CONTROL.split(text)):
        ids += [CONTROLS.index(part)] if number % 2 else _data(part)
    return ids


ScriptedReply = Callable[[str, Generate], str]
"""Text of a completion for the decoded prompt and the request; ``<|end|>`` stops it."""


@dataclass(slots=True)
class ScriptedPolicy:
    """A generation engine that writes what its script returns, and keeps all requests.

    A completion is cut at the request's ``max_tokens`` or after its ``<|end|>``. Every
    log-probability is ``logprob``, or 0 for a greedy request.
    """

    script: ScriptedReply
    logprob: float = -0.5
    weights: int = 0
    codec: ScriptedCodec = field(default_factory=ScriptedCodec)
    requests: list[Generate] = field(default_factory=list)

    def __call__(self, requests: Sequence[Generate]) -> list[Generation]:
        """Completions of a batch, in order."""
        self.requests += requests
        return [self._complete(request) for request in requests]

    def _complete(self, request: Generate) -> Generation:
        text = self.script(self.codec.decode(request.prompt_ids), request)
        ids = _trusted(text)
        if END in ids:
            ids = ids[: ids.index(END) + 1]
        ids = ids[: request.sampling.max_tokens]
        logprob = self.logprob if request.sampling.temperature > 0 else 0.0
        stopped = ids[-1:] == [END]
        return Generation(
            tuple(ids), (logprob,) * len(ids), stopped, request.sampling, self.weights
        )


@dataclass(slots=True)
class ScriptedRetriever:
    """A retrieval engine over a few passages: token F1 of query and text, ties in order."""

    passages: Sequence[Passage]
    requests: list[Retrieve] = field(default_factory=list)

    def __call__(self, requests: Sequence[Retrieve]) -> list[list[Candidate]]:
        """Top ``n`` passages of each query, best first."""
        self.requests += requests
        return [self._search(request) for request in requests]

    def _search(self, request: Retrieve) -> list[Candidate]:
        scored = [
            Candidate(passage, token_f1(request.query, f"{passage.title} {passage.text}"))
            for passage in self.passages
        ]
        return sorted(scored, key=lambda candidate: -candidate.score)[: request.n]
