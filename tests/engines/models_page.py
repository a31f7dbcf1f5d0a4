"""The table of docs/models.md: which families work, as playing them shows.

``python -m tests.engines.models_page`` writes it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tests.engines import tokenizers
from tests.engines.families import FAMILIES, Family, save
from tests.engines.play import outcome

PAGE = Path(__file__).parents[2] / "docs/models.md"
BEGIN, END = "<!-- families: begin -->", "<!-- families: end -->"
HEAD = ("| family | tokenizer | chat_options | result |", "| --- | --- | --- | --- |")
TOKENIZERS: dict[Any, str] = {
    tokenizers.byte_level: "bytes",
    tokenizers.byte_level_with_bos: "bytes, with a begin",
    tokenizers.metaspace: "pieces, a blank in front",
    tokenizers.prepended: "pieces, a blank behind each special token",
    tokenizers.no_blank: "pieces",
    tokenizers.unigram: "unigram, a blank in front",
    tokenizers.few_signs: "unigram, few signs",
}


def line(family: Family, workplace: Path) -> str:
    """The family's line of the table."""
    save(family, workplace / "model")
    found = outcome(workplace / "model", family.options, workplace)
    result = "works"
    if found.refused is not None:
        result = f"refused: {found.refused}"
    elif found.packed is not None:
        result = f"works, but not with `train.engine: deepspeed`: {found.packed}"
    options = yaml.safe_dump(dict(family.options), default_flow_style=True).strip()
    shown = f"`{options}`" if family.options else ""
    cells = (family.name, TOKENIZERS[family.tokenizer], shown, _plain(result))
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """A text that Markdown shows as it is."""
    for sign in ("\\", "|", "<", "["):
        text = text.replace(sign, f"\\{sign}")
    return text


def table() -> list[str]:
    """The lines of the table as the page has them."""
    _, _, rest = PAGE.read_text("utf-8").partition(f"{BEGIN}\n")
    return rest.partition(END)[0].strip().splitlines()


def write() -> None:
    """Play every family and write the table anew."""
    lines = []
    for family in FAMILIES:
        with TemporaryDirectory() as workplace:
            lines.append(line(family, Path(workplace)))
    text = PAGE.read_text("utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    body = "\n".join((BEGIN, "", *HEAD, *lines, "", END))
    PAGE.write_text(before + body + after, "utf-8")


if __name__ == "__main__":
    write()
