"""What watches a stage: complete where it is heard, silent and free where it is not."""

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosearch.run.events import (
    Advanced,
    Began,
    DocumentPublished,
    Ended,
    Entered,
    Left,
    RoundBegan,
    RoundEnded,
    TablePublished,
)
from cosearch.run.monitors import queue
from cosearch.run.monitors.journal import Journal
from cosearch.run.monitors.prefect import PARENT_RUN, PARENT_TASK, PrefectMonitor, StageRun
from cosearch.run.monitors.queue import Courier
from cosearch.run.monitors.rest import Refused, Rest, credentials
from cosearch.run.monitors.scalars import TRACKERS, Scalars
from tests.engines.servers import Server, serving
from tests.environments import environment_beside

STAGE = [
    Began("train@co_search-0", "tiny"),
    RoundBegan(1),
    Entered("rollout"),
    Left("rollout", failed=False),
    Entered("update_agent"),
    Left("update_agent", failed=False),
    Entered("update_agent"),
    Left("update_agent", failed=False),
    RoundEnded(1, {"round": 1.0, "r_main": 0.25}),
    Advanced("train@co_search-0", 1, 2, "r_main=0.25"),
    RoundBegan(2),
    Entered("rollout"),
    RoundEnded(2, {"round": 2.0, "r_main": 0.5}),
    Advanced("train@co_search-0", 2, 2, "r_main=0.5"),
    DocumentPublished("Report", "# Report", "report.md"),
    TablePublished("Scores", [{"set": "average", "f1": 0.25}, {"set": "nq", "f1": 0.5}]),
    Ended("the disk is full"),
]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def delivered(server: Server) -> StageRun:
    """A run that was told all of ``STAGE``, one call after the other."""
    run = StageRun(Rest(server.url, {}, 5.0), ["cosearch", "workspace:x"], None)
    for event in STAGE:
        run.deliver(event)
    return run


def test_a_round_and_phase_is_one_task_run_in_a_chain(server: Server) -> None:
    delivered(server)
    tasks = server.bodies("/task_runs/")
    names = ["round 1 rollout", "round 1 update_agent", "round 2 rollout"]
    assert [task["name"] for task in tasks] == names
    after = [task["task_inputs"] for task in tasks]
    assert after[0] == {}
    for number in (1, 2):
        assert after[number]["after"][0]["id"] == tasks[number - 1]["id"]
    again = server.bodies(f"/task_runs/{tasks[1]['id']}/set_state")
    states = [body["state"]["type"] for body in again]
    assert states == ["COMPLETED", "RUNNING", "COMPLETED"]


def test_a_failure_ends_what_runs_with_its_cause(server: Server) -> None:
    run = delivered(server)
    task = server.bodies("/task_runs/")[-1]
    for path in (f"/task_runs/{task['id']}/set_state", f"/flow_runs/{run.id}/set_state"):
        state = server.bodies(path)[-1]["state"]
        assert (state["type"], state["message"]) == ("FAILED", "the disk is full")
    assert server.bodies("/logs/")[-1][0]["level"] == 40


def test_a_stage_that_was_stopped_is_cancelled(server: Server) -> None:
    run = StageRun(Rest(server.url, {}, 5.0), ["cosearch", "workspace:x"], None)
    for event in (STAGE[0], Ended("stopped", stopped=True)):
        run.deliver(event)
    assert server.bodies(f"/flow_runs/{run.id}/set_state")[0]["state"]["type"] == "CANCELLED"


def test_progress_moves_one_artifact_and_each_round_has_a_table(server: Server) -> None:
    delivered(server)
    made = server.bodies("/artifacts/")
    assert [(body["key"], body["type"]) for body in made] == [
        ("train-co-search-0-metrics", "table"),
        ("train-co-search-0-progress", "progress"),
        ("train-co-search-0-metrics", "table"),
        ("train-co-search-0-report", "markdown"),
        ("train-co-search-0-table", "table"),
    ]
    assert json.loads(made[4]["data"])[1] == {"set": "nq", "f1": 0.5}
    assert made[4]["description"] == "Scores"
    assert server.bodies("/logs/")[-2][0]["message"] == "Scores: set=average f1=0.25"
    assert json.loads(made[2]["data"]) == [{"metric": "r_main", "value": 0.5, "round before": 0.25}]
    moved = [body for method, _, body in server.asked if method == "PATCH"]
    assert [body["data"] for body in moved] == [100.0]


