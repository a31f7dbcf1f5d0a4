"""A small project and a way to run its stages in children of this process, which kill themselves.

Children are forked from a server that has imported what is heavy and computed nothing: a fork of a
process that trained before, as this one may have, has lost torch's threads and waits for them. The
product's code is as it is: a child alone wraps a named function, or counts the calls of our code.
"""

import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cosearch.params.rows_file import write_rows
from cosearch.params.settings import load_settings
from tests.pipeline.project import ROOT, SETS
from tests.settings import write_params

OURS = f"{ROOT / 'cosearch'}{os.sep}"
Prepare = Callable[[], object]
"""What a child does first; it must pickle."""
HEAVY = (
    *("transformers.models.bert.modeling_bert", "transformers.models.qwen2.modeling_qwen2"),
    *(f"cosearch.engines.retrieval.{name}" for name in ("encoder", "retriever_faiss")),
    *(
        f"cosearch.engines.policies.{name}"
        for name in ("heads", "codec_hf", "generator_hf", "trainer_torch")
    ),
    *(
        f"stages.{name}"
        for name in ("identity", "data", "encode", "index", "train", "fixed_ranker", "evaluate")
    ),
)
"""What every child would import anew."""
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([*HEAVY])


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, negative for a signal, and what it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Lab:
    """A project's folder."""

    folder: Path

    def stage(self, name: str, *words: str, prepare: Prepare | None = None) -> Ended:
        """Run a stage in a child that calls ``prepare`` first."""
        spoken = self.folder / f".said-{name}"
        arguments = (self.folder, name, words, prepare, spoken, dict(os.environ))
        child = SERVER.Process(target=_become, args=arguments)
        child.start()
        child.join()
        assert child.exitcode is not None
        return Ended(child.exitcode, spoken.read_text("utf-8", "replace"))

    def bytes_of(self, pattern: str) -> dict[str, bytes]:
        """Contents of the files below artifacts/tiny that match."""
        root = self.folder / "artifacts" / "tiny"
        found = (path for path in sorted(root.glob(pattern)) if path.is_file())
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}

    def copy(self, folder: Path, *, without: str) -> "Lab":
        """The project again, with nothing under way and one output to be made anew."""
        shutil.copytree(self.folder, folder, symlinks=True, ignore=_PASSING, copy_function=os.link)
        shutil.rmtree(folder / "artifacts" / "tiny" / without)
        return Lab(folder)

    def change(self, **values: Any) -> None:
        """Set parameters of the profile, and make the identities that they belong to."""
        path = self.folder / "params.yaml"
        params = yaml.safe_load(path.read_text("utf-8"))
        for key, value in values.items():
            block, name = key.split(".")
            params["profiles"]["tiny"][block][name] = value
        path.unlink()  # a hard link to the undisturbed project's
        path.write_text(yaml.safe_dump(params, sort_keys=False), "utf-8")
        shutil.rmtree(self.folder / "artifacts/tiny/identity")
        ended = self.stage("identity")
        assert ended.code == 0, ended.said


def _become(
    folder: Path,
    name: str,
    words: tuple[str, ...],
    prepare: Prepare | None,
    spoken: Path,
    environment: dict[str, str],
) -> None:
    """Be that stage and nothing else; never returns."""
    code = 70
    try:
        target = os.open(spoken, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, 1)
        os.dup2(target, 2)
        sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
        sys.stderr = sys.__stderr__ = os.fdopen(2, "w", closefd=False)
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = [name, "--profile", "tiny", *words]
        module = importlib.import_module(f"stages.{name}")
        if prepare is not None:
            prepare()
        module.main()
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


_PASSING = shutil.ignore_patterns(".runs", ".said-*", "timing")


def _exit_code(end: SystemExit) -> int:
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
        return 1
    return end.code or 0


def make_lab(folder: Path) -> Lab:
    """The shipped models under the smallest parameters that still have every part."""
    folder.mkdir(parents=True, exist_ok=True)
    path = write_params(folder, _shrink)
    shutil.copyfile(ROOT / "profile.yaml", folder / "profile.yaml")
    write_rows(load_settings("tiny", path), folder)
    (folder / "models").symlink_to(ROOT / "models")
    return Lab(folder)


def _shrink(params: dict[str, Any]) -> None:
    params["seed_count"] = 1
    tiny = params["profiles"]["tiny"]
    for name in SETS:
        tiny["data"]["sets"][name] |= {"train": 4, "dev": 1, "test": 1}
    tiny["data"]["sets"]["bamboogle"] |= {"test": 1}
    tiny["encoder"] |= {"shard_size": 64}
    tiny["train"] |= {
        "rounds": 2, "questions": 4, "update_questions": 2, "dev_every": 1, "shard_questions": 2,
    }  # fmt: skip
    tiny["evaluate"] |= {"shard_questions": 3}
    tiny["fixed_ranker"] |= {"rounds": 2, "questions": 3, "lists": 8}
    tiny["method"] |= {"rollout.group_size": 3}


def kill_at(where: str, nth: int, *, after: bool = False) -> Prepare:
    """Wrap ``module:Class.function`` to die by SIGKILL at its ``nth`` call, or after it."""
    return partial(_wrap, where, nth, after)


def _wrap(where: str, nth: int, after: bool) -> None:
    module, _, path = where.partition(":")
    owner: Any = importlib.import_module(module)
    *above, name = path.split(".")
    for part in above:
        owner = getattr(owner, part)
    original, calls = getattr(owner, name), 0

    def dying(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            die()
        result = original(*arguments, **more)
        if calls == nth:
            die()
        return result

    setattr(owner, name, dying)


def kill_at_event(count: int) -> Prepare:
    """Die by SIGKILL when our code has made its ``count``-th call."""
    return partial(_count_down, count)


def _count_down(left: int) -> None:
    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            left -= 1
            if not left:
                die()

    sys.setprofile(watch)


def limit_files(size: int) -> Prepare:
    """A disk that takes no file larger than ``size`` bytes."""
    return partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))


def die() -> None:
    """SIGKILL, as from outside."""
    os.kill(os.getpid(), signal.SIGKILL)
