"""What can be said of a documented command without running it: that it exists, with its flags.

``CHECKS`` has one function for the first word of a command. Each raises AssertionError, or
SystemExit from a parser; a first word without one is a command that nobody looks at.
"""

import ast
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from dvc.cli.parser import get_main_parser

from cosearch.__main__ import _parser
from cosearch.params.blocks import File
from cosearch.params.reading import BESIDE
from cosearch.params.rows import MethodName
from cosearch.params.settings import Settings
from tests.pipeline.documents import example_parameters, simple_commands
from tests.pipeline.project import ROOT

Words = Sequence[str]
ANYWHERE = {
    "bash", "set", "source", "printf", "head", "cp", "scontrol",
    "git", "pip", "ray", "vllm",
}  # fmt: skip
"""Of the shell, or of tools that this environment lacks; ``bash -n`` parses their lines."""
parameters = cache(example_parameters)


def check(words: Words) -> None:
    """Fail unless the command exists with the flags it has."""
    assert words[0] in CHECKS, f"nobody looks at {words[0]!r}: {' '.join(words)}"
    CHECKS[words[0]](words)


@cache
def graph() -> Mapping[str, Any]:
    """What rows.yaml would tell DVC under the documents' parameters. A row of a method that the
    documents add counts with the method of the row that it is like."""
    params = deepcopy(parameters())
    for row in params["rows"].values():
        if row.get("method", "react") not in get_args(MethodName):
            del row["method"]
    for name in BESIDE:
        params |= yaml.safe_load((ROOT / f"{name}.yaml").read_text("utf-8"))
    return Settings(File.model_validate(params), "tiny").graph.model_dump()


@cache
def stage_names() -> frozenset[str]:
    """Every stage of dvc.yaml under the documents' parameters."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"]
    found = set(stages)
    for name, block in stages.items():
        rows = block.get("foreach", block.get("matrix", {}).get("seed"))
        if rows is not None:
            key = rows.removeprefix("${graph.").removesuffix("}")
            found |= {f"{name}@{row}" for row in graph()[key]}
    return frozenset(found)


def check_target(target: str) -> None:
    """``[profiles/NAME/dvc.yaml[:]]STAGE``; a stage may be a pattern, or a script's variable."""
    folder, _, stage = target.rpartition("dvc.yaml:") if ":" in target else ("", "", target)
    if target.endswith("dvc.yaml"):
        folder, stage = target.removesuffix("dvc.yaml"), ""
    if folder:
        assert folder.removeprefix("profiles/").strip("/") in parameters()["profiles"], target
    pattern = re.sub(r"\$\w+", "*", stage) or "*"
    assert any(fnmatchcase(name, pattern) for name in stage_names()), f"no stage {target}"


def check_dvc(words: Words) -> None:
    """DVC's own parser, then stages and parameters."""
    chosen = get_main_parser().parse_args(list(words[1:]))
    if words[1] != "add" and hasattr(chosen, "targets"):
        for target in chosen.targets or ():
            if words[1] == "metrics":
                assert (ROOT / target).exists(), f"no file {target}"
            else:
                check_target(target)
    for override in getattr(chosen, "set_param", None) or ():
        key, _, value = override.partition("=")
        block: Any = parameters()
        for part in key.split("."):
            assert part in block, f"no parameter {key}"
            block = block[part]
        assert type(yaml.safe_load(value)) is type(block), override


def check_python(words: Words) -> None:
    """``python -m MODULE``, with the flags that its parser knows."""
    assert words[1] == "-m", words
    module, given = words[2], words[3:]
    if module == "cosearch":
        _parser().parse_args(list(given))
    elif module.startswith("stages."):
        check_stage(module, given)
    else:
        assert importlib.util.find_spec(module) is not None, f"no module {module}"
        own = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        if own.is_file():
            assert flags(given) <= flags_of(own), f"{module}: {given}"


def check_stage(module: str, given: Words) -> None:
    """A stage's page names its axes; their values are a profile, and an instance in the graph."""
    page = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    calls = [
        node
        for node in ast.walk(ast.parse(page.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "run_stage"
    ]
    axes = [ast.literal_eval(word) for word in calls[0].args[3:]]
    assert flags(given) == {"--profile", *(f"--{axis}" for axis in axes)}, f"{module}: {given}"
    values = dict(zip(given[::2], given[1::2], strict=True))
    assert values["--profile"] in parameters()["profiles"], given
    known = {
        "row": {*graph()["trainings"], *graph()["evaluations"]},
        "rows": set(graph()["collections"]),
        "seed": {str(seed) for seed in graph()["seeds"]},
        "scope": set(graph()["scopes"]),
    }
    for axis in axes:
        value = values[f"--{axis}"]
        assert value.startswith("$") or value in known[axis], f"no {axis} {value}"


def check_make(words: Words) -> None:
    """``make -n`` parses, and names commands that exist in turn."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("MAKE")}
    environment |= {"UV_FIND_LINKS": "nowhere", "PYTHON": "python3", "MFLAGS": ""}
    done = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for line in re.findall(r"(?:python -m (?:cosearch|stages|flows|tests)|dvc ).*", done.stdout):
        for command in simple_commands(line):
            check(command)


def check_prefect(words: Words) -> None:
    """Prefect's sources name the subcommand and the flags."""
    text = "".join(path.read_text("utf-8") for path in (package("prefect") / "cli").rglob("*.py"))
    named = [word for word in words[1:3] if re.fullmatch("[a-z-]+", word)]
    missing = [word for word in {*named, *flags(words)} if f'"{word}"' not in text]
    missing = [word for word in missing if not re.search(rf"\b{word.strip('-')}\b", text)]
    assert not missing, f"prefect knows no {missing}"


def check_hf(words: Words) -> None:
    """The hub's own command explains the words."""
    done = subprocess.run([*words, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_deepspeed(words: Words) -> None:
    """The launcher's flags, and the stage that it starts."""
    at = words.index("--module")
    assert flags(words[: at + 1]) <= flags_of(package("deepspeed") / "launcher" / "runner.py")
    check_python(("python", "-m", *words[at + 1 :]))


def check_srun(words: Words) -> None:
    """What Slurm starts: a command, or a script for bash."""
    inner = list(words[1:])
    while inner[0].startswith("-"):
        del inner[0]
    if inner[:2] == ["bash", "-c"]:
        for command in simple_commands(inner[2]):
            check(command)
    else:
        check(inner)


def check_export(words: Words) -> None:
    """A variable is read by something: this project, its Makefile, Prefect, or a launched rank."""
    texts = [ROOT / "Makefile", *(ROOT / "cosearch").rglob("*.py"), *(ROOT / "flows").glob("*.py")]
    texts += (package("prefect") / "settings").rglob("*.py")
    texts += (package("deepspeed") / "comm").glob("*.py")
    known = "".join(path.read_text("utf-8") for path in texts).upper()
    for word in words[1:]:
        name = word.partition("=")[0]
        assert name in known, f"nothing reads {name}"


def check_anything(words: Words) -> None:
    """Nothing is known of it here."""
    assert words[0] in ANYWHERE


def package(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def flags(words: Iterable[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def flags_of(path: Path) -> set[str]:
    """Flags of every ``add_argument`` of a file."""
    return {
        argument.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


CHECKS: Mapping[str, Callable[[Words], None]] = {
    **dict.fromkeys(ANYWHERE, check_anything),
    "make": check_make,
    "python": check_python,
    "dvc": check_dvc,
    "prefect": check_prefect,
    "deepspeed": check_deepspeed,
    "srun": check_srun,
    "hf": check_hf,
    "export": check_export,
}
