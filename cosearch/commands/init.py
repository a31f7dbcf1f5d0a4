"""``python -m cosearch init``: makes a profile over a user's own questions and corpus.

The command first checks both files completely and names the first faulty rows by line. Then it
writes ``profiles/NAME`` and the record of the models, and adds blocks to params.yaml and plan.yaml.
They are copies of another profile's, comments included, with other data and models. No other byte
of the two files changes. Last it prints the commands that lead to a table, and no other.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from cosearch.commands.profile_text import add_plan, add_profile, data_block
from cosearch.data.corpus import passages_of
from cosearch.data.formats import FORMATS, SourceRow, sniff
from cosearch.data.questions import order_key
from cosearch.data.world_questions import SPLITS
from cosearch.files.artifacts import write_jsonl, write_text
from cosearch.files.hashes import hash_file
from cosearch.files.model_record import record_models
from cosearch.params.rows_file import write_rows
from cosearch.params.settings import load_settings

SHOWN_FAULTS = 5
SHARES = (0.6, 0.8, 1.0)
"""Cumulative shares of train, dev and test in hash order, for rows that name no split."""
Parsed = TypeVar("Parsed")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class NewProfile:
    """A profile that was made: its name, rows by split, number of passages, and model folders that
    are not there yet."""

    name: str
    splits: dict[str, int]
    passages: int
    lacking: tuple[str, ...]

    def lines(self) -> list[str]:
        """Lines for the user: the counts, what was written, and the commands to a table."""
        counts = ", ".join(f"{number} {split}" for split, number in self.splits.items())
        return [
            f"questions: {sum(self.splits.values())} ({counts}); passages: {self.passages}",
            f"wrote profiles/{self.name} and its blocks in params.yaml and plan.yaml; next:",
            *(f"  {command}" for command in self.commands()),
        ]

    def commands(self) -> list[str]:
        """The commands from here to a table of results, each for the shell, in order."""
        models = f"python -m stages.base_models --profile {self.name}"
        return [
            *([models] if self.lacking else []),
            f"dvc repro profiles/{self.name}/dvc.yaml:report@core_1",
            f"python -m cosearch show --profile {self.name} --scope core_1",
        ]


def make_profile(
    name: str, questions: Path, corpus: Path, *, like: str, kind: str, root: Path = Path()
) -> NewProfile:
    """Check the files and write the profile ``name`` with the settings of the profile ``like``.

    Raises:
        ValueError: the name is malformed or taken, or a file has faulty or too few rows.
    """
    _check_name(name, like, root)
    rows = check_questions(questions)
    sizes = check_corpus(corpus)
    needed = load_settings(like, root / "params.yaml").method().rollout.top_n
    if len(sizes) < needed:
        raise ValueError(f"{corpus}: {len(sizes)} passages, but a search asks for {needed}")
    splits = assign_splits(rows)
    counts = {split: splits.count(split) for split in SPLITS}
    if not all(counts.values()):
        raise ValueError(f"{questions}: every split needs a question, not {counts}")
    source = f"{questions.name} {hash_file(questions)}, {corpus.name} {hash_file(corpus)}"
    place = os.path.relpath(corpus.resolve(), root.resolve())
    data = data_block(name, kind, place, counts, source)
    mean = max(1, round(sum(sizes) / len(sizes)))
    params, plan, launch = root / "params.yaml", root / "plan.yaml", _launch(like, root)
    texts = {
        params: add_profile(params.read_text("utf-8"), name, like, data),
        plan: add_plan(plan.read_text("utf-8"), name, like, len(sizes), mean),
    }
    folder = root / "profiles" / name
    write_jsonl(folder / "questions.jsonl", map(_unified, rows, splits))
    places = f"profile: {name}\nroot: ../..\nfolder: profiles/{name}\n"
    write_text(folder / "profile.yaml", f"# See ../../profile.yaml.\n{places}{launch}\n")
    _link(folder, name, like, root)
    for path, text in texts.items():
        write_text(path, text)
    return NewProfile(name, counts, len(sizes), _record(name, folder, root))


def _check_name(name: str, like: str, root: Path) -> None:
    """Raises ValueError for a name that is malformed or taken."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"--name {name!r}: a name has lower case letters, digits and underscores")
    settings = load_settings(like, root / "params.yaml")
    if name in settings.file.profiles or (root / "profiles" / name).exists():
        raise ValueError(f"profile {name!r} is there already; choose another --name")


