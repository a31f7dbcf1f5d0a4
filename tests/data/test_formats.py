"""Every value of a row has one type, or is refused by its key; hub layouts keep what they say."""

import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.data.formats import FORMATS, SourceRow, sniff
from cosearch.data.golds import read_golds
from cosearch.data.passages import TextStyle, open_style, passages_of
from cosearch.data.questions import RowReader
from cosearch.data.values import read_id, read_split, read_string

PLAIN = TextStyle(quoted=False, doubled=False, glue=" ")


def parse(record: dict[str, Any]) -> SourceRow:
    return RowReader().parse(1, record)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_a_list_that_is_written_as_text_is_that_list(golds: list[str]) -> None:
    expected = tuple(gold for gold in golds if gold.strip() != "<unk>")
    array = np.array(golds, dtype=object)
    scalars = "[" + ", ".join(f"np.str_({gold!r})" for gold in golds) + "]"
    for text in (json.dumps(golds), repr(golds), str(array), repr(array), scalars):
        assert read_golds(text, "answer") == expected
    assert read_golds(golds, "answer") == read_golds({"target": golds}, "answer") == expected


@pytest.mark.parametrize(
    ("value", "golds"),
    [
        ("River 0", ("River 0",)),
        ("[Ar] 3d", ("[Ar] 3d",)),
        ("(500) Days", ("(500) Days",)),
        (["a", "b", "a"], ("a", "b")),
        (["[Ar]"], ("[Ar]",)),
        ("['it' 'is'\n \"it's\"]", ("it", "is", "it's")),
        ("array(['a', 'b'], dtype=object)", ("a", "b")),
        ('["\\ud83c\\uddeb\\ud83c\\uddf7"]', ("\U0001f1eb\U0001f1f7",)),
        ("['\\ud83c\\uddeb']", ("\U0001f1eb",)),
        ({"value": "a", "aliases": ["b", "a"], "normalized_value": "z"}, ("a", "b")),
        ({"Value": "a", "Aliases": None}, ("a",)),
        ('{"value": "a", "aliases": ["b"]}', ("a", "b")),
        ({"target": "a"}, ("a",)),
        ({"target": "['a', 'b']"}, ("a", "b")),
        ("<unk>", ()),
        (["<unk>", "a"], ("a",)),
        ({"value": "<unk>", "aliases": []}, ()),
        (None, ()),
        ("", ()),
        ("[]", ()),
    ],
)
def test_golds_of_every_kind(value: object, golds: tuple[str, ...]) -> None:
    assert read_golds(value, "answer") == golds


def nested(depth: int) -> list[Any]:
    value: list[Any] = ["a"]
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (8, "'answer' is not a list but int 8"),
        (True, "'answer' is not a list but bool"),
        ([8], "'answer' is not a text but int 8"),
        ([None], "'answer' is not a text but NoneType"),
        ([["a"]], "'answer' is not a text but list"),
        (nested(500), "'answer' is not a text but list"),
        ({"text": ["a"]}, "'answer' is an object with neither value and aliases"),
        ({"target": 8}, "'answer.target' is not a list but int 8"),
        ({"value": 8, "aliases": []}, "'answer.value' is not a text but int 8"),
        ("[1997]", "'answer' is not a text but int 1997"),
        ("[River 0, River 1]", "'answer': not a list literal"),
        ("['a', 'b', ", "'answer': not a list literal"),
        ("['a' 'b' ... 'z']", "'answer': not a list literal"),
        ("['a''b']", "'answer': not a list literal"),
        (r"['a\d']", "'answer': not a list literal"),
        ("[" * 9000 + "]" * 9000, "'answer': not a list literal"),
        ("{'value': 'a'}", "'answer': an object written as text, but not as JSON"),
        ("\ud83d", "'answer' has half of a surrogate pair (\\ud83d) as its character 1"),
        ("['\\ud83d']", "'answer' has half of a surrogate pair (\\ud83d)"),
    ],
)
def test_anything_else_is_refused_by_its_key(value: object, words: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        read_golds(value, "answer")


def test_withheld_golds_are_no_golds() -> None:
    with pytest.raises(ValueError, match="no gold answer under 'answer'"):
        parse({"question": "who", "answer": {"value": "<unk>", "aliases": []}, "question_id": "1"})


@pytest.mark.parametrize(
    ("id_", "expected"), [(0, "0"), ("0", "0"), ("a b", "a b"), (None, None), ("", None)]
)
def test_ids_that_are_there_stay(id_: object, expected: str | None) -> None:
    assert read_id({"id": id_}) == expected
    for name, form in FORMATS.items():
        golds = {"reward_model": {"ground_truth": "a"}} if name == "verl" else {}
        row = dict.fromkeys(form.keys, None) | {form.question: "who", form.answers[0]: "a"} | golds
        row |= {"prompt": [{"content": "who"}]} if name == "verl" else {}
        row.pop("QuestionId", None), row.pop("question_id", None)
        assert form.parse(row | {"id": id_}).id == expected


@pytest.mark.parametrize("id_", [1.5, 0.0, True, ["a"], {"a": 1}, "\ud83d"])
def test_ids_of_another_type_are_refused(id_: object) -> None:
    with pytest.raises(ValueError, match=r"^'id' "):
        read_id({"id": id_})


def test_splits_have_their_usual_names() -> None:
    names = ["train", "Training", "dev", "validation", "val", "test", None, ""]
    expected = ["train", "train", "dev", "dev", "dev", "test", None, None]
    assert [read_split(name) for name in names] == expected
    for name in ("fold 1", 1):
        with pytest.raises(ValueError, match="'split' is none of train"):
            read_split(name)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"id": 1}, {"id": "1"}, "duplicate id '1'"),
        ({"id": 1}, {}, "no id, unlike row 1"),
        ({"id": None}, {"id": 0}, "an id, unlike row 1"),
        ({"split": "test"}, {}, "no split, unlike row 1"),
        ({"split": "test", "id": 1}, {"split": "validation", "id": 1}, None),
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    first: dict[str, Any], second: dict[str, Any], words: str | None
) -> None:
    reader, row = RowReader(), {"question": "who", "answer": "a"}
    reader.parse(1, row | first)
    if words is None:
        reader.parse(2, row | second)
        return
    with pytest.raises(ValueError, match=words):
        reader.parse(2, row | second)