def test_runs_that_a_kill_left_behind_are_ended(server: Server) -> None:
    delivered(server)
    chosen = server.bodies("/flow_runs/filter")[0]["flow_runs"]
    assert chosen["name"] == {"any_": ["train@co_search-0"]}
    assert chosen["tags"] == {"all_": ["cosearch", "workspace:x", "profile:tiny"]}
    assert server.bodies("/flow_runs/old/set_state")[0]["state"]["type"] == "CRASHED"


def test_a_stage_of_a_flow_and_its_task_lead_to_each_other(server: Server) -> None:
    said: list[str] = []
    environment = {"PREFECT_API_URL": server.url, PARENT_RUN: "blue-owl", PARENT_TASK: "t1"}
    environment["PREFECT_API_KEY"] = "secret"
    monitor = PrefectMonitor(environment, "x", said.append)
    for event in (STAGE[0], Ended("")):
        monitor.tell(event)
    run = server.bodies("/flow_runs/")[0]
    assert "reproduce:blue-owl" in run["tags"]
    there, back = server.bodies("/artifacts/")
    page = server.url.removesuffix("/api")
    assert (there["task_run_id"], back["flow_run_id"]) == ("t1", monitor.run.id)
    assert there["data"] == f"[train@co_search-0]({page}/runs/flow-run/{monitor.run.id})"
    assert back["data"].endswith(f"({page}/runs/task-run/t1)")
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert (monitor.dropped, said) == (0, [])


def test_a_run_whose_beginning_was_lost_is_made_later(server: Server) -> None:
    run = StageRun(Rest(server.url, {}, 5.0), ["cosearch", "workspace:x"], None)
    server.broken = True
    with pytest.raises(Refused, match=r"503 .*locked"):
        run.deliver(STAGE[0])
    server.broken = False
    run.deliver(Entered("rollout"))
    assert server.bodies("/task_runs/")[0]["flow_run_id"] == run.id is not None


def test_a_server_that_hangs_holds_nobody_up(server: Server) -> None:
    said: list[str] = []
    monitor = PrefectMonitor({"PREFECT_API_URL": server.url}, "x", said.append)
    server.gate.clear()
    monitor.tell(STAGE[0])
    assert server.waiting.wait(60)
    for number in range(3000):
        monitor.tell(RoundBegan(number))
    assert monitor.dropped == 2000
    assert said == ["warning: the monitor misses messages, 1 so far (it is too slow)"]


def test_no_server_is_no_news(tmp_path: Path) -> None:
    with serving() as gone:
        url = gone.url
    said: list[str] = []
    monitor = PrefectMonitor({"PREFECT_API_URL": url}, "x", said.append)
    for event in STAGE:
        monitor.tell(event)
    assert (monitor.dropped, said) == (0, [])


def test_a_warning_comes_once_a_minute_and_a_pause_follows_a_failure() -> None:
    now = [0.0]
    said: list[str] = []
    handled: list[int] = []
    seen = threading.Semaphore(0)

    def deliver(item: int) -> None:
        handled.append(item)
        seen.release()
        raise OSError("gone")

    courier = Courier(deliver, said.append, size=10, clock=lambda: now[0], retries=())
    courier.put(1)
    assert seen.acquire(timeout=60)
    now[0] += 2 * queue.PAUSE_SECONDS
    courier.close(2, 60.0)
    courier._thread.join(60)
    assert courier.dropped == 2
    assert said == ["warning: the monitor misses messages, 1 so far (OSError: gone)"]
    assert handled[0] == 1


def test_a_delivery_that_fails_is_tried_again() -> None:
    tries: list[int] = []

    def deliver(item: int) -> None:
        tries.append(item)
        if len(tries) < 3:
            raise OSError("locked")

    courier = Courier(deliver, print, size=10, retries=(0.0, 0.0))
    courier.close(7, 60.0)
    assert tries == [7, 7, 7] and courier.dropped == 0


def test_items_arrive_in_order_and_the_last_before_the_end() -> None:
    arrived: list[int] = []
    courier = Courier(arrived.append, print, size=1000)
    for number in range(499):
        courier.put(number)
    courier.close(499, 60.0)
    assert arrived == list(range(500)) and courier.dropped == 0


