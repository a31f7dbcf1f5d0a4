"""Blocks of the documents, and the commands in them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.pipeline.project import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SEPARATORS = set("();&|")
"""What parts simple commands, of which shlex makes words of their own."""


@dataclass(frozen=True)
class Command:
    """A simple command as words, and the lines that the document shows below it."""

    words: tuple[str, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is that of its fence."""

    file: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"

    def commands(self) -> list[Command]:
        """The commands of a console block, or of a script."""
        if self.language == "sh":
            return [Command(words, ()) for words in simple_commands(self.text)]
        found: list[Command] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found += [Command(words, ()) for words in simple_commands(line[2:])]
            else:
                assert found, f"{self.name}: output before any command"
                found[-1] = Command(found[-1].words, (*found[-1].shown, line))
        return found


def blocks() -> list[Block]:
    """Every fenced block of every document, in order."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        name = path.relative_to(ROOT).as_posix()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(name, line, match[1], match[2]))
        fences = len(re.findall(r"^```", text, re.MULTILINE))
        assert fences == 2 * sum(block.file == name for block in found), f"{name}: odd fences"
    return found


def simple_commands(script: str) -> Iterator[tuple[str, ...]]:
    """Words of each simple command, without assignments, comments and redirections."""
    joined = re.sub(r"\\\n\s*", " ", script)
    for line in re.sub(r"\$\{[^}]*\}", "$VALUE", joined).splitlines():
        words: list[str] = []
        for word in [*_words(line), ";"]:
            if not set(word) <= SEPARATORS:
                words.append(word)
            elif words := _bare(words):
                yield tuple(words)
                words = []


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(SEPARATORS))
    lexer.whitespace_split = True
    return list(lexer)


def _bare(words: Sequence[str]) -> list[str]:
    """Without assignments before the command, ``exec``, and files that are written."""
    rest = list(words)
    while rest and (re.match(r"[A-Za-z_]\w*=", rest[0]) or rest[0] == "exec"):
        del rest[0]
    return rest[: rest.index(">")] if ">" in rest else rest


def example_parameters() -> dict[str, Any]:
    """params.yaml with every yaml block of the documents merged in: a new row stands after the
    others, and a value that is there already is replaced."""
    params: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
    edits = [yaml.safe_load(block.text) for block in blocks() if block.language == "yaml"]
    return with_edits(params, edits)


def with_edits(params: dict[str, Any], edits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``params`` with each edit merged in; a profile that is new is a copy of ``mini``."""
    for edit in edits:
        for name in edit.get("profiles", {}):
            params["profiles"].setdefault(name, deepcopy(params["profiles"]["mini"]))
        _merge(params, edit)
    return params


def _merge(into: dict[str, Any], edit: dict[str, Any]) -> None:
    for key, value in edit.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def apply_diff(diff: str, folder: Path) -> None:
    """Apply a diff whose hunks name no lines: what is kept or removed stands in the file once."""
    path = folder / re.search(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE)[1]  # type: ignore[index]
    text = path.read_text("utf-8")
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"{path.name} does not hold this once: {before}"
        text = text.replace(before, after)
    path.write_text(text, "utf-8")