def _record(name: str, folder: Path, root: Path) -> tuple[str, ...]:
    """Write rows.yaml and the record of the models. Returns the model folders that are lacking."""
    made = load_settings(name, root / "params.yaml")
    write_rows(made, folder)
    there = record_models(name, made.model_folders(), root)
    return tuple(one for one in made.model_folders() if one not in there)


def check_questions(path: Path) -> list[tuple[str, SourceRow]]:
    """Read questions of any known format. Returns (id, row) pairs.

    Raises ValueError that names the first faulty rows.
    """
    form: list[str] = []
    seen: set[str] = set()

    def parse(number: int, record: dict[str, object]) -> tuple[str, SourceRow]:
        if not form and (found := sniff(record)):
            form.append(found)
        if not form:
            raise ValueError(f"no known format has keys {sorted(record)}")
        row = FORMATS[form[0]].parse(record)
        if not any(gold.strip() for gold in row.golds):
            raise ValueError("no gold answer")
        id_ = _new(row.id or str(number), seen)
        return id_, row

    return _rows(path, parse)


def check_corpus(path: Path) -> list[int]:
    """Bytes of title and text of each passage. Raises ValueError that names the first faulty
    rows."""
    seen: set[str] = set()

    def parse(number: int, record: dict[str, object]) -> list[int]:
        found = passages_of(record)
        for passage in found:
            if not passage.text:
                raise ValueError(f"passage {passage.title!r} has no text")
            if passage.id:
                _new(passage.id, seen)
        return [len(f"{passage.title}{passage.text}".encode()) for passage in found]

    return list(chain.from_iterable(_rows(path, parse)))


def assign_splits(rows: Sequence[tuple[str, SourceRow]]) -> list[str]:
    """The split of each row: the one that it names, if all rows name one, else one by hash order.

    Hash order depends on ids only, so a row keeps its split if the rows change places.
    """
    named = [row.split for _, row in rows]
    if all(split in SPLITS for split in named):
        return [split for split in named if split]
    order = sorted(range(len(rows)), key=lambda index: order_key("init", rows[index][0]))
    splits = [""] * len(rows)
    for place, index in enumerate(order):
        share = (place + 1) / len(rows)
        splits[index] = next(s for s, upto in zip(SPLITS, SHARES, strict=True) if share <= upto)
    return splits


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


def _rows(path: Path, parse: Callable[[int, dict[str, object]], Parsed]) -> list[Parsed]:
    good, faults = [], []
    for number, line in _lines(path):
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"{type(record).__name__}, not an object")
            good.append(parse(number, record))
        except KeyError as error:
            faults.append(f"line {number}: no key {error}")
        except (ValueError, TypeError, AttributeError) as error:
            faults.append(f"line {number}: {error}")
    if faults:
        shown = "; ".join(faults[:SHOWN_FAULTS])
        raise ValueError(f"{path}: {len(faults)} of {len(good) + len(faults)} rows: {shown}")
    if not good:
        raise ValueError(f"{path}: no rows")
    return good


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix != ".jsonl":
        raise ValueError(f"{path}: not a .jsonl file, which holds one JSON object in each line")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with path.open(encoding="utf-8") as lines:
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _new(id_: str, seen: set[str]) -> str:
    if id_ in seen:
        raise ValueError(f"duplicate id {id_!r}")
    seen.add(id_)
    return id_


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
