"""Paths, columns and file formats of all outputs. No other module knows them.

Every file is written under another name, synced and renamed, so that no reader meets a part of a
file. Outputs contain no time, host or absolute path; of all stages the report alone reads timings.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from safetensors import SafetensorError

from cosearch.core.shown import LEFT_OUT
from cosearch.files import durable
from cosearch.params.rows import HERE, PARTS

SPAN = pl.Struct({"kind": pl.String, "turn": pl.Int32, "start": pl.Int32, "end": pl.Int32})
CANDIDATE = pl.Struct({"id": pl.String, "score": pl.Float64, "relevant": pl.Boolean})
SAMPLING = pl.Struct(
    {"temperature": pl.Float64, "top_p": pl.Float64, "top_k": pl.Int32, "max_tokens": pl.Int32}
)

_ROLLOUT_COLUMNS: dict[str, Any] = {
    "kind": pl.String,  # trajectory | call
    "round": pl.Int32,  # from 1, as in the name of the file
    "dataset": pl.String,
    "question_id": pl.String,
    "sample": pl.Int32,
    "turn": pl.Int32,  # of a call
    "question": pl.String,
    "golds": pl.List(pl.String),
    "query": pl.String,  # of a call
    "text": pl.String,  # what the policy wrote, turns joined by a blank line
    "ids": pl.List(pl.Int32),  # prompt and completion
    "loss_mask": pl.List(pl.Int8),
    "logprobs": pl.List(pl.Float32),  # of the sampler, after temperature
    "trainer_logprobs": pl.List(pl.Float32),  # null where the advantage is 0
    "advantages": pl.List(pl.Float64),  # one per token
    "spans": pl.List(SPAN),
    "answer": pl.String,
    "terminal": pl.String,
    "fault": pl.String,
    "candidates": pl.List(CANDIDATE),  # D_N in retriever order
    "ranking": pl.List(pl.Int32),  # positions in D_N, as shown
    "has_answer": pl.Boolean,  # I_ans
    "r_rel": pl.Float64,
    "r_main": pl.Float64,
    "r_rank": pl.Float64,
    "branch": pl.String,  # case of Eq. 6
    "group": pl.String,
    "advantage": pl.Float64,
    "trained": pl.Boolean,
    "sampling": SAMPLING,  # as used
    "weights": pl.Int32,  # updates the sampler had seen
    "notices": pl.Int32,  # of a trajectory: malformed turns that were let pass
    "note": pl.String,  # of a call: what the agent read in place of the documents
    "shown_answer": pl.Boolean,  # in what the agent read, after every cut
    **dict.fromkeys((*LEFT_OUT, "dropped_judged", "cut_judged"), pl.Int32),
}
ROLLOUT_SCHEMA = pl.Schema(_ROLLOUT_COLUMNS)
"""Columns of rollouts/round_NNN.parquet and of an evaluation's trajectories (docs/rollouts.md)."""

_LISTS_COLUMNS: dict[str, Any] = {
    "dataset": pl.String,
    "question_id": pl.String,
    "question": pl.String,
    "golds": pl.List(pl.String),
    "candidate_ids": pl.List(pl.String),
    "scores": pl.List(pl.Float64),
}
LISTS_SCHEMA = pl.Schema(_LISTS_COLUMNS)
"""Columns of the Fixed Ranker's training lists. ``candidate_ids`` are ids of passages."""

