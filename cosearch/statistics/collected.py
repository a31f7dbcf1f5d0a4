"""The collection of a part's rows at a seed: one small file in place of many folders.

DVC interpolates no list into the dependencies of a stage. So the tables of a scope depend on the
collection of its last seed, which holds the hash of the collection before it, and so on.
"""

from cosearch.files.artifacts import SKIPPED, Paths, write_json
from cosearch.files.hashes import hash_file
from cosearch.params.derived import Collection

RECORDS = ("gate.json", "metrics.csv", "metrics.json", "trained.json", SKIPPED)
"""Files that say what a row left; they hold the hashes of its large files."""


def collect_rows(paths: Paths, rows: Collection) -> None:
    """Write the hash of every record below the folders of the rows, by path."""
    folders = [
        paths.root / kind / rows.part / f"seed_{rows.seed}"
        for kind in ("train", "gate", "evaluate")
    ]
    files = [path for folder in folders for path in folder.rglob("*") if path.name in RECORDS]
    found = {path.as_posix(): hash_file(path) for path in [*files, paths.needed(rows.before)]}
    write_json(paths.collected(rows.part, rows.seed), found)
