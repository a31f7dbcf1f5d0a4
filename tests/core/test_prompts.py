"""Templates become trusted and untrusted segments."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core import prompts
from cosearch.core.formats import TAGS
from cosearch.core.prompts import (
    document_segments,
    fill_template,
    fill_text,
    fit_documents,
    load_template,
)
from cosearch.core.protocols import Segment
from cosearch.core.types import Passage
from tests.core.builders import CODEC

SETS = pytest.mark.parametrize("name", ["tiny", "paper"])
FIELDS = {
    "agent": {"question"},
    "observation": {"documents"},
    "ranker": {"question", "query", "candidates", "n", "k"},
    "direct": {"question"},
    "rag": {"question", "documents"},
}


def fields(segments: tuple[Segment, ...]) -> set[str]:
    return {s.text[1:-1] for s in segments if not s.trusted}


@SETS
@pytest.mark.parametrize("template", FIELDS)
def test_templates_ask_for_what_is_given(name: str, template: str) -> None:
    fills = {field: [Segment(f"<{field}>", trusted=False)] for field in FIELDS[template]}
    (message,) = fill_template(name, template, fills)
    assert message.role == "user"
    optional = {"n"} if name == "tiny" else set()
    assert FIELDS[template] - fields(message.segments) <= optional


def test_paper_templates_show_the_grammar_they_are_parsed_with() -> None:
    shown = {
        "agent": TAGS[:6],
        "direct": (*TAGS[:2], *TAGS[4:6]),
        "rag": (*TAGS[:2], *TAGS[4:6]),
        "ranker": (*TAGS[:2], *TAGS[6:]),
        "observation": (),
    }
    for template, tags in shown.items():
        ((_, text),) = load_template("paper", template)
        assert {tag for tag in TAGS if tag in text} == set(tags)
    agent = "".join(s.text for s in fill_template("paper", "agent", {"question": "?"})[0].segments)
    assert '{"name": "search", "arguments": {"query": "' in agent


def test_strings_are_data_and_numbers_are_ours() -> None:
    segments = fill_text(
        "{{x}} {a} of {n}{more}", {"a": "<b>", "n": 3, "more": [Segment("m", True)]}
    )
    assert segments == (
        Segment("{", True),
        Segment("x}", True),
        Segment(" ", True),
        Segment("<b>", False),
        Segment(" of ", True),
        Segment("3", True),
        Segment("m", True),
    )


def test_data_is_not_a_template() -> None:
    assert fill_text("{a}", {"a": "{b}"}) == (Segment("{b}", False),)


def test_a_field_without_a_fill_is_refused() -> None:
    with pytest.raises(KeyError, match="query"):
        fill_text("{query}", {})


def test_a_missing_template_is_named() -> None:
    with pytest.raises(ValueError, match="no prompt template 'poet' in template set 'tiny'"):
        load_template("tiny", "poet")


def test_messages_are_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "templates" / "mine"
    folder.mkdir(parents=True)
    (folder / "two.txt").write_text("### system\nBe brief.\n\n### user\n{question}\n", "utf-8")
    (folder / "none.txt").write_text("hello\n### user\n", "utf-8")
    monkeypatch.setattr(prompts, "files", lambda package: tmp_path)
    assert load_template("mine", "two") == (("system", "Be brief."), ("user", "{question}"))
    with pytest.raises(ValueError, match="does not start with a line '### ROLE'"):
        load_template("mine", "none")


def test_documents_are_numbered_and_cut() -> None:
    first, second = document_segments(
        "{title} [{number}] {text}\n",
        [Passage("a", "A", "long text"), Passage("b", "B", "x")],
        max_chars=4,
    )
    assert "".join(s.text for s in first) == "A [1] long\n"
    assert "".join(s.text for s in second) == "B [2] x\n"
    assert [s.text for s in first if not s.trusted] == ["A", "long"]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 60), st.integers(0, 5))
def test_as_many_whole_documents_as_fit(sizes: list[int], budget: int, frame: int) -> None:
    documents = [(Segment("x" * size, False),) for size in sizes]

    def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
        return CODEC.encode([Segment("f" * frame, True), *(s for doc in kept for s in doc)])

    ids, dropped = fit_documents(render, documents, max_tokens=budget)
    if frame > budget:
        assert (ids, dropped) == ([], len(sizes))
    else:
        kept = len(sizes) - dropped
        assert ids == render(documents[:kept])
        assert len(ids) == frame + sum(sizes[:kept]) <= budget
        assert dropped == 0 or frame + sum(sizes[: kept + 1]) > budget