SCALARS = Path(".runs") / "scalars"
"""Folder in which trackers keep the metrics of rounds. No stage reads it."""
SKIPPED = "skipped.json"
"""File that an evaluation writes instead of results. It gives the reason."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of one profile, relative to the project's root."""

    profile: str

    @property
    def root(self) -> Path:
        """All outputs of the profile."""
        return Path("artifacts") / self.profile

    @property
    def data(self) -> Path:
        """Questions, corpus and their manifest."""
        return self.root / "data"

    def questions(self, split: str) -> Path:
        """File of the questions of a split (train, dev, test) or of a source of lists
        (lists/NAME)."""
        return self.data / f"{split}.jsonl"

    @property
    def corpus(self) -> Path:
        """Folder of the corpus."""
        return self.data / "corpus"

    def collection(self, name: str) -> Path:
        """Folder of the corpus of a source of lists that has its own passages."""
        return self.data / "collections" / name / "corpus"

    @property
    def encoded(self) -> Path:
        """Folder with the shards of passage vectors."""
        return self.root / "encoded"

    @property
    def index(self) -> Path:
        """Folder of the FAISS index and its manifest."""
        return self.root / "index"

    @property
    def retrieval(self) -> Path:
        """Folder with the measures of the retriever."""
        return self.root / "retrieval"

    @property
    def fixed_ranker_data(self) -> Path:
        """Folder with the training lists of the Fixed Ranker."""
        return self.root / "fixed_ranker_data"

    def fixed_ranker(self, seed: int) -> Path:
        """Folder of the Fixed Ranker of a seed."""
        return self.root / "fixed_ranker" / f"seed_{seed}"

    def train(self, part: str, seed: int, variant: str) -> Path:
        """Folder of a variant that was trained with a seed."""
        return self.root / "train" / part / f"seed_{seed}" / variant

    def gate(self, part: str, seed: int, variant: str) -> Path:
        """Folder with the gate's verdict on a trained variant."""
        return self.root / "gate" / part / f"seed_{seed}" / variant

    def evaluate(self, part: str, seed: int, system: str) -> Path:
        """Folder with the evaluation of a system for a seed."""
        return self.root / "evaluate" / part / f"seed_{seed}" / system

    def score(self, row: str) -> Path:
        """File with the few numbers of an evaluated row, ``SYSTEM-SEED``."""
        return self.root / "metrics" / f"{row}.json"

    def of_scope(self, kind: str, scope: str) -> list[Path]:
        """Folders of ``train``, ``gate`` or ``evaluate`` that a scope takes in: ``core_3`` is part
        ``core`` at its first three seeds, ``here`` is all that exists."""
        if scope == HERE:
            return [self.root / kind]
        name, _, count = scope.partition("_")
        seeds = range(int(count))
        return [self.root / kind / part / f"seed_{seed}" for part in PARTS[name] for seed in seeds]

    def collected(self, part: str, seed: int) -> Path:
        """What the rows of a part left at a seed and all seeds before it."""
        return self.root / "collected" / f"{part}-{seed}.json"

    def identity(self, name: str) -> Path:
        """The identity of a stage instance."""
        return self.root / "identity" / f"{name}.json"

    def needed(self, needs: str) -> Path:
        """Path of an output that a row of params.yaml names under ``needs``."""
        return self.root / needs

    def oracle_gap(self, scope: str) -> Path:
        """Folder with the oracle gap analysis of a scope."""
        return self.root / "oracle_gap" / scope

    def tables(self, scope: str) -> Path:
        """Folder with the tables of a scope."""
        return self.root / "tables" / scope

    def summary(self, scope: str) -> Path:
        """Folder with the learning curves of a scope."""
        return self.root / "summary" / scope

    def report(self, scope: str) -> Path:
        """Folder with the report of a scope."""
        return self.root / "report" / scope

    def timing(self, name: str) -> Path:
        """File with the run record of a stage. No stage but the report reads it."""
        return self.root / "timing" / f"{name}.json"

    @property
    def made_by(self) -> Path:
        """File that says on which machines the committed results were made. No stage reads it."""
        return self.root / "made_by.json"

    def journal(self, name: str) -> Path:
        """File with the events of a stage as JSON lines. No stage reads it."""
        return Path(".runs") / "logs" / self.profile / f"{name}.jsonl"

    @property
    def judge_answers(self) -> Path:
        """File with the answers of a judge behind an endpoint. All runs share it."""
        return Path(".cache") / "judge" / "answers.jsonl"

    def run(self, name: str, fingerprint: str) -> Path:
        """Folder of the state from which a stage resumes: no output, because DVC deletes those."""
        return Path(".runs") / self.profile / name / fingerprint


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file through ``durable.replace_file``. Raises OSError that names ``path``."""
    with named(path):
        durable.replace_file(path, write)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Raise every failure to write as an OSError that names ``path``.

    The error of a full disk names no file by itself.
    """
    try:
        yield
    except (OSError, RuntimeError, pl.exceptions.PolarsError, SafetensorError) as error:
        raise OSError(f"{path}: cannot be written ({' '.join(str(error).split())})") from error


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with Unix line ends."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write the bytes ``data``."""
    write_aside(path, lambda aside: aside.write_bytes(data))


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys. Raises ValueError for NaN and infinity."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(path, f"{text}\n")


def write_jsonl(path: Path, rows: Any) -> None:
    """Write one JSON object per line, with sorted keys."""
    lines = (json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows)
    write_text(path, "".join(f"{line}\n" for line in lines))


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises ValueError if it is missing or no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; run `dvc repro` to make it") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from None


def write_frame(path: Path, frame: pl.DataFrame, schema: pl.Schema | None = None) -> None:
    """Write CSV if the suffix is ``.csv``, else Parquet.

    Raises ValueError if a schema is given and the columns or types differ from it.
    """
    if schema is not None and frame.schema != schema:
        have, names = frame.schema, frame.schema.keys() | schema.keys()
        wrong = {n: (have.get(n), schema.get(n)) for n in names if have.get(n) != schema.get(n)}
        raise ValueError(f"{path}: columns differ from the documented schema: {wrong}")
    if path.suffix == ".csv":
        write_aside(path, lambda aside: frame.write_csv(aside))
    else:
        write_aside(path, lambda aside: frame.write_parquet(aside, compression="zstd"))


def read_frame(path: Path, schema: pl.Schema | None = None) -> pl.DataFrame:
    """Read a Parquet file. Raises ValueError if it is missing, damaged or of another schema."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; run `dvc repro` to make it")
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    if schema is not None and frame.schema != schema:
        raise ValueError(f"{path}: not of the expected schema; rebuild it")
    return frame


def move_folder(source: Path, target: Path) -> None:
    """Replace ``target``, or the folder that it links to, by ``source``, from any disk.

    Raises OSError that names ``target``.
    """
    with named(target):
        place = target.resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        durable.replace_folder(source, place)
