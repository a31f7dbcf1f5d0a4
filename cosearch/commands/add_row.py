"""``python -m cosearch add-row``: writes a new row into params.yaml, as one that is like another
row but for some values.

All checks of params.yaml run before anything is written. No line that is there changes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from yaml import YAMLError

from cosearch.commands.rows import write_all
from cosearch.files.artifacts import write_text
from cosearch.params.checks import check_name
from cosearch.params.editing import add_entry, read_value
from cosearch.params.reading import entry_of
from cosearch.params.rows import RowEntry
from cosearch.params.rows_file import first_profile, row_command
from cosearch.params.settings import load_settings

USUAL_PART: str = RowEntry.model_fields["part"].default


def add_row(
    name: str,
    like: str,
    changes: Sequence[str],
    *,
    label: str | None = None,
    part: str = USUAL_PART,
    tables: Sequence[str] = (),
    root: Path = Path(),
) -> list[str]:
    """Add the row ``name``, which is like the row ``like`` but for ``changes`` (``KEY=VALUE``), and
    write rows.yaml anew; returns lines for the user.

    Without a label the row is called after the other row and the changes. Raises ValueError for a
    name, key, value or table that cannot be; params.yaml is then as it was.
    """
    path = root / "params.yaml"
    profile = first_profile(root)
    rows = load_settings(profile, path).file.rows
    check_name(name)
    if name in rows:
        raise ValueError(
            f"rows.{name}: this name is taken; choose another, or run remove-row first"
        )
    base = entry_of(rows, f"rows.{name}.like", like)
    entry: dict[str, Any] = {"like": like, "label": label or ", ".join([base.label, *changes])}
    entry |= {"part": part} if part != USUAL_PART else {}
    entry |= {"set": changes_of(name, changes)} | ({"tables": list(tables)} if tables else {})
    edited = add_entry(path.read_text("utf-8"), "rows", name, entry)
    load_settings(profile, path, edited)
    write_text(path, edited)
    return [
        f"rows.{name} written to {path}, like {like}",
        *write_all(root),
        f"next: {row_command(profile, name, root=root)}, or to take it back:"
        f" python -m cosearch remove-row {name}",
    ]


def changes_of(name: str, changes: Sequence[str]) -> dict[str, Any]:
    """Key -> value of ``KEY=VALUE`` words. Raises ValueError for another word, or for a key that
    stands twice."""
    found: dict[str, Any] = {}
    for change in changes:
        key, equals, word = change.partition("=")
        if not equals or not key or key in found:
            raise ValueError(f"rows.{name}.set: {change!r} is no KEY=VALUE, or names a key again")
        try:
            found[key] = read_value(word)
        except YAMLError:
            raise ValueError(f"rows.{name}.set: {key}: {word!r} is no value of YAML") from None
    return found
