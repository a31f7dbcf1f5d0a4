"""The schema of the file hub.yaml: what a profile fetches, from which revision."""

from typing import Annotated

from pydantic import Field

from cosearch.params.method import Positive, Section

Revision = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class HubModel(Section):
    """A model repository. ``chat_template`` is written beside a tokenizer that has none."""

    repo: str
    revision: Revision
    files: tuple[str, ...]
    chat_template: str | None


class HubFile(Section):
    """A file of a data set repository. ``sha256`` is of the file as published (None: not known
    beforehand, recorded by the first fetch and checked ever after); ``member`` names what is wanted
    of an archive. Of its lines ``skip`` are passed over and ``rows`` kept; None: all, uncounted."""

    repo: str
    revision: Revision
    path: str
    sha256: Sha256 | None
    member: str | None
    skip: Annotated[int, Field(ge=0)]
    rows: Positive | None
    exact: bool
    """Whether the published file must end after these rows."""


class Hub(Section):
    """Models by folder, and data by path below ``data.folder``."""

    models: dict[str, HubModel]
    files: dict[str, HubFile]
