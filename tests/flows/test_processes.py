"""Processes without DVC: a stage that runs already, and a stage that starts after the stop."""

import fcntl
from pathlib import Path

from flows.processes import Processes


def test_logs_of_every_profile_stand_apart() -> None:
    processes = Processes(Path("logs"))
    assert processes.log("train@a-0") == Path("logs/train@a-0.log")
    assert processes.log("profiles/mini/dvc.yaml:train@a-0") == Path(
        "logs/profiles/mini/train@a-0.log"
    )


def test_a_stage_of_an_earlier_start_is_not_run_twice(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    with log.open("w") as held:
        held.write("round 3\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        cause = Processes(tmp_path).run("train")
    assert cause == f"runs already, from an earlier start; see {log}"
    assert log.read_text() == "round 3\n"


def test_nothing_begins_after_the_stop(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.stop()
    assert processes.run("train") == "stopped"
