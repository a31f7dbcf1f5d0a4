"""The status of stages that run, died, stopped or ended."""

import hashlib
from pathlib import Path

import pytest

from cosearch.__main__ import main
from cosearch.commands.status import status
from cosearch.files.artifacts import Paths, write_json, write_text
from cosearch.run.events import Advanced, Alive, Ended
from cosearch.run.lease import Lease
from cosearch.run.progress import Progress


class Clock:
    """A clock that tests move."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_running_stage_says_where_it_is(tmp_path: Path) -> None:
    clock = Clock()
    folder = tmp_path / "tiny" / "train@cosearch-0"
    with Lease(folder, clock) as lease, Progress() as progress:
        progress.follow = lease.tell
        progress.show("train", 2, 10, "rollout")
        clock.now += 60
        progress.show("train", 4, 10, "update")
        clock.now += 5
        (line,) = status(tmp_path, clock.now)
    assert line.startswith(
        "tiny/train@cosearch-0: runs, at 4 of 10, update, about 0:03:00 left, heard of 0:00:05 ago"
    )
    assert status(tmp_path, clock.now) == []


def test_a_lease_is_written_once_a_second_at_most(tmp_path: Path) -> None:
    clock = Clock()
    with Lease(tmp_path / "tiny" / "encode", clock) as lease:
        clock.now += 0.5
        lease.tell(Advanced("encode", 1, 2, "too early"))
        assert "starting" in status(tmp_path, clock.now)[0]
        clock.now += 0.5
        lease.tell(Alive("now"))
        assert "at 1 of 2, now" in status(tmp_path, clock.now)[0]


def test_a_dead_stage_is_told_from_one_that_lives(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "tiny" / "index", Clock())
    lease.__enter__()
    lease._lock.close()  # what the system does when the process is killed
    (line,) = status(tmp_path, 1003.0)
    assert line.startswith("tiny/index: DIED 0:00:03 ago, starting, pid ")
    assert line.endswith("the same command goes on from its state")


def test_a_stopped_stage_says_why(tmp_path: Path) -> None:
    with pytest.raises(OSError), Lease(tmp_path / "tiny" / "index", Clock()):
        raise OSError("no space\nleft")
    assert status(tmp_path, 1003.0) == ["tiny/index: stopped, starting: no space left"]


def test_a_stage_that_was_told_to_end_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), Lease(tmp_path / "tiny" / "index", Clock()) as lease:
        lease.tell(Ended("stopped; start it again to go on", stopped=True))
        raise SystemExit(143)
    (line,) = status(tmp_path, 1003.0)
    assert line == "tiny/index: stopped, starting: stopped; start it again to go on"


def test_a_second_run_of_a_stage_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ValueError, match="another process runs this stage")
    with Lease(tmp_path / "index"), refused:
        Lease(tmp_path / "index").__enter__()
    with Lease(tmp_path / "index"):
        pass


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file")
    with pytest.raises(ValueError, match="index: cannot be written"):
        Lease(tmp_path / "index").__enter__()


def test_what_is_no_lease_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tiny" / "x").mkdir(parents=True)
    (tmp_path / "tiny" / "x" / "lease.json").write_text("{")
    assert status(tmp_path, 0.0) == []


def die(profile: str, title: str) -> None:
    """Leave the lease of a stage whose process was killed."""
    lease = Lease(Paths(profile).run(title, "lease").parent)
    lease.__enter__()
    lease._lock.close()


def test_what_is_over_is_told_no_more(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = Paths("tiny")
    for place in ("tiny/train@gone-0", "huge/train@cosearch-0", "tiny/index", "mini/encode"):
        die(*place.split("/"))
    with Lease(paths.run("gate@gone-0", "lease").parent):
        main(["status"])
        told = capsys.readouterr().out
    places = [line.split(": ")[0] for line in told.splitlines()]
    assert places == ["mini/encode", "tiny/gate@gone-0", "tiny/index"]
    identity = paths.identity("index")
    write_text(identity, "{}")
    hashed = hashlib.md5(identity.read_bytes()).hexdigest()
    deps = [{"path": identity.as_posix(), "md5": hashed}]
    entry = {"deps": deps, "outs": [{"path": paths.index.as_posix()}]}
    write_json(project / "dvc.lock", {"stages": {"index": entry}})
    main(["status"])
    assert "tiny/index: DIED" in capsys.readouterr().out  # its output is not there
    paths.index.mkdir()
    main(["status"])
    assert "tiny/index" not in capsys.readouterr().out


def test_wrong_parameters_hide_no_stage(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    die("tiny", "train@gone-0")
    Paths("tiny").identity("data").parent.mkdir(parents=True)
    write_text(Paths("tiny").identity("data"), "{}")
    write_text(project / "params.yaml", "rows: [")
    with pytest.raises(SystemExit, match=r"error: params\.yaml: "):
        main(["status"])
    assert "tiny/train@gone-0: DIED" in capsys.readouterr().out
