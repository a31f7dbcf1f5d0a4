"""The text of a new profile in params.yaml and plan.yaml: copies of another profile's blocks.

The blocks are copied as text, so that comments stay and no other byte of the two files changes.
"""

import re

from dvc.utils.serialize import dumps_yaml

from cosearch.data.world_questions import SPLITS


def data_block(name: str, kind: str, corpus: str, counts: dict[str, int], source: str) -> str:
    """The ``data`` block of params.yaml, as DVC itself writes YAML, so that `dvc exp run -S`
    changes only the key that it sets.

    ``counts`` has the number of questions of each split. ``source`` contains the hashes of the
    files, so that a change of a file changes the parameters.
    """
    path = f"profiles/{name}/questions.jsonl"
    files = {
        split: {"path": path, "split": split, "source": source, "format": "unified"}
        for split in SPLITS
    }
    block = {
        "source": "files",
        "folder": ".",
        "corpus": corpus,
        "reference_run": None,
        "seed": 8,
        "eval_fraction": 1.0,
        "sets": {name: {"kind": kind, **counts, "files": files}},
        "lists": {},
    }
    text: str = dumps_yaml({"profiles": {name: {"data": block}}})
    return text.split("\n", 2)[2]


def add_profile(text: str, name: str, like: str, data: str) -> str:
    """The text of params.yaml with a copy of profile ``like`` behind the last profile."""
    _, end = _span(text, "profiles", 0)
    block = _copy(text, ("profiles", like), name)
    block = block.replace(f"models/{like}/", f"models/{name}/")
    block = re.sub(r"questions_per_set: \w+", "questions_per_set:", block)
    begin, stop = _span(block, "data", 4)
    block = _rename_anchors(f"{block[:begin]}{data}{block[stop:]}", name)
    return f"{text[:end]}{block}{text[end:]}"


def add_plan(text: str, name: str, like: str, passages: int, passage_bytes: int) -> str:
    """The text of plan.yaml in which ``name`` needs and behaves as ``like`` does.

    ``passages`` and ``passage_bytes`` (of a mean passage) are those of the new corpus. Habits that
    were measured for ``like`` are assumptions here.
    """
    sizes = {"passages": passages, "passage_bytes": passage_bytes}
    habits = _rename_anchors(_copy(text, ("plan", "calibration", like), name), name)
    for key, value in sizes.items():
        habits = re.sub(rf"(?m)^( +{key}:).*$", rf"\1 {value}", habits, count=1)
    head = f"    {name}:  # as {like}, with the size of its own corpus\n"
    habits = head + re.sub(r"measured: .*", "measured:", habits).split("\n", 1)[1]
    start, end = _span(text, "models", 2)
    models = re.findall(rf"^    models/{like}/.*\n", text[start:end], re.MULTILINE)
    added = {
        "least": _copy(text, ("plan", "least", like), name),
        "models": "".join(models).replace(f"models/{like}/", f"models/{name}/"),
        "calibration": habits,
    }
    for key, block in added.items():
        _, end = _span(text, key, 2)
        text = f"{text[:end]}{block}{text[end:]}"
    return text


def _copy(text: str, path: tuple[str, ...], name: str) -> str:
    """The block at ``path``, under the name ``name``."""
    for depth, key in enumerate(path):
        start, end = _span(text, key, 2 * depth)
        text = text[start:end]
    return text.replace(f"{path[-1]}:", f"{name}:", 1)


def _rename_anchors(block: str, name: str) -> str:
    """Rename the anchors that the block defines, because YAML allows each anchor only once. An
    anchor that only other profiles use goes."""
    for anchor in set(re.findall(r"(?<=[\s\[,])&(\w+)", block)):
        if re.search(rf"(?<=[\s\[,])\*{anchor}\b", block):
            block = re.sub(rf"(?<=[\s\[,])([&*]){anchor}\b", rf"\1{name}_{anchor}", block)
        else:
            block = re.sub(rf" &{anchor}\b", "", block)
    return block


def _span(text: str, key: str, indent: int) -> tuple[int, int]:
    """Start and end of a key's block: from its line to the next one that is indented no deeper.

    Raises ValueError if no line with this indent begins with the key.
    """
    found = re.search(rf"^ {{{indent}}}{key}:", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"no line {' ' * indent + key + ':'!r}, which the new profile copies")
    after = re.compile(rf"^ {{0,{indent}}}\S", re.MULTILINE).search(text, found.end())
    return found.start(), after.start() if after else len(text)
