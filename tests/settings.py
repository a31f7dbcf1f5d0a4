"""Parameter blocks for tests: those of profile tiny, with what a test changes."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cosearch.params.method import Section
from cosearch.params.reading import BESIDE
from cosearch.params.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[1]
BlockT = TypeVar("BlockT", bound=Section)


@cache
def tiny() -> Settings:
    """The settings of profile tiny."""
    return load_settings("tiny", ROOT / "params.yaml")


def block(kind: type[BlockT], **changes: Any) -> BlockT:
    """A block of profile tiny with ``changes``, which are not checked: engines check on their own
    what they cannot do."""
    found: BlockT = tiny().section(kind).model_copy(update=changes)
    return found


def write_params(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Write the shipped parameters into a folder after ``change``, which sees the blocks of all
    three files; each block goes back to the file that it came from."""
    blocks: dict[str, Any] = {}
    names = ("params", *BESIDE)
    for name in names:
        blocks |= yaml.safe_load((ROOT / f"{name}.yaml").read_text("utf-8"))
    change(blocks)
    apart = {name: {name: blocks.pop(name)} for name in BESIDE if name in blocks}
    for name, told in {"params": blocks, **apart}.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(told, sort_keys=False), "utf-8")
    return folder / "params.yaml"
