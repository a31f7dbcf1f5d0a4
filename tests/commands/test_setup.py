"""Which Python `make setup` takes, and what it says where there is none."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cosearch.commands.doctor import PYTHON

ROOT = Path(__file__).parents[2]


def run_make(*words: str, at: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make in a folder, apart from the make that may run the tests."""
    make = shutil.which("make")
    assert make is not None
    environment = {name: v for name, v in os.environ.items() if not name.startswith("MAKE")}
    environment |= {"UV_FIND_LINKS": "nowhere", "MFLAGS": "", **variables}
    return subprocess.run([make, *words], cwd=at, env=environment, capture_output=True, text=True)


def make_venv(folder: Path, *pythons: str) -> subprocess.CompletedProcess[str]:
    """Run the rule for .venv in an environment in which nothing is on the PATH."""
    words = [f"PYTHON={' '.join(pythons)}", f"{folder}/.venv/bin/python"]
    return run_make(f"VENV={folder}/.venv", *words, PATH=str(folder))


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines in which a failed command says what is wrong."""
    assert done.returncode != 0
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def test_the_first_python_that_fits_is_taken_and_named(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")  # as a Python of another version answers
    old.chmod(0o755)
    done = make_venv(tmp_path, "absent", str(old), sys.executable)
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()
    version = ".".join(map(str, sys.version_info[:3]))
    assert said == f"{tmp_path}/.venv: made with Python {version}, which is {sys.executable}"
    made = [tmp_path / ".venv/bin/python", "-c", "import sys; print(sys.version_info[:2])"]
    told = subprocess.run(made, capture_output=True, text=True, check=True).stdout
    assert PYTHON[0] <= ast.literal_eval(told) < PYTHON[1]


def test_without_python_and_uv_one_line_says_what_to_do(tmp_path: Path) -> None:
    (said,) = complaints(make_venv(tmp_path, "absent", "python3.10"))
    assert "no Python 3.11 or 3.12" in said and "absent python3.10" in said
    assert not (tmp_path / ".venv").exists()


def test_a_python_whose_path_has_a_blank_is_taken(tmp_path: Path) -> None:
    python = tmp_path / "my python"
    python.symlink_to(sys.executable)
    done = make_venv(tmp_path, str(python))
    assert done.returncode == 0 and done.stdout.endswith(f", which is {python}\n"), done.stderr


def test_a_copy_without_git_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    for name in (
        "Makefile",
        "pyproject.toml",
        "constraints-cpu.txt",
        "params.yaml",
        "profile.yaml",
    ):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for goal in ("setup", "repro"):
        (said,) = complaints(run_make(goal, at=tmp_path, GIT_CEILING_DIRECTORIES="/"))
        assert "DVC needs git and a git repository here" in said and "git init" in said
    assert not (tmp_path / ".venv").exists()


def test_data_may_lie_in_a_folder_with_a_blank(tmp_path: Path) -> None:
    data, venv = tmp_path / "my data", tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    data.mkdir()
    told = tmp_path / "told"
    for tool in ("python", "dvc"):  # what make starts, which here says where the data is
        (venv / "bin" / tool).write_text(f'#!/bin/sh\necho "{tool} $COSEARCH_DATA" >> {told}\n')
        (venv / "bin" / tool).chmod(0o755)
    (venv / ".stamp-cpu-dev").touch()
    project = tmp_path / "project"  # make leaves links in the profile's folder
    (project / "profiles/mini").mkdir(parents=True)
    shutil.copyfile(ROOT / "Makefile", project / "Makefile")
    (project / "rows.yaml").touch()
    words = [f"VENV={venv}", "-o", "rows.yaml"]
    done = run_make(*words, "mini", f"DATA={data}", at=project)
    assert done.returncode == 0, done.stderr
    assert f"dvc {data}" in told.read_text().splitlines()
    (said,) = complaints(run_make(*words, "mini", f"DATA={data}s", at=project))
    assert said == f"error: DATA={data}s: no such folder"


def test_an_environment_with_a_blank_is_refused(tmp_path: Path) -> None:
    done = run_make("setup", f"VENV={tmp_path}/my venv")
    assert done.returncode != 0 and "this path has a blank" in done.stderr
