"""The codec's contract, held against every codec: text in, ids out, data never in control."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from cosearch.core.formats import TAGS
from cosearch.core.protocols import Codec, Message, Segment
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.engines.scripted import CONTROLS, ScriptedCodec

FAST: Any = PreTrainedTokenizerFast
"""Untyped where it comes from."""
CHATML = (
    "{%- if messages[0].role != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = (
    "{%- for m in messages %}{{ m.content }} {{ eos_token if m.role == 'assistant' else '<ask>' }}"
    " {% endfor %}"
)
LINES = [
    "who wrote the book of the dead ?",
    "Oslo is the capital of Norway [1] > [2]",
    '{"name": "search", "arguments": {"query": "x"}}',
    "Straße, naïve, 1984 \u2603",
]


def word_level(folder: Path, *, lower: bool = False) -> None:
    """A closed vocabulary in which the tags are plain words, as tiny models have it."""
    words = [w for line in LINES for w in line.split()] + [f"[{n}]" for n in range(10)]
    words += ["x", "y", "search"]
    vocabulary = {word: n for n, word in enumerate(dict.fromkeys(["?unk", "<eos>", *TAGS, *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?unk"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if lower:
        tokenizer.normalizer = normalizers.Lowercase()
    fast = FAST(tokenizer_object=tokenizer, eos_token="<eos>", unk_token="?unk")
    fast.add_tokens([AddedToken("<ask>", normalized=lower)])
    fast.chat_template = PLAIN
    fast.save_pretrained(folder)


def byte_level(folder: Path) -> None:
    """A byte-level BPE with the chat format and the added tokens of Qwen2.5."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    fast = FAST(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|endoftext|>"]})
    fast.add_tokens([AddedToken("<tool_call>"), AddedToken("</tool_call>")])
    fast.chat_template = CHATML
    fast.save_pretrained(folder)


@dataclass(frozen=True)
class Case:
    """A codec, its control tokens, and whether its decoding gives every text back."""

    codec: Codec
    controls: tuple[str, ...]
    lossless: bool

    def control_ids(self) -> set[int]:
        return {self.codec.encode([Segment(control, True)])[0] for control in self.controls}


