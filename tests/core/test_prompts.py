"""Templates become trusted and untrusted segments."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core import prompts
from cosearch.core.formats import GRAMMARS, RANKING_BLOCKS, TAGS, Answer, Search, parse_turn
from cosearch.core.prompts import (
    Prompting,
    fill_template,
    fill_text,
    fit_documents,
    load_messages,
    load_opening,
    load_template,
    load_text,
)
from cosearch.core.protocols import Message, Segment
from cosearch.core.types import Passage
from tests.core.builders import CODEC

SETS = pytest.mark.parametrize("name", ["tiny", "worked", "paper"])
FIELDS: dict[str, set[str]] = {
    "agent": {"question"},
    "agent_tags": {"question"},
    "observation": {"documents"},
    "observation_notes": {"documents"},
    "observation_tags": {"documents"},
    "notice": set(),
    "notice_tags": set(),
    "last": set(),
    "last_tags": set(),
    "ranker": {"question", "query", "candidates", "n", "k"},
    "direct": {"question"},
    "cot": {"question"},
    "rag": {"question", "documents"},
    "notes": {"question", "reasoning", "query", "documents"},
    "notes_nothing": set(),
    "notes_repeated": set(),
    "simulate_useful": {"question", "query", "gold", "k"},
    "simulate_noisy": {"question", "query", "gold", "k"},
    "pair": {"question", "query", "title", "text"},
    "judge": {"question", "query", "documents", "reason", "gold"},
    "judge_chat": {"question", "golds", "query", "documents"},
}
SCORED = ("judge",)
"""Templates whose last block is the assistant's: what it holds is scored, not sampled."""
UNUSED = {"tiny": {"n", "reasoning", "k"}, "worked": set[str](), "paper": set[str]()}
REACT, BARE = GRAMMARS["react"], GRAMMARS["tags"]
TURN = (REACT.reason, REACT.search, REACT.answer)
BARE_TURN = (BARE.reason, BARE.search, BARE.answer)
SHOWN: dict[str, tuple[str, ...]] = {
    "agent": TURN,
    "notice": TURN,
    "last": (REACT.reason, REACT.answer),
    "direct": (REACT.reason, REACT.answer),
    "cot": (REACT.reason, REACT.answer),
    "rag": (REACT.reason, REACT.answer),
    "judge": (REACT.reason, REACT.answer),
    "notes": (REACT.reason,),
    "agent_tags": BARE_TURN,
    "notice_tags": BARE_TURN,
    "last_tags": (BARE.reason, BARE.answer),
    "ranker": RANKING_BLOCKS,
}


def fields(messages: Iterable[Message]) -> set[str]:
    return {s.text[1:-1] for message in messages for s in message.segments if not s.trusted}


@SETS
def test_every_set_holds_every_template(name: str) -> None:
    folder = Path(prompts.__file__).parent / "templates" / name
    assert {path.stem for path in folder.iterdir()} == set(FIELDS)


@SETS
@pytest.mark.parametrize("template", FIELDS)
def test_templates_ask_for_what_is_given(name: str, template: str) -> None:
    fills = {field: [Segment(f"<{field}>", trusted=False)] for field in FIELDS[template]}
    messages = fill_template(name, template, fills)
    assert messages[-1].role == ("assistant" if template in SCORED else "user")
    assert FIELDS[template] - fields(messages) <= UNUSED[name]


@pytest.mark.parametrize("name", ["worked", "paper"])
@pytest.mark.parametrize("template", FIELDS)
def test_templates_show_the_grammar_they_are_parsed_with(name: str, template: str) -> None:
    text = "".join(text for _, text in load_messages(name, template))
    tags = {tag for shown in SHOWN.get(template, ()) for tag in (f"<{shown}>", f"</{shown}>")}
    assert {tag for tag in TAGS if tag in text} == tags


def test_the_call_of_the_agent_stands_in_its_prompt() -> None:
    for name in ("worked", "paper"):
        messages = fill_template(name, "agent", {"question": "?"})
        text = "".join(s.text for message in messages for s in message.segments)
        assert '{"name": "search", "arguments": {"query": "' in text


@pytest.mark.parametrize("template", ["agent", "direct", "rag", "ranker"])
def test_examples_begin_as_the_reply_does(template: str) -> None:
    """What the template writes itself must not differ from what its examples show."""
    said = [text for role, text in load_messages("worked", template) if role == "assistant"]
    first, later = load_opening("worked", template), load_opening("worked", "observation")
    openings = [first, later] * 3 if template == "agent" else [first] * 3
    assert all(openings)
    begun = [text[: len(opening)] for text, opening in zip(said, openings, strict=True)]
    assert begun == openings


def test_only_the_worked_set_opens_replies() -> None:
    opened = {s for s in ("tiny", "worked", "paper") for t in FIELDS if load_opening(s, t)}
    assert opened == {"worked"}


def test_every_example_turn_is_of_its_grammar() -> None:
    for template, grammar in (("agent", REACT), ("agent_tags", BARE)):
        said = [m for m in fill_template("worked", template, {"question": "?"})]
        turns = ["".join(s.text for s in m.segments) for m in said if m.role == "assistant"]
        actions = [type(parse_turn(text, grammar)) for text in turns]
        assert actions == [Search, Answer] * 3


def examples(template: str) -> list[str]:
    """What the assistant says in the worked template."""
    return [text for role, text in load_template("worked", template) if role == "assistant"]


def test_every_example_answer_is_of_the_papers_grammar() -> None:
    for template in ("direct", "cot", "rag"):
        turns = examples(template)
        assert len(turns) == 3
        assert all(isinstance(parse_turn(text, REACT), Answer) for text in turns)


def test_the_text_of_a_template_is_that_of_its_only_block() -> None:
    assert load_text("tiny", "observation") == "{documents}"
    with pytest.raises(ValueError, match="too many values"):
        load_text("tiny", "notes")


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
    prompting = Prompting("tiny", "{title} [{number}] {text}\n", max_document_chars=4)
    first, second = prompting.documents([Passage("a", "A", "long text"), Passage("b", "B", "x")])
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
