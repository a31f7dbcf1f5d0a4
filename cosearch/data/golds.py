"""What a row says about the right answers of its question.

Golds are a text, a list of texts, such a list written as text, or an object that is known. Anything
else is refused by its key. Texts stay as published.
"""

import json
from collections.abc import Mapping

from cosearch.data.values import read_string, read_strings, shown, written_list

WITHHELD = "<unk>"
"""What TriviaQA's test set has in place of the answers, which its publisher keeps."""


def read_golds(value: object, key: str) -> tuple[str, ...]:
    """The distinct golds in the order of the file, without ``WITHHELD``; none for None.

    Known objects are TriviaQA's (``value`` and ``aliases``) and verl's (``target``). Raises
    ValueError that names the key for anything else.
    """
    if isinstance(value, str):
        value = _from_text(value, key)
    if isinstance(value, Mapping):
        return _from_object(value, key)
    golds = (value,) if isinstance(value, str) else read_strings(value, key)
    return tuple(gold for gold in golds if gold.strip() != WITHHELD)


def _from_text(text: str, key: str) -> object:
    """A list or an object that was written as text, None for a blank text, else the text itself."""
    body = read_string(text, key).strip()
    inside = body.removeprefix("array(")
    if inside.startswith("[") and (
        inside.endswith("]") or inside != body or inside.startswith(("['", '["'))
    ):
        return written_list(text, key)
    if body.startswith("{") and body.endswith("}"):
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{key!r}: an object written as text, but not as JSON") from error
    return text if body else None


def _from_object(value: Mapping[str, object], key: str) -> tuple[str, ...]:
    if "target" in value:
        return read_golds(value["target"], f"{key}.target")
    for first, others in (("value", "aliases"), ("Value", "Aliases")):
        if first in value:
            main = read_golds([value[first]], f"{key}.{first}")
            return tuple(dict.fromkeys((*main, *read_golds(value.get(others), f"{key}.{others}"))))
    words = "an object with neither value and aliases (TriviaQA) nor target (verl)"
    raise ValueError(f"{key!r} is {words} but {shown(dict(value))}")
