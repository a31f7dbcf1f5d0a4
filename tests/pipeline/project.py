"""A whole project of its own in a temporary folder: the real graph and models, micro parameters."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cosearch.commands.rows import write_all
from cosearch.params.reading import ConfigError

ROOT = Path(__file__).parents[2]
PAGES = ("docs/rollouts.md",)
"""Documents that commands read."""
PARAMETERS = ("params.yaml", "plan.yaml", "hub.yaml")
CODE = ("cosearch", "stages", ".dvcignore", "dvc.yaml", "profile.yaml", "rows.yaml", *PARAMETERS)
HOOK = ROOT / "tests/pipeline/hook"
"""Where Python finds what tells of the modules that a stage loads."""
MODELS = ("models/tiny", "models/tiny.json")
SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique")


@dataclass(frozen=True)
class Project:
    """A folder with the code, the shipped models and a params.yaml cut down to seconds."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Project":
        """Copy what the graph needs and shrink the parameters."""
        project = cls.copy(folder)
        project.edit(shrink)
        project.command("dvc", "init", "-q", "--no-scm")
        return project

    @classmethod
    def copy(cls, folder: Path) -> "Project":
        """Code, models and parameters as they are, without DVC."""
        for name in (*CODE, *MODELS, *PAGES):
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, target)
        return cls(folder)

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Apply ``change`` to params.yaml, and tell DVC of the rows where they are good."""
        path = self.folder / "params.yaml"
        params = yaml.safe_load(path.read_text("utf-8"))
        change(params)
        path.write_text(yaml.safe_dump(params, sort_keys=False), "utf-8")
        with suppress(ConfigError):
            write_all(self.folder)

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder with the folder's own code."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment(), capture_output=True, text=True
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done

    def stage(self, name: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one stage outside DVC, with the identities as they are now."""
        command = (sys.executable, "-m")
        self.command(*command, "stages.identity", "--profile", "tiny", check=False)
        return self.command(*command, f"stages.{name}", "--profile", "tiny", *words, check=check)

    def stale(self, *targets: str) -> set[str]:
        """Stage instances whose command, identity or data are not those of their last run, of all
        that ``targets`` need. Identities are written anew; nothing else runs."""
        self.command("dvc", "repro", "-q", "identity")
        plan = self.command("dvc", "repro", "--dry", *targets).stdout
        return ran(plan)

    def environment(self) -> dict[str, str]:
        """One thread, no network, no GPU for trainers, this interpreter first on the path."""
        return os.environ | {
            "PYTHONPATH": f"{self.folder}:{HOOK}",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONHASHSEED": "0",
            "HF_HUB_OFFLINE": "1",
            "DS_ACCELERATOR": "cpu",
            "TOKENIZERS_PARALLELISM": "false",
            "TRANSFORMERS_VERBOSITY": "error",
            "DVC_NO_ANALYTICS": "1",
        }

    def tracked(self) -> dict[str, bytes]:
        """Contents of the files that git would hold, but for code: parameters, rows and lock."""
        names = (path.name for path in self.folder.glob("*.yaml"))
        return {name: (self.folder / name).read_bytes() for name in (*names, "dvc.lock")}

    def bytes_of(self, *patterns: str) -> dict[str, bytes]:
        """Contents of files below artifacts/tiny by relative path."""
        root = self.folder / "artifacts" / "tiny"
        return {
            str(path.relative_to(root)): path.read_bytes()
            for pattern in patterns
            for path in sorted(root.glob(pattern))
            if path.is_file()
        }


def ran(told: str) -> set[str]:
    """Stages that ``dvc repro`` says it runs."""
    return {line.split("'")[1] for line in told.splitlines() if line.startswith("Running stage")}


def shrink(params: dict[str, Any]) -> None:
    """Two rounds and a few questions; everything else as it is."""
    tiny = params["profiles"]["tiny"]
    for name in SETS:
        tiny["data"]["sets"][name] |= {"train": 8, "dev": 3, "test": 4}
    tiny["data"]["sets"]["bamboogle"] |= {"test": 4}
    tiny["train"] |= {
        "rounds": 2, "questions": 3, "update_questions": 2, "dev_every": 1, "shard_questions": 2,
    }  # fmt: skip
    tiny["fixed_ranker"] |= {"rounds": 2, "questions": 3, "lists": 12}
    tiny["gate"] |= {"lists": 8, "min_id_accuracy": 0.0, "min_gain_over_retriever": -1.0}
    tiny["gate"] |= {"max_constant_share": 1.0, "max_identity_share": 1.0}
    params["statistics"]["draws"] = 200
    params["seed_count"] = 1