HOTPOT = {"id": "h1", "question": "who", "answer": "a", "type": "bridge"}
FLASHRAG = {"id": "h1", "question": "who", "golden_answers": ["a"]}
FACTS = {"title": ["The Ferry", "Pier", "Pier"], "sent_id": [0, 1, 2]}
CONTEXT = {"title": ["The Ferry"], "sentences": [["It sails.", " It rests."]]}
PARAGRAPHS = [
    {"idx": 0, "title": "The Ferry", "paragraph_text": "It sails.", "is_supporting": True},
    {"idx": 1, "title": "Dock", "paragraph_text": "It is wet.", "is_supporting": False},
    {"idx": 2, "title": "Pier", "paragraph_text": "It is dry.", "is_supporting": True},
]


def columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: [row[key] for row in rows] for key in rows[0]}


@pytest.mark.parametrize(
    ("record", "form"),
    [
        (HOTPOT | {"supporting_facts": FACTS, "context": CONTEXT}, "hotpotqa"),
        (HOTPOT | {"supporting_facts": [["The Ferry", 0], ["Pier", 1]]}, "hotpotqa"),
        (HOTPOT | {"supporting_facts": json.dumps([["The Ferry", 0], ["Pier", 1]])}, "hotpotqa"),
        (HOTPOT | {"supporting_facts": [{"title": "The Ferry"}, {"title": "Pier"}]}, "hotpotqa"),
        (HOTPOT | {"paragraphs": PARAGRAPHS, "answer_aliases": []}, "musique"),
        (HOTPOT | {"paragraphs": columns(PARAGRAPHS), "answer_aliases": []}, "musique"),
        (FLASHRAG | {"metadata": {"supporting_facts": FACTS}}, "flashrag"),
        (
            {"id": "h1", "question": "who", "possible_answers": '["a"]', "paragraphs": PARAGRAPHS},
            "popqa",
        ),
    ],
)  # fmt: skip
def test_hub_layouts_keep_ids_and_evidence(record: dict[str, Any], form: str) -> None:
    assert sniff(record) == form
    row = parse(record)
    assert (row.id, row.golds, row.supporting) == ("h1", ("a",), ("The Ferry", "Pier"))


def test_triviaqa_from_the_hub_keeps_its_id() -> None:
    answer = {"value": "a", "aliases": ["b"], "normalized_value": "a", "type": "FreeForm"}
    record = {"question": "who", "question_id": "tc_0", "answer": answer, "entity_pages": {}}
    assert sniff(record) == "triviaqa_hub"
    assert parse(record) == SourceRow("who", ("a", "b"), "tc_0")


def test_aliases_count_in_every_layout() -> None:
    row = {"question": "who", "answer": "a", "answer_aliases": ["b"]}
    assert parse(row).golds == parse(row | {"supporting_facts": []}).golds == ("a", "b")


VERL: dict[str, Any] = {"reward_model": {"ground_truth": {"target": ["a"]}}}