def test_the_end_of_a_stage_comes_before_what_a_slow_server_left_behind() -> None:
    gate, begun = threading.Event(), threading.Event()
    arrived: list[int] = []

    def deliver(item: int) -> None:
        begun.set()
        gate.wait(60)
        arrived.append(item)

    said: list[str] = []
    courier = Courier(deliver, said.append, size=10)
    for number in range(5):
        courier.put(number)
    assert begun.wait(60)
    courier.close(99, 0.01)
    gate.set()
    courier._thread.join(60)
    assert (arrived, courier.dropped) == ([0, 99], 4)
    assert said == ["warning: the monitor misses messages, 1 so far (it is too slow)"]


def test_credentials_are_those_of_prefect() -> None:
    assert credentials({}) == {}
    assert credentials({"PREFECT_API_AUTH_STRING": "a:b"}) == {"Authorization": "Basic YTpi"}


def test_the_journal_keeps_every_event(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "train.jsonl"
    for event in STAGE:
        Journal(path, clock=lambda: 5.0).tell(event)
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    names = [type(event).__name__.removeprefix("Document") for event in STAGE]
    assert [row["event"] for row in rows] == names and "Published" in names
    assert rows[8]["metrics"] == {"round": 1.0, "r_main": 0.25} and rows[0]["time"] == 5.0


def test_a_journal_that_cannot_be_written_is_let_be(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    Journal(tmp_path / "logs" / "train.jsonl").tell(STAGE[0])
    assert (tmp_path / "logs").read_text() == "a file where the folder should be"


def test_scalars_are_those_of_the_rounds(tmp_path: Path) -> None:
    said: list[str] = []
    scalars = Scalars("tensorboard", tmp_path, said.append)
    for event in STAGE:
        scalars.tell(event)
    files = list((tmp_path / "tiny/train@co_search-0").iterdir())
    assert b"".join(path.read_bytes() for path in files).count(b"r_main") == 2
    assert said == []


def test_a_stage_without_rounds_opens_no_run(tmp_path: Path) -> None:
    scalars = Scalars("tensorboard", tmp_path / "scalars", print)
    for event in (STAGE[0], Ended("")):
        scalars.tell(event)
    assert not (tmp_path / "scalars").exists()


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_without_its_package_is_told_in_one_line(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "tensorboardX", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match=rf"names {tracker}, .*'cosearch\[{tracker}\]'"):
        Scalars(tracker, tmp_path, print)


KEEP = """
import sys
from pathlib import Path
from cosearch.run.events import Began, Ended, RoundEnded
from cosearch.run.monitors.choice import monitor_of

monitor = monitor_of(
    Path("journal"), trackers=["mlflow", "wandb"], folder=Path("kept"), say=sys.exit
)
monitor.tell(Began("train@cosearch-0", "tiny"))
for number in (1, 2):
    monitor.tell(RoundEnded(number, {"round": number, "r_main": number / 4}))
monitor.tell(Ended(""))

from mlflow import MlflowClient

client = MlflowClient("sqlite:///kept/mlflow.db")
(run,) = client.search_runs([client.get_experiment_by_name("cosearch").experiment_id])
history = client.get_metric_history(run.info.run_id, "r_main")
assert (run.info.run_name, run.info.status) == ("train@cosearch-0", "FINISHED"), run
assert [(one.step, one.value) for one in history] == [(1, 0.25), (2, 0.5)], history
assert run.data.tags["profile"] == "tiny"
"""


@pytest.mark.extended
def test_mlflow_and_wandb_keep_the_rounds_without_a_server(tmp_path: Path) -> None:
    python = environment_beside(tmp_path / "venv", "mlflow-skinny", "wandb")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    kept |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([str(python), "-c", KEEP], cwd=tmp_path, env=kept, check=True)
    (log,) = (tmp_path / "kept/wandb").glob("offline-run-*/run-*.wandb")
    assert b"r_main" in log.read_bytes()


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/api"])
def test_a_stage_imports_no_prefect(url: str | None, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from cosearch.run.events import Ended;"
        "from cosearch.run.monitors.choice import monitor_of;"
        "monitor_of(Path('j'), trackers=(), folder=Path('s'), say=print).tell(Ended(''));"
        "sys.exit('prefect' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    environment |= {"PREFECT_API_URL": url} if url else {}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment)
    assert done.returncode == 0
