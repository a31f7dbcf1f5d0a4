"""The schema of the files below ``data.folder``: questions, and the Fixed Ranker's queries."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cosearch.params.method import Positive, Section


class QuestionSource(Section):
    """A file of questions below ``data.folder``."""

    path: str
    split: str | None
    source: str
    format: str | None


class SetCounts(Section):
    """A data set: its kind, rows per split (None: all), and its files."""

    kind: Literal["single", "multi"]
    train: Annotated[int, Field(ge=0)] | None
    dev: Annotated[int, Field(ge=0)] | None
    test: Annotated[int, Field(ge=0)] | None
    files: dict[Literal["train", "dev", "test"], QuestionSource]


class ListSource(Section):
    """Queries of the Fixed Ranker's lists, of which ``queries`` are sampled: questions with
    answers, or BEIR queries with a collection of their own and the qrels that judge it."""

    path: str
    source: str
    format: str | None
    queries: Positive
    collection: str | None
    qrels: str | None

    @model_validator(mode="after")
    def _is_whole(self) -> "ListSource":
        if (self.collection is None) != (self.qrels is None):
            raise ValueError("collection and qrels come together")
        if self.qrels is not None and self.format is not None:
            raise ValueError("format: queries with qrels have none")
        return self

    def files(self) -> list[str]:
        """All its files, by path below ``data.folder``."""
        return [name for name in (self.path, self.collection, self.qrels) if name is not None]
