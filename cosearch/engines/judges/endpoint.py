"""An LLM judge behind any OpenAI-compatible endpoint (Table 3, row "LLM-as-judge").

Every answer is kept in an append-only file under the hash of model and prompt, so a run that asks
nothing new needs no network and gives the same rewards.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from cosearch.core.prompts import Fill, Prompting
from cosearch.core.protocols import JudgeCase, Judgement
from cosearch.params.blocks import Judge
from cosearch.params.engines import Endpoint

_SCORE = re.compile(r"\s*(\d{1,2}(?:\.\d+)?)\s*", re.ASCII)
_BEST = 10.0
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses of faults that may pass, so the request is sent again."""


class EndpointJudge:
    """Implements ``core.protocols.RankingJudge``. ``block`` says how a case is put, by the template
    ``judge_chat`` of its set; its model and the answers of its own model are the endpoint's.

    ``endpoint.url`` goes up to ``/chat/completions`` and does not hold it. ``parallel`` cases are
    asked at a time. ``key_variable`` names the environment variable of the key, if there is one.
    ``sleep`` waits between tries, ``backoff`` seconds at first and then twice as long each time.

    Raises ValueError for an answer that is no number from 0 to 10, ConnectionError when the
    endpoint does not answer; what was answered before stays in ``cache``.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        block: Judge,
        *,
        cache: Path,
        sleep: Callable[[float], None],
    ) -> None:
        if not endpoint.url.startswith(("http://", "https://")):
            raise ValueError(f"judge.url: {endpoint.url!r} is neither an http nor an https address")
        self._endpoint = endpoint
        self._max_tokens = block.max_turn_tokens
        self._prompting = Prompting(block.templates, block.document, block.max_document_chars)
        self._answers = AnswerFile(cache)
        self._client = httpx.Client(
            timeout=endpoint.timeout, limits=httpx.Limits(max_connections=endpoint.parallel)
        )
        self._retrying = Retrying(
            stop=stop_after_attempt(endpoint.tries),
            wait=wait_exponential(endpoint.backoff),
            retry=retry_if_exception(_may_pass),
            sleep=sleep,
            reraise=True,
        )

    def __call__(self, cases: Sequence[JudgeCase]) -> list[Judgement]:
        """Scores are the judge's tenths; equal cases are asked once. No document is dropped."""
        messages = [self.messages(case) for case in cases]
        keys = [self._key(one) for one in messages]
        asked = dict(zip(keys, messages, strict=True))
        self._ask_all({key: one for key, one in asked.items() if key not in self._answers})
        cuts = [len(self._prompting.cuts(case.passages, 0)) for case in cases]
        return [
            Judgement(_read_score(self._answers[key]), dropped_documents=0, cut_documents=count)
            for key, count in zip(keys, cuts, strict=True)
        ]

    def messages(self, case: JudgeCase) -> list[dict[str, str]]:
        """The chat messages of a case."""
        documents = self._prompting.documents(case.passages)
        fills: dict[str, Fill] = {
            "question": case.question,
            "golds": " | ".join(case.golds),
            "query": case.query,
            "documents": [segment for document in documents for segment in document],
        }
        return [
            {"role": message.role, "content": "".join(s.text for s in message.segments)}
            for message in self._prompting.fill("judge_chat", fills)
        ]

    def _key(self, messages: Sequence[dict[str, str]]) -> str:
        prompt = json.dumps([self._endpoint.model, messages], ensure_ascii=False)
        return hashlib.sha256(prompt.encode()).hexdigest()

    def _ask_all(self, missing: Mapping[str, Sequence[dict[str, str]]]) -> None:
        """Ask and keep answers, in order; after a fault nothing more is asked."""
        fault = threading.Event()

        def ask(messages: Sequence[dict[str, str]]) -> str:
            if fault.is_set():
                raise CancelledError
            try:
                return self._ask(messages)
            except Exception:  # of any kind: the rest is not asked, and it goes on up
                fault.set()
                raise

        with ThreadPoolExecutor(self._endpoint.parallel) as pool:
            answers = {key: pool.submit(ask, messages) for key, messages in missing.items()}
            for key, future in answers.items():
                self._answers.add(key, self._endpoint.model, future.result())

    def _ask(self, messages: Sequence[dict[str, str]]) -> str:
        """The answer's text, a number, after as many tries as it may take."""
        try:
            return self._retrying(self._post, messages)
        except httpx.HTTPStatusError as error:
            fault = f"status {error.response.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fault = type(error).__name__
        raise ConnectionError(f"the judge at {self._endpoint.url} gave no answer: {fault}")

    def _post(self, messages: Sequence[dict[str, str]]) -> str:
        """One try. Redirects are not followed, because the key must not go to another address."""
        answer = self._client.post(
            f"{self._endpoint.url.rstrip('/')}/chat/completions",
            headers=self._authorisation(),
            json={
                "model": self._endpoint.model,
                "messages": messages,
                "temperature": 0,
                "max_tokens": self._max_tokens,
            },
        )
        text = _content(answer.raise_for_status().content)
        _read_score(text)
        return text

    def _authorisation(self) -> dict[str, str]:
        name = self._endpoint.key_variable
        if name is None:
            return {}
        if not os.environ.get(name):
            raise ValueError(f"judge.key_variable: the environment variable {name} is not set")
        return {"Authorization": f"Bearer {os.environ[name]}"}


class AnswerFile:
    """Answers by key, one JSON object per line; lines are only ever added.

    A line that a kill cut off is dropped when the file is opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        lines = enumerate(whole.split(b"\n")[:-1], start=1)
        self._answers = dict(self._row(number, line) for number, line in lines)

    def _row(self, number: int, line: bytes) -> tuple[str, str]:
        """Key and answer of a line. Raises ValueError that names the file and the line."""
        try:
            row = json.loads(line)
            return row["key"], row["answer"]
        except (ValueError, LookupError, TypeError) as error:
            fault = f"no answer ({error}); remove the line"
            raise ValueError(f"{self._path}: line {number}: {fault}") from error

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> str:
        return self._answers[key]

    def add(self, key: str, model: str, answer: str) -> None:
        """Keep an answer, on the disk first."""
        row = {"key": key, "model": model, "answer": answer}
        with self._path.open("a", encoding="utf-8", newline="\n") as handle:
            handle.write(json.dumps(row, ensure_ascii=False) + "\n")
        self._answers[key] = answer


def _may_pass(error: BaseException) -> bool:
    """Whether another try may succeed."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _PASSING
    return isinstance(error, httpx.TransportError)


def _content(body: bytes) -> str:
    """The text of a chat completion. Raises ValueError for anything else."""
    try:
        content = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError):
        content = None
    if not isinstance(content, str):
        raise ValueError(f"the judge sent no chat completion: {body[:200]!r}")
    return content


def _read_score(answer: str) -> float:
    """A judge's number as a score in [0, 1]. Raises ValueError for any other answer."""
    match = _SCORE.fullmatch(answer)
    if match is None or float(match[1]) > _BEST:
        raise ValueError(f"the judge answered {answer[:200]!r}, not a number from 0 to 10")
    return float(match[1]) / _BEST
