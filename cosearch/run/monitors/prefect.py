"""Shows a stage as a Prefect flow run: a task run per round and phase, artifacts for its news.

A daemon thread behind a bounded queue sends everything. If the server is slow, locked or down,
messages get lost, but the stage never waits.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cosearch.run.events import (
    Advanced,
    Alive,
    Began,
    DocumentPublished,
    Ended,
    Entered,
    Event,
    Left,
    RoundBegan,
    RoundEnded,
    TablePublished,
    TrainingDiverged,
)
from cosearch.run.monitors.queue import Courier
from cosearch.run.monitors.rest import Rest, credentials

QUEUE_SIZE = 1000
CALL_SECONDS = 5.0
PROGRESS_SECONDS = 2.0
"""Seconds between two updates of a progress artifact."""
LAST_SECONDS = 3.0
"""Seconds that a stage waits at its end for the queued messages, and again for the message of its
end."""
PARENT_RUN, PARENT_TASK = "COSEARCH_FLOW_RUN", "COSEARCH_TASK_RUN"
"""Environment variables in which the reproduce flow passes the name of its run and the id of the
stage's task run."""


class PrefectMonitor:
    """Reports one stage to a Prefect server.

    ``workspace`` is a tag that separates the runs of this folder from those of other folders.
    ``say`` prints a warning.
    """

    def __init__(
        self, environment: Mapping[str, str], workspace: str, say: Callable[[str], None]
    ) -> None:
        rest = Rest(environment["PREFECT_API_URL"], credentials(environment), CALL_SECONDS)
        tags = ["cosearch", f"workspace:{workspace}"]
        if run := environment.get(PARENT_RUN):
            tags.append(f"reproduce:{run}")
        self.run = StageRun(rest, tags, environment.get(PARENT_TASK))
        self._courier: Courier[Event] = Courier(
            self.run.deliver, say, size=QUEUE_SIZE, open=rest.alive
        )
        self._moved: dict[str, float] = {}

    @property
    def dropped(self) -> int:
        """Number of messages that were not delivered."""
        return self._courier.dropped

    def tell(self, event: Event) -> None:
        """Queue an event. Progress is sent at most every ``PROGRESS_SECONDS``, except the first and
        last."""
        if isinstance(event, Alive):  # there are many per minute, and the lease keeps the last one
            return
        if isinstance(event, Advanced) and 0 < event.done < event.total:
            now = time.monotonic()
            if now - self._moved.get(event.task, float("-inf")) < PROGRESS_SECONDS:
                return
            self._moved[event.task] = now
        if isinstance(event, Ended):
            self._courier.close(event, LAST_SECONDS)
        else:
            self._courier.put(event)


