"""``python -m cosearch init``: makes a profile over a user's own questions and corpus.

The command first checks both files completely and names the first faulty rows. Then it
writes ``profiles/NAME`` and the record of the models, and adds blocks to params.yaml and plan.yaml.
They are copies of another profile's, comments included, with other data and models. No other byte
of the two files changes. Last it prints the commands that lead to a table, and no other.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cosearch.commands.profile_text import add_plan, add_profile, data_block
from cosearch.data.formats import SourceRow
from cosearch.data.own_files import assign_splits, check_corpus, check_questions, record_files
from cosearch.data.world_questions import SPLITS
from cosearch.files.artifacts import write_jsonl, write_text
from cosearch.files.hashes import hash_path
from cosearch.files.model_record import record_models
from cosearch.params.checks import NAME
from cosearch.params.rows_file import write_rows
from cosearch.params.settings import Settings, load_settings


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
    settings = load_settings(like, root / "params.yaml")
    _check_name(name, settings, root)
    rows = check_questions(questions)
    sizes = check_corpus(corpus)
    needed = settings.method().rollout.top_n
    if len(sizes) < needed:
        raise ValueError(f"{corpus}: {len(sizes)} passages, but a search asks for {needed}")
    splits = assign_splits(rows)
    counts = {split: splits.count(split) for split in SPLITS}
    if not all(counts.values()):
        raise ValueError(f"{questions}: every split needs a question, not {counts}")
    source = f"{questions.name} {hash_path(questions)}, {corpus.name} {hash_path(corpus)}"
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
    record_files(folder, [f"profiles/{name}/questions.jsonl", place], root)
    places = f"profile: {name}\nroot: ../..\nfolder: profiles/{name}\n"
    write_text(folder / "profile.yaml", f"# See ../../profile.yaml.\n{places}{launch}\n")
    _link(folder, name, like, root)
    for path, text in texts.items():
        write_text(path, text)
    return NewProfile(name, counts, len(sizes), _record(name, folder, root))


def _check_name(name: str, settings: Settings, root: Path) -> None:
    """Raises ValueError for a name that is malformed or taken."""
    if not NAME.fullmatch(name):
        raise ValueError(f"--name {name!r}: a name has lower case letters, digits and underscores")
    if name in settings.file.profiles or (root / "profiles" / name).exists():
        raise ValueError(f"profile {name!r} is there already; choose another --name")


def _record(name: str, folder: Path, root: Path) -> tuple[str, ...]:
    """Write rows.yaml and the record of the models. Returns the model folders that are lacking."""
    made = load_settings(name, root / "params.yaml")
    write_rows(made, folder)
    there = record_models(name, made.model_folders(), root)
    return tuple(one for one in made.model_folders() if one not in there)


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
