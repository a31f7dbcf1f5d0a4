"""Fetches models and data of a profile from the hub, pinned by revision and checked (Section 4.1).

``fetched.json`` beside the files records repository, revision, sha256 and rows. If params.yaml
gives no hash of a published file, the first fetch records its hash, and later fetches refuse other
content under the same revision. Without a network one error names all missing files with their
places. A user may put a file there by hand, and then the fetch records its hash.
"""

import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from cosearch.data.containers import open_bytes
from cosearch.files.artifacts import read_json, write_aside, write_json, write_text
from cosearch.files.hashes import hash_file
from cosearch.params.hub import Hub, HubFile, HubModel

RECORD = "fetched.json"

Download = Callable[[str, str, str, str], Path]
"""Maps ("model" or "dataset", repository, revision, file) to the path of a local copy.

Raises OSError if there is no copy.
"""


def download(kind: str, repo: str, revision: str, name: str) -> Path:
    """Download a file from the hub or take it from the cache. Raises OSError if neither has it."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(repo, name, repo_type=kind, revision=revision))


def fetch(hub: Hub, root: Path, data: Path, get: Download, say: Callable[[str], None]) -> None:
    """Put models below ``root`` and data below ``data``. Files that are recorded already stay.

    Raises ValueError if files cannot be fetched (it names all of them with their places), if a file
    has other content than recorded or expected, or a wrong number of rows.
    """
    lacking: list[str] = []
    for folder, model in hub.models.items():
        say(f"{folder}: {model.repo}")
        lacking += _fetch_model(model, root / folder, get)
    for name, file in hub.files.items():
        say(f"{data / name}: {file.repo} {file.path}")
        lacking += _fetch_file(file, data / name, data / RECORD, name, get)
    if lacking:
        raise ValueError(
            "cannot be fetched; allow the network (HF_HUB_OFFLINE=0) or place by hand: "
            + "; ".join(lacking)
        )


def _fetch_model(model: HubModel, folder: Path, get: Download) -> list[str]:
    """Copy the files of a model. Returns the missing ones."""
    record = _records(folder / RECORD)
    lacking = []
    for name in model.files:
        source = f"{model.repo}@{model.revision}/{name}"
        target, known = folder / name, record.get(name, {})
        if target.is_file() and known.get("source") == source:
            _same(target, hash_file(target), known["sha256"])
            continue
        try:
            found = get("model", model.repo, model.revision, name)
        except OSError:
            if not target.is_file():
                lacking.append(f"{source} at {target}")
                continue
        else:
            write_aside(target, partial(shutil.copyfile, found))
        record[name] = {"source": source, "sha256": hash_file(target)}
        write_json(folder / RECORD, record)
    if model.chat_template is not None:
        write_text(folder / "chat_template.jinja", model.chat_template)
    return lacking


def _fetch_file(file: HubFile, target: Path, path: Path, name: str, get: Download) -> list[str]:
    """Cut a data file out of the published file. Returns it as missing if there is no copy."""
    record = _records(path)
    wanted = file.model_dump(mode="json", exclude={"sha256"})
    known = record.get(name, {})
    if target.is_file() and known.get("wanted") == wanted:
        _same(target, hash_file(target), known["sha256"])
        return []
    source = f"{file.repo}@{file.revision}/{file.path}"
    try:
        found = get("dataset", file.repo, file.revision, file.path)
    except OSError:
        if not target.is_file():
            return [f"{source}{_wanted(file)} at {target}"]
        published, rows = None, _count(target, file)
    else:
        published = hash_file(found)
        expected = file.sha256 or _published(record, source)
        if expected is not None:
            _same(found, published, expected)
        rows = _cut(found, file, target)
    record[name] = {
        "wanted": wanted,
        "source": source,
        "published_sha256": published,
        "sha256": hash_file(target),
        "rows": rows,
    }
    write_json(path, record)
    return []


def _cut(found: Path, file: HubFile, target: Path) -> int:
    """Write the wanted lines. Returns their number. Raises ValueError if it is not the expected
    one."""
    rows = 0

    def write(aside: Path) -> None:
        nonlocal rows
        with _lines(found, file.member) as lines, aside.open("wb") as out:
            stop = None if file.rows is None else file.skip + file.rows
            for line in islice(lines, file.skip, stop):
                out.write(line)
                rows += 1
            more = next(lines, None) is not None
        if (file.rows is not None and rows != file.rows) or (file.exact and more):
            there = f"more than {rows}" if more else str(rows)
            raise ValueError(f"{found}: {there} rows after line {file.skip}, {file.rows} expected")

    write_aside(target, write)
    return rows


def _count(placed: Path, file: HubFile) -> int:
    """Number of rows of a file that a user has cut and put there by hand.

    Raises ValueError if it is not the expected number.
    """
    with placed.open("rb") as lines:
        rows = sum(1 for _ in lines)
    if file.rows not in (None, rows):
        raise ValueError(f"{placed}: {rows} rows, {file.rows} expected")
    return rows


@contextmanager
def _lines(path: Path, member: str | None) -> Iterator[Iterator[bytes]]:
    """Stream the lines of a file, which may be compressed, or of a member of an archive."""
    if member is None:
        with open_bytes(path) as opened:
            yield iter(opened)
        return
    with tarfile.open(path, "r|*") as archive:
        inside = (item for item in archive if item.name == member and item.isfile())
        first = next(inside, None)
        handle = archive.extractfile(first) if first else None
        if handle is None:
            raise ValueError(f"{path}: the archive holds no {member}")
        yield iter(handle)


def _wanted(file: HubFile) -> str:
    """The wanted part of the published file, in words."""
    member = f" (of it {file.member})" if file.member else ""
    if file.exact or file.rows is None:
        return member
    return f"{member} (lines {file.skip + 1} to {file.skip + file.rows})"


def _records(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _published(record: dict[str, Any], source: str) -> str | None:
    """Hash of a published file in the record of an earlier fetch, or None."""
    rows = (row["published_sha256"] for row in record.values() if row["source"] == source)
    return next((sha256 for sha256 in rows if sha256), None)


def _same(path: Path, found: str, expected: str) -> None:
    if found != expected:
        raise ValueError(f"{path}: sha256 {found}, {expected} expected; remove it and fetch again")
