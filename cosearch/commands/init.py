"""``python -m cosearch init``: makes a profile over a user's own questions and corpus.

The command first checks both files completely and names the first faulty rows by line. Then it
writes ``profiles/NAME`` and the record of the models, and adds a block to params.yaml. The block is
a copy of another profile's, comments included, with other data and models. No other byte of
params.yaml changes.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dvc.utils.serialize import dumps_yaml

from cosearch.data.formats import SourceRow
from cosearch.data.own_files import assign_splits, check_corpus, check_questions
from cosearch.data.world_questions import SPLITS
from cosearch.files.artifacts import write_jsonl, write_text
from cosearch.files.hashes import hash_path
from cosearch.files.model_record import record_models
from cosearch.params.rows_file import write_rows
from cosearch.params.settings import load_settings

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class NewProfile:
    """A profile that was made: its name, rows by split, and number of passages."""

    name: str
    splits: dict[str, int]
    passages: int

    def lines(self) -> list[str]:
        """Lines for the user: the counts, what was written, and the next commands."""
        counts = ", ".join(f"{number} {split}" for split, number in self.splits.items())
        graph = f"profiles/{self.name}/dvc.yaml"
        return [
            f"questions: {sum(self.splits.values())} ({counts}); passages: {self.passages}",
            f"wrote profiles/{self.name} and profiles.{self.name} in params.yaml; next:",
            f"  dvc repro {graph}:identity",
            f"  dvc repro --single-item --force {graph}:data",
            f"  dvc repro {graph}:report@core_1",
            f"  python -m cosearch show --profile {self.name} --scope core_1",
        ]


def make_profile(
    name: str, questions: Path, corpus: Path, *, like: str, kind: str, root: Path = Path()
) -> NewProfile:
    """Check the files and write the profile ``name`` with the settings of the profile ``like``.

    Raises:
        ValueError: the name is malformed or taken, or a file has faulty or too few rows.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r}: a name has lower case letters, digits and underscores")
    settings = load_settings(like, root / "params.yaml")
    if name in settings.file.profiles or (root / "profiles" / name).exists():
        raise ValueError(f"profile {name!r} is there already")
    rows = check_questions(questions)
    passages = len(check_corpus(corpus))
    if passages < (needed := settings.method().rollout.top_n):
        raise ValueError(f"{corpus}: {passages} passages, but a search asks for {needed}")
    splits = assign_splits(rows)
    counts = {split: sum(1 for chosen in splits if chosen == split) for split in SPLITS}
    if not all(counts.values()):
        raise ValueError(f"{questions}: every split needs a question, not {counts}")
    launch, folder = _launch(like, root), root / "profiles" / name
    write_jsonl(folder / "questions.jsonl", map(_unified, rows, splits))
    places = f"profile: {name}\nroot: ../..\nfolder: profiles/{name}\n"
    write_text(folder / "profile.yaml", f"# See ../../profile.yaml.\n{places}{launch}\n")
    _link(folder, name, like, root)
    source = f"{questions.name} {hash_path(questions)}, {corpus.name} {hash_path(corpus)}"
    place = os.path.relpath(corpus.resolve(), root.resolve())
    data = data_block(name, kind, place, source)
    params = root / "params.yaml"
    write_text(params, add_profile(params.read_text("utf-8"), name, like, data))
    made = load_settings(name, params)
    write_rows(made, folder)
    record_models(name, made.model_folders(), root)
    return NewProfile(name, counts, passages)


def data_block(name: str, kind: str, corpus: str, source: str) -> str:
    """The ``data`` block of params.yaml, as DVC itself writes YAML, so that `dvc exp run -S`
    changes only the key that it sets.

    ``source`` contains the hashes of the files, so that a change of a file changes the parameters.
    """
    path = f"profiles/{name}/questions.jsonl"
    files = {
        split: {"path": path, "split": split, "source": source, "format": "unified"}
        for split in SPLITS
    }
    counts: dict[str, object] = {"kind": kind, **dict.fromkeys(SPLITS), "files": files}
    block = {
        "source": "files",
        "folder": ".",
        "corpus": corpus,
        "reference_run": None,
        "seed": 8,
        "eval_fraction": 1.0,
        "sets": {name: counts},
        "lists": {},
    }
    text: str = dumps_yaml({"profiles": {name: {"data": block}}})
    return text.split("\n", 2)[2]


def add_profile(text: str, name: str, like: str, data: str) -> str:
    """The text of params.yaml with a copy of profile ``like`` behind the last profile."""
    start, end = _span(text, r"^profiles:", 0)
    first, last = _span(text[start:end], rf"^  {like}:", 2)
    block = text[start + first : start + last]
    block = block.replace(f"  {like}:", f"  {name}:", 1).replace(
        f"models/{like}/", f"models/{name}/"
    )
    block = re.sub(r"questions_per_set: \w+", "questions_per_set:", block)
    begin, stop = _span(block, r"^    data:", 4)
    block = _rename_anchors(f"{block[:begin]}{data}{block[stop:]}", name)
    return f"{text[:end]}{block}{text[end:]}"


def _rename_anchors(block: str, name: str) -> str:
    """Rename the anchors that the block defines, because YAML allows each anchor only once. An
    anchor that only other profiles use goes."""
    for anchor in set(re.findall(r"(?<=[\s\[,])&(\w+)", block)):
        if re.search(rf"(?<=[\s\[,])\*{anchor}\b", block):
            block = re.sub(rf"(?<=[\s\[,])([&*]){anchor}\b", rf"\1{name}_{anchor}", block)
        else:
            block = re.sub(rf" &{anchor}\b", "", block)
    return block


def _span(text: str, head: str, indent: int) -> tuple[int, int]:
    """Start and end of a key: from its line to the next line that is indented no deeper."""
    found = re.search(head, text, re.MULTILINE)
    if found is None:
        raise ValueError(f"params.yaml: no line {head!r}")
    after = re.compile(rf"^ {{0,{indent}}}\S", re.MULTILINE).search(text, found.end())
    return found.start(), after.start() if after else len(text)


def _launch(like: str, root: Path) -> str:
    """The ``launch`` line in the profile.yaml of ``like``. It starts training stages."""
    for folder in (root / "profiles" / like, root):
        path = folder / "profile.yaml"
        told = path.read_text("utf-8") if path.is_file() else ""
        launch = re.search(r"^launch: .+$", told, re.MULTILINE)
        if launch and re.search(rf"^profile: {like}$", told, re.MULTILINE):
            return launch[0]
    raise ValueError(f"profile {like!r} has no profile.yaml with a launch")


def _link(folder: Path, name: str, like: str, root: Path) -> None:
    """Link the graph and parameters of the project, and the models of ``like``."""
    for file in ("dvc.yaml", "params.yaml"):
        (folder / file).symlink_to(Path("../..") / file)
    models = root / "models" / name
    if not models.is_symlink():
        models.symlink_to(like)


def _unified(pair: tuple[str, SourceRow], split: str) -> dict[str, object]:
    id_, row = pair
    return {
        "id": id_,
        "question": row.text,
        "golden_answers": row.golds,
        "answer_aliases": (),
        "supporting_ids": row.supporting,
        "split": split,
    }