def test_verl_rows_name_question_id_and_split() -> None:
    asked = {"prompt": [{"role": "user", "content": "who"}]}
    assert parse(VERL | asked | {"id": 0}) == SourceRow("who", ("a",), "0")
    extra = {"question": "which", "split": "test"}
    assert parse(VERL | asked | {"extra_info": extra}) == SourceRow("which", ("a",), split="test")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (VERL | {"prompt": []}, "no question, and 'prompt' has no message"),
        (VERL | {"prompt": "who"}, "no question, and 'prompt' has no message"),
        (VERL | {"prompt": [{}]}, "'question' is not a text but NoneType"),
        (VERL | {"prompt": [{"content": " "}]}, "blank 'question'"),
        ({"prompt": [{"content": "who"}], "reward_model": None}, "no key 'ground_truth'"),
        ({"question": None, "answer": "a"}, "'question' is not a text but NoneType"),
        ({"question": "who \ud83d", "answer": "a"}, "'question' has half of a surrogate pair"),
        (HOTPOT | {"supporting_facts": [["a", 0, 1]]}, "'supporting_facts' has a row that is"),
        (HOTPOT | {"supporting_facts": {"title": ["a"], "x": []}}, "'supporting_facts' is not a t"),
        (HOTPOT | {"supporting_facts": "a, b"}, "'supporting_facts' is a text that is not JSON"),
        (HOTPOT | {"supporting_facts": [{"name": "a"}]}, "'supporting_facts.title' is not a text"),
    ],
)
def test_rows_without_a_question_or_with_odd_evidence_are_refused(
    record: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        parse(record)


def test_texts_stay_as_they_are() -> None:
    odd = " \u2028a\x85b\x1cc  "
    assert read_string(odd, "text") == odd
    (passage,) = passages_of({"id": 0, "title": odd, "text": odd}, PLAIN)
    assert (passage.id, passage.title, passage.text) == ("0", odd, odd)


def bodies(*records: dict[str, Any]) -> list[tuple[str, str]]:
    style, rows = open_style(enumerate(records, start=1))
    return [(p.title, p.text) for _, row in rows for p in passages_of(row, style)]


def contents(*texts: str) -> list[dict[str, Any]]:
    return [{"id": str(n), "contents": text} for n, text in enumerate(texts)]


def test_quotes_are_undone_only_where_a_csv_export_doubled_them() -> None:
    plain = contents('Page 0\nx = "" and y = "a""b"', 'Page\nx = ""')
    assert bodies(*plain) == [("Page 0", 'x = "" and y = "a""b"'), ("Page", 'x = ""')]
    spoken = contents('"Page 0"\nHe said "no".', '"Page 1"\nx = "" and "y"', "One\n2")
    assert bodies(*spoken)[1] == ("Page 1", 'x = "" and "y"')
    wiki = contents('"Page 0"\nHe said ""no"".', 'Page\n""Yes""', '"Page 1"\nodd " one')
    assert bodies(*wiki) == [
        ("Page 0", 'He said "no".'),
        ("Page", '"Yes"'),
        ("Page 1", 'odd " one'),
    ]


@pytest.mark.parametrize("key", ["sentences", "content"])
@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        (['He read "', 'Now".', " It was late", "."], 'He read "Now". It was late.'),
        (["He read it.", "It was late."], "He read it. It was late."),
    ],
)  # fmt: skip
def test_blanks_at_borders_of_sentences_stay(key: str, sentences: list[str], text: str) -> None:
    table = {"title": ["A"], key: [sentences]}
    rows, pairs = [{"title": "A", key: sentences}], [["A", sentences]]
    for context in (table, rows, pairs, json.dumps(pairs)):
        assert bodies({"context": context}) == [("A", text)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"id": 1.5, "text": "x"}, "'id' is neither a text nor a whole number"),
        ({"text": None}, "'text' is not a text but NoneType"),
        ({"text": "\ud83d"}, "'text' has half of a surrogate pair"),
        ({"context": "a passage"}, "'context' is a text that is not JSON"),
        ({"context": [["A", [1]]]}, "'context' is not a text but int 1"),
        ({"paragraphs": [{"title": "A"}]}, "'paragraphs' has a paragraph without text"),
        ({"contents": ["A", "b"]}, "'contents' is not a text but list"),
    ],
)
def test_faulty_passages_are_refused_by_key(record: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(words)):
        passages_of(record, PLAIN)


def test_a_passage_may_have_no_title() -> None:
    for row in ({"text": "x"}, {"text": "x", "title": None, "id": None}, {"text": "x", "id": ""}):
        (passage,) = passages_of(row, PLAIN)
        assert (passage.id, passage.title) == ("", "")
