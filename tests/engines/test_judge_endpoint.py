"""The endpoint judge against a real server on this machine."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosearch.core.protocols import JudgeCase, Judgement
from cosearch.core.types import Passage
from cosearch.engines.judges.build import build_endpoint_judge
from cosearch.engines.judges.endpoint import AnswerFile, EndpointJudge
from cosearch.params.blocks import Judge
from cosearch.params.engines import Endpoint
from tests.settings import block

CASE = JudgeCase("who?", ("Ann", "A. Brook"), "author", (Passage("1", "Lake", "by Ann"),))
OTHER = JudgeCase("who?", ("Ann",), "author", ())
KEY = "JUDGE_KEY_OF_THIS_TEST"


class Server(ThreadingHTTPServer):
    """Answers with what stands in ``replies``, in turn, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[tuple[int, Any]] = [(200, "7")]
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that no longer waits for its answer is no fault."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        replies = self.server.replies
        status, reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if callable(reply):
            reply = reply(body)
        if isinstance(reply, str):
            reply = {"choices": [{"message": {"role": "assistant", "content": reply}}]}
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture()
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv(KEY, "secret-token")
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


class Sleeper:
    """Waits for nothing and remembers how long it should have."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)


def endpoint(url: str, **changes: Any) -> Endpoint:
    plain = Endpoint(
        url=url,
        model="some-model",
        key_variable=None,
        timeout=5.0,
        tries=1,
        backoff=0.5,
        parallel=1,
    )
    return plain.model_copy(update=changes)


def judge(
    url: str,
    cache: Path,
    sleep: Sleeper | None = None,
    *,
    key: str | None = KEY,
    tries: int = 3,
    parallel: int = 1,
) -> EndpointJudge:
    return EndpointJudge(
        endpoint(url, key_variable=key, tries=tries, parallel=parallel),
        block(
            Judge,
            templates="paper",
            document='[{number}] "{title}"\n{text}\n',
            max_document_chars=100,
            max_turn_tokens=8,
        ),
        cache=cache / "answers.jsonl",
        sleep=sleep or Sleeper(),
    )


def scores(found: Sequence[Judgement]) -> list[float]:
    return [judgement.score for judgement in found]


def test_texts_that_the_judge_reads_in_part_are_counted(server: Server, tmp_path: Path) -> None:
    passages = tuple(Passage(str(n), "Lake", "x" * n) for n in (99, 100, 101, 102))
    (found,) = judge(server.url, tmp_path)([replace(CASE, passages=passages)])
    assert found == Judgement(0.7, dropped_documents=0, cut_documents=2)


def test_a_case_is_asked_and_its_number_is_tenths(server: Server, tmp_path: Path) -> None:
    server.replies = [(200, "7"), (200, " 8.5\n")]
    assert scores(judge(server.url, tmp_path)([CASE, OTHER, CASE])) == [0.7, 0.85, 0.7]
    (path, headers, body), _ = server.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret-token"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("some-model", 0, 8)
    (message,) = body["messages"]
    assert message["role"] == "user"
    for text in ("who?", "Ann | A. Brook", "author", '[1] "Lake"\nby Ann'):
        assert text in message["content"]


def test_what_was_answered_needs_no_server(server: Server, tmp_path: Path) -> None:
    first = judge(server.url, tmp_path)([CASE])
    again = judge("http://127.0.0.1:9/nowhere", tmp_path, key=None, tries=1)
    assert again([CASE]) == first
    with pytest.raises(ConnectionError, match="gave no answer"):
        again([OTHER])
    assert len(server.asked) == 1
    assert "secret-token" not in (tmp_path / "answers.jsonl").read_text("utf-8")


def test_another_model_is_asked_anew(server: Server, tmp_path: Path) -> None:
    for model in ("one", "two", "one"):
        asked = endpoint(server.url, model=model, parallel=2)
        found = build_endpoint_judge(block(Judge, endpoint=asked), tmp_path / "answers.jsonl")
        assert scores(found([CASE])) == [0.7]
    assert [body["model"] for _, _, body in server.asked] == ["one", "two"]
    assert all("Authorization" not in headers for _, headers, _ in server.asked)


def cases(count: int) -> list[JudgeCase]:
    return [JudgeCase(f"{number % 10}?", ("Ann",), "author", ()) for number in range(count)]


def number_asked(body: dict[str, Any]) -> str:
    found: str = body["messages"][0]["content"].split("Question: ")[1][0]
    return found


def test_side_by_side_or_in_turn_answers_are_the_same(server: Server, tmp_path: Path) -> None:
    server.replies = [(200, number_asked)]
    many = cases(13)
    one, other = (
        judge(server.url, tmp_path / str(parallel), parallel=parallel)(many) for parallel in (1, 4)
    )
    assert scores(one) == scores(other) == [(number % 10) / 10 for number in range(13)]
    assert len(server.asked) == 20
    first, second = (tmp_path / name / "answers.jsonl" for name in "14")
    assert first.read_bytes() == second.read_bytes()


def test_answers_before_a_fault_are_kept_and_nothing_more_is_asked(
    server: Server, tmp_path: Path
) -> None:
    server.replies = [(200, "1"), (200, "2"), (400, {}), (200, "3")]
    with pytest.raises(ConnectionError, match="status 400"):
        judge(server.url, tmp_path)(cases(9))
    assert len(server.asked) == 3
    server.replies = [(200, "3")]
    assert scores(judge(server.url, tmp_path)(cases(4))) == [0.1, 0.2, 0.3, 0.3]


def test_passing_faults_are_tried_again_with_growing_pauses(server: Server, tmp_path: Path) -> None:
    server.replies = [(503, {}), (429, {}), (200, "3")]
    sleep = Sleeper()
    assert scores(judge(server.url, tmp_path, sleep)([CASE])) == [0.3]
    assert sleep.pauses == [0.5, 1.0]


def test_tries_are_bounded_and_the_key_is_not_told(server: Server, tmp_path: Path) -> None:
    server.replies = [(500, {})]
    with pytest.raises(ConnectionError, match="gave no answer: status 500") as caught:
        judge(server.url, tmp_path)([CASE])
    assert len(server.asked) == 3
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 302])
def test_other_faults_and_redirects_end_at_once(
    server: Server, tmp_path: Path, status: int
) -> None:
    server.replies = [(status, {})]
    with pytest.raises(ConnectionError, match=f"status {status}"):
        judge(server.url, tmp_path)([CASE])
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer_in_time_is_given_up(server: Server, tmp_path: Path) -> None:
    end = threading.Event()
    server.replies = [(200, lambda _: str(int(end.wait())))]
    asked = endpoint(server.url, timeout=0.01)
    found = EndpointJudge(asked, block(Judge), cache=tmp_path / "answers", sleep=Sleeper())
    try:
        with pytest.raises(ConnectionError, match="gave no answer: ReadTimeout"):
            found([CASE])
    finally:
        end.set()


@pytest.mark.parametrize("answer", ["eleven", "11", "10.5", "-1", "7/10", "score: 7", "", "100"])
def test_an_answer_that_is_no_number_is_an_error_and_not_kept(
    server: Server, tmp_path: Path, answer: str
) -> None:
    server.replies = [(200, answer), (200, "10")]
    found = judge(server.url, tmp_path)
    with pytest.raises(ValueError, match="not a number from 0 to 10"):
        found([CASE])
    assert scores(found([CASE])) == [1.0]


@pytest.mark.parametrize("reply", [b"<html>", [], {}, {"choices": []}, {"choices": [{}]}], ids=str)
def test_what_is_no_completion_is_an_error(server: Server, tmp_path: Path, reply: Any) -> None:
    server.replies = [(200, reply)]
    with pytest.raises(ValueError, match="no chat completion"):
        judge(server.url, tmp_path)([CASE])


def test_a_judge_without_an_endpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"judge\.endpoint is null: name the service"):
        build_endpoint_judge(block(Judge, endpoint=None), tmp_path / "answers.jsonl")


def test_a_missing_key_and_a_strange_address_are_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY)
    with pytest.raises(ValueError, match=f"environment variable {KEY} is not set"):
        judge(server.url, tmp_path)([CASE])
    with pytest.raises(ValueError, match="neither an http nor an https address"):
        judge("file:///etc", tmp_path)


def test_a_line_that_a_kill_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answers.jsonl"
    AnswerFile(path).add("a", "m", "é 1")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:9])
    opened = AnswerFile(path)
    assert "a" in opened and opened["a"] == "é 1"
    opened.add("b", "m", "2")
    assert AnswerFile(path)["b"] == "2"
    assert path.read_bytes().startswith(whole)


def test_answers_are_lines_that_end_at_newlines_alone(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    for text in ("a\u2028b", "a\x85b", "a\x1cb\r"):
        AnswerFile(path).add(text, "m", text)
    assert [AnswerFile(path)[text] for text in ("a\u2028b", "a\x1cb\r")] == ["a\u2028b", "a\x1cb\r"]
    with path.open("a") as file:
        file.write("{}\n")
    with pytest.raises(ValueError, match=r"answers\.jsonl: line 4: no answer"):
        AnswerFile(path)