@dataclass(slots=True)
class StageRun:
    """The flow run of one stage on the server. Only one thread may use it."""

    rest: Rest
    tags: list[str]
    parent: str | None
    began: Began | None = None
    id: str | None = None
    number: int = 0
    _phases: dict[tuple[int, str], str] = field(default_factory=dict)
    _running: dict[str, str] = field(default_factory=dict)
    _last: str | None = None
    _artifacts: dict[str, str] = field(default_factory=dict)
    _before: Mapping[str, float] = field(default_factory=dict)

    def deliver(self, event: Event) -> None:
        """Send one event. Raises what ``Rest.call`` raises."""
        match event:
            case Began():
                self.began = event
                self._open()
            case Entered():
                self._enter(event.phase)
            case Left():
                self._leave(event)
            case Advanced():
                self._advance(event)
            case RoundBegan():
                self.number = event.number
            case RoundEnded():
                self._measure(event)
            case TrainingDiverged():
                self._diverge(event)
            case DocumentPublished():
                self._publish(event)
            case TablePublished():
                self._publish_table(event)
            case Ended():
                self._end(event)

    def _open(self) -> str:
        """The id of the flow run. The first call that reaches the server creates the run."""
        if self.id is not None or self.began is None:
            return self.id or ""
        flow = self.rest.call("POST", "/flows/", {"name": self.began.stage.partition("@")[0]})
        self._bury()
        body = {
            "flow_id": flow["id"],
            "name": self.began.stage,
            "parameters": {"stage": self.began.stage, "profile": self.began.profile},
            "tags": [*self.tags, f"profile:{self.began.profile}"],
            "state": _state("RUNNING"),
        }
        made: str = self.rest.call("POST", "/flow_runs/", body)["id"]
        self.id = made
        if self.parent:
            self._link(made, self.parent)
        return made

    def _link(self, run: str, task: str) -> None:
        """Add a link from the flow's task run to this run, and one back.

        Prefect's own way would be a subflow. It would replace the task in the graph of the flow,
        and the graph would lose the edges of the task.
        """
        assert self.began is not None
        key, page = _key(self.began.stage, "run"), self.rest.url.rstrip("/").removesuffix("/api")
        for owner, name, path in (
            ({"task_run_id": task}, self.began.stage, f"flow-run/{run}"),
            ({"flow_run_id": run}, "its task in the reproduce flow", f"task-run/{task}"),
        ):
            body = {"key": key, "type": "markdown", "data": f"[{name}]({page}/runs/{path})"}
            self.rest.call("POST", "/artifacts/", {**body, **owner})

    def _bury(self) -> None:
        """Mark older runs of this stage as crashed. The server shows a killed run as Running for
        ever."""
        assert self.began is not None
        chosen = {
            "name": {"any_": [self.began.stage]},
            "tags": {"all_": [*self.tags[:2], f"profile:{self.began.profile}"]},
            "state": {"type": {"any_": ["RUNNING"]}},
        }
        for run in self.rest.call("POST", "/flow_runs/filter", {"flow_runs": chosen}):
            self._set("flow", run["id"], "CRASHED", "killed; a later run went on")

    def _enter(self, phase: str) -> None:
        key = (self.number, phase)
        if key in self._phases:
            self._set("task", self._phases[key], "RUNNING")
        else:
            made = str(uuid.uuid4())
            after = [{"input_type": "task_run", "id": self._last}] if self._last else []
            body = {
                "id": made,
                "flow_run_id": self._open(),
                "name": f"round {self.number} {phase}" if self.number else phase,
                "task_key": phase,
                "dynamic_key": str(self.number),
                "task_inputs": {"after": after} if after else {},
                "state": _state("RUNNING"),
            }
            self.rest.call("POST", "/task_runs/", body)
            self._phases[key] = self._last = made
        self._running[phase] = self._phases[key]

    def _leave(self, event: Left) -> None:
        if made := self._running.pop(event.phase, None):
            self._set("task", made, "FAILED" if event.failed else "COMPLETED")

    def _advance(self, event: Advanced) -> None:
        share = min(100.0, 100.0 * event.done / max(1, event.total))
        text = f"{event.task}: {event.done}/{event.total} {event.note}".rstrip()
        key = _key(event.task, "progress")
        if key in self._artifacts:
            body = {"data": share, "description": text}
            self.rest.call("PATCH", f"/artifacts/{self._artifacts[key]}", body)
        else:
            self._artifacts[key] = self._artifact(key, "progress", share, text)

    def _measure(self, event: RoundEnded) -> None:
        rows = [
            {"metric": name, "value": value, "round before": self._before.get(name)}
            for name, value in event.metrics.items()
            if name != "round"
        ]
        assert self.began is not None
        title = f"Metrics of round {event.number}"
        self._artifact(_key(self.began.stage, "metrics"), "table", json.dumps(rows), title)
        self._before = event.metrics
        words = (f"{name}={value:.4g}" for name, value in event.metrics.items())
        self._log(f"round {event.number}: {' '.join(words)}")

    def _diverge(self, event: TrainingDiverged) -> None:
        """Emit an event of Prefect, for which an automation may wait."""
        assert self.began is not None
        stage, run = self.began.stage, {"prefect.resource.id": f"prefect.flow-run.{self._open()}"}
        told = {
            "id": str(uuid.uuid4()),
            "occurred": datetime.now(UTC).isoformat(),
            "event": "cosearch.training.diverged",
            "resource": {
                "prefect.resource.id": f"cosearch.stage.{self.began.profile}.{stage}",
                "prefect.resource.name": stage,
            },
            "related": [{**run, "prefect.resource.role": "flow-run"}],
            "payload": {"round": event.number, "reason": event.reason},
        }
        self.rest.call("POST", "/events", [told])
        self._log(f"diverged in round {event.number}: {event.reason}", level=30)

    def _publish(self, event: DocumentPublished) -> None:
        assert self.began is not None
        self._artifact(_key(self.began.stage, "report"), "markdown", event.markdown, event.title)
        self._log(f"{event.title}: {event.place}")

    def _publish_table(self, event: TablePublished) -> None:
        assert self.began is not None
        data = json.dumps(list(map(dict, event.rows)))
        self._artifact(_key(self.began.stage, "table"), "table", data, event.title)
        for row in event.rows[:1]:
            words = " ".join(f"{name}={_short(value)}" for name, value in row.items())
            self._log(f"{event.title}: {words}")

    def _end(self, event: Ended) -> None:
        cause = event.cause
        kind = "CANCELLED" if event.stopped else "FAILED" if cause else "COMPLETED"
        for made in self._running.values():
            self._set("task", made, kind, cause)
        if cause:
            self._log(cause, level=40)
        self._set("flow", self._open(), kind, cause)

    def _artifact(self, key: str, kind: str, data: object, text: str) -> str:
        body = {
            "key": key,
            "type": kind,
            "data": data,
            "description": text,
            "flow_run_id": self._open(),
        }
        made: str = self.rest.call("POST", "/artifacts/", body)["id"]
        return made

    def _log(self, message: str, level: int = 20) -> None:
        line = {
            "name": "cosearch",
            "level": level,
            "message": message,
            "timestamp": datetime.now(UTC).isoformat(),
            "flow_run_id": self._open(),
        }
        self.rest.call("POST", "/logs/", [line])

    def _set(self, what: str, made: str, kind: str, message: str = "") -> None:
        body = {"state": _state(kind, message), "force": True}
        self.rest.call("POST", f"/{what}_runs/{made}/set_state", body)


def _state(kind: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "name": kind.capitalize(), "message": message or None}


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _key(*parts: str) -> str:
    """The key of an artifact. Prefect allows lower case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