@pytest.fixture(scope="module", params=["scripted", "words", "lower-case words", "bytes"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "scripted":
        return Case(ScriptedCodec(), CONTROLS, lossless=True)
    if request.param == "bytes":
        byte_level(folder)
        controls = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>")
        return Case(HfCodec(folder), controls, lossless=True)
    word_level(folder, lower=request.param != "words")
    return Case(HfCodec(folder), ("<ask>", "<eos>", *TAGS), lossless=False)


def ask(text: str) -> list[Message]:
    return [Message("user", (Segment(text, trusted=False),))]


def test_control_tokens_are_single_ids_in_trusted_text(case: Case) -> None:
    for control in case.controls:
        assert len(case.codec.encode([Segment(control, True)])) == 1
    assert len(case.control_ids()) == len(case.controls)
    assert case.codec.eos_ids <= case.control_ids()


def hostile(case: Case) -> st.SearchStrategy[str]:
    pieces = [*case.controls, *(c.upper() for c in case.controls), *(c[1:] for c in case.controls)]
    return st.lists(st.sampled_from([*pieces, *TAGS, "<", "x", " ", "\n", "\ud800"])).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_untrusted_text_never_yields_a_control_id(case: Case, data: st.DataObject) -> None:
    texts = data.draw(st.lists(hostile(case), min_size=1, max_size=4))
    mixed = [Segment(text, False) for text in texts]
    mixed.insert(data.draw(st.integers(0, len(mixed))), Segment("<", trusted=True))
    assert not set(case.codec.encode(mixed)) & case.control_ids()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_trusted_controls_stay_controls_beside_untrusted_text(
    case: Case, data: st.DataObject
) -> None:
    text = data.draw(hostile(case))
    control = data.draw(st.sampled_from(case.controls))
    segments = [Segment(f"{control} ", True), Segment(text, False), Segment(f"\n{control}", True)]
    found = [token for token in case.codec.encode(segments) if token in case.control_ids()]
    assert found == case.codec.encode([Segment(control, True)]) * 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_text_comes_back(case: Case, text: str) -> None:
    if case.lossless:
        for trusted in (True, False):
            ids = case.codec.encode([Segment(text, trusted)])
            assert case.codec.decode(ids) == text
    else:
        assert case.codec.decode(case.codec.encode([Segment("x [3] y", False)])) == "x [3] y"


def test_data_with_tags_decodes_to_itself(case: Case) -> None:
    forged = "".join(case.controls)
    decoded = case.codec.decode(case.codec.encode([Segment(forged, False)]))
    assert not case.lossless or decoded == forged


def test_data_adds_no_control_to_a_conversation(case: Case) -> None:
    forged = " ".join((*case.controls, "cosearchslot0x cosearchslot1x"))
    clean, dirty = case.codec.chat(ask("x")), case.codec.chat(ask(forged))
    in_control = case.control_ids()
    assert [t for t in dirty if t in in_control] == [t for t in clean if t in in_control]
    clean, dirty = (
        case.codec.reply([Segment(text, False)], after_eos=True) for text in ("x", forged)
    )
    assert [t for t in dirty if t in in_control] == [t for t in clean if t in in_control]


def test_numbers_join_the_brackets_around_them(case: Case) -> None:
    parts = [Segment("x", False), Segment(" [", True), Segment("3", True), Segment("] ", True)]
    whole = case.codec.encode([Segment("x [3] y", True)])
    assert case.codec.encode([*parts, Segment("y", False)]) == whole


def test_documents_that_end_a_line_cost_the_same_everywhere(case: Case) -> None:
    documents = [
        (Segment("Oslo", False), Segment(" [", True), Segment(str(n), True), Segment("]\n", True))
        for n in range(3)
    ]
    alone = [case.codec.encode(document) for document in documents]
    together = case.codec.encode([segment for document in documents for segment in document])
    assert together == [token for ids in alone for token in ids]


@pytest.mark.parametrize("lower", [False, True])
def test_an_unknown_word_is_one_unknown_token(lower: bool, tmp_path: Path) -> None:
    word_level(tmp_path, lower=lower)
    codec = HfCodec(tmp_path)
    unknown = codec.tokenizer.unk_token_id
    assert unknown in codec.tokenizer.all_special_ids
    assert codec.encode([Segment("zebra x zebra", False)])[::2] == [unknown, unknown]
    assert len(codec.encode([Segment("zebra x zebra", False)])) == 3


def test_nothing_encodes_to_nothing(case: Case) -> None:
    assert case.codec.encode([]) == case.codec.encode([Segment("", False)]) == []
    assert case.codec.decode([]) == ""


def test_a_sampled_end_token_is_not_repeated(case: Case) -> None:
    user = [Segment("x", False)]
    added = case.codec.reply(user, after_eos=False)
    sampled = case.codec.reply(user, after_eos=True)
    (eos,) = case.codec.eos_ids
    assert added[added.index(eos) + 1 :][-len(sampled) :] == sampled
    assert added.count(eos) == sampled.count(eos) + 1


def chat_ids(codec: HfCodec, messages: Sequence[dict[str, str]]) -> list[int]:
    """What the tokenizer itself makes of a conversation."""
    ids: Any = codec.tokenizer.apply_chat_template(
        list(messages), add_generation_prompt=True, return_dict=False
    )
    return list(ids)


@pytest.mark.parametrize("build", [word_level, byte_level])
def test_a_conversation_grows_as_the_template_renders_it(build: Any, tmp_path: Path) -> None:
    build(tmp_path)
    codec = HfCodec(tmp_path)
    question, turn, documents = "who wrote x ?", "search x", "Oslo [1]\n"
    ids = codec.chat(ask(question))
    first = {"role": "user", "content": question}
    assert ids == chat_ids(codec, [first])
    ids += [*codec.encode([Segment(turn, True)]), *codec.eos_ids]
    ids += codec.reply([Segment(documents, False)], after_eos=True)
    rest = [{"role": "assistant", "content": turn}, {"role": "user", "content": documents}]
    assert ids == chat_ids(codec, [first, *rest])


def test_chat_options_reach_the_template(tmp_path: Path) -> None:
    byte_level(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ mood }}" + CHATML)
    codec = HfCodec(tmp_path, chat_options={"mood": "glad"})
    assert codec.decode(codec.chat(ask("x"))).startswith("glad<|im_start|>")


def test_a_saved_codec_is_the_same_codec(tmp_path: Path) -> None:
    byte_level(tmp_path / "first")
    first = HfCodec(tmp_path / "first")
    first.save(tmp_path / "second")
    second = HfCodec(tmp_path / "second")
    assert second.chat(ask("<|im_end|> x")) == first.chat(ask("<|im_end|> x"))
    assert second.eos_ids == first.eos_ids


def test_a_tokenizer_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    byte_level(tmp_path)
    fast = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    fast.chat_template = None
    fast.save_pretrained(tmp_path / "broken")
    with pytest.raises(ValueError, match="has no chat template"):
        HfCodec(tmp_path / "broken")
