"""Parameter blocks for tests: those of profile tiny, with what a test changes."""

from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cosearch.params.method import Section
from cosearch.params.settings import Settings, load_settings

BlockT = TypeVar("BlockT", bound=Section)


@cache
def tiny() -> Settings:
    """The settings of profile tiny."""
    return load_settings("tiny", Path(__file__).resolve().parents[1] / "params.yaml")


def block(kind: type[BlockT], **changes: Any) -> BlockT:
    """A block of profile tiny with ``changes``, which are not checked: engines check on their own
    what they cannot do."""
    found: BlockT = tiny().section(kind).model_copy(update=changes)
    return found
