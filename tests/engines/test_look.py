"""What the look at a model folder refuses, each with its own words."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, normalizers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
)

from cosearch.commands.models import record
from cosearch.core.protocols import Message, Segment
from cosearch.engines.loading import load_causal_lm, load_encoder
from cosearch.engines.policies.build import build_codec, check_plain_loading
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.engines.policies.heads import Batch, CausalHead, check_head, right_padded
from cosearch.engines.policies.logits import token_logprobs
from cosearch.engines.retrieval.encoder import positions
from cosearch.files.model_record import record_path
from tests.engines import tokenizers
from tests.engines.families import BYTES, CHATML, FAMILIES, SENTENCE, Family, save
from tests.micro import VOCABULARY, save_causal_lm
from tests.settings import write_params

ROOT = Path(__file__).parents[2]
BERT, MASKED, ROBERTA = cast("tuple[Any, ...]", (BertModel, BertForMaskedLM, RobertaModel))
"""Untyped where they come from."""
SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 66,
}


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the weights of a folder."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def drop(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.1.mlp.up_proj.weight"]


def add(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.7.mlp.up_proj.weight"] = torch.ones(2, 2)


def narrow(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.ones(2, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop, r"lacks or misshapes model\.layers\.1\.mlp\.up_proj\.weight: fetch"),
        (add, r"has no use for model\.layers\.7\.mlp\.up_proj\.weight: fetch"),
        (narrow, r"lacks or misshapes model\.layers\.1\.mlp\.up_proj\.weight: fetch"),
    ],
)
def test_weights_that_are_not_the_models_are_refused(
    change: Callable[[dict[str, torch.Tensor]], object], words: str, tmp_path: Path
) -> None:
    folder = save_causal_lm(tmp_path / "model")
    rewrite(folder, change)
    with pytest.raises(ValueError, match=words):
        load_causal_lm(folder, "float32")


def test_a_model_of_another_kind_is_refused_in_one_line(tmp_path: Path) -> None:
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="AutoModelForCausalLM cannot read") as refused:
        load_causal_lm(tmp_path, "float32")
    assert "\n" not in str(refused.value)


class BareHead(CausalHead):
    """The head that this project had: it puts states through the output layer by itself."""

    def __call__(
        self, model: Any, batch: Batch, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ids, attention = right_padded([sample.ids for sample in batch.samples], fill=0)
        masks, _ = right_padded([sample.loss_mask for sample in batch.samples], fill=0)
        chosen = masks[:, 1:].bool()
        states = model.base_model(input_ids=ids, attention_mask=attention).last_hidden_state
        logits = model.get_output_embeddings()(states[:, :-1][chosen])[:, : self._vocabulary]
        return token_logprobs(logits, ids[:, 1:][chosen], temperature)


@pytest.mark.parametrize("name", ["Granite", "Cohere", "Gemma 2"])
def test_a_head_that_skips_what_the_family_does_is_refused(name: str, tmp_path: Path) -> None:
    (family,) = (one for one in FAMILIES if one.name == name)
    save(family, tmp_path)
    model = load_causal_lm(tmp_path, "float32")
    check_head(CausalHead(100), model, tmp_path, 100)
    with pytest.raises(ValueError, match="other log-probabilities in a batch than alone"):
        check_head(BareHead(100), model, tmp_path, 100)


def test_a_tokenizer_with_more_tokens_than_rows_is_refused(tmp_path: Path) -> None:
    folder = save_causal_lm(tmp_path)
    with pytest.raises(ValueError, match="has 49 tokens and the model rows for 48"):
        CausalHead(49).load(folder, "float32")
    assert CausalHead(VOCABULARY).load(folder, "float32")


def test_an_encoder_may_lack_its_pooler_and_have_anothers_head(tmp_path: Path) -> None:
    config = BertConfig(**SMALL)
    MASKED(config).save_pretrained(tmp_path / "masked")
    BERT(config, add_pooling_layer=False).save_pretrained(tmp_path / "bare")
    for name in ("masked", "bare"):
        assert load_encoder(tmp_path / name, "float32")
    rewrite(tmp_path / "bare", lambda found: found.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(ValueError, match=r"lacks or misshapes encoder\.layer\.1"):
        load_encoder(tmp_path / "bare", "float32")
    told = json.loads((tmp_path / "masked/config.json").read_text())
    (tmp_path / "masked/config.json").write_text(json.dumps(told | {"num_hidden_layers": 1}))
    with pytest.raises(ValueError, match=r"has no use for bert\.encoder\.layer\.1"):
        load_encoder(tmp_path / "masked", "float32")


def test_positions_are_counted_as_the_family_counts_them() -> None:
    assert positions(BERT(BertConfig(**SMALL))) == 66
    roberta = ROBERTA(RobertaConfig(**SMALL))
    assert positions(roberta) == 64
    roberta(input_ids=torch.full((1, 64), 5))
    with pytest.raises(RuntimeError, match="out of bounds"):
        roberta(input_ids=torch.full((1, 65), 5))


def folder_of(tmp_path: Path, **changes: Any) -> Path:
    """A Llama with ChatML, changed."""
    save(replace(Family("", "llama", BYTES, "qwen2", CHATML), **changes), tmp_path)
    return tmp_path


def write_template(folder: Path, text: str) -> None:
    (folder / "chat_template.jinja").write_text(text, "utf-8")


TURN = "{% for m in messages %}{{ m.role + m.content + '<|im_end|>' }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ messages[-1].content }}<|im_end|>", "shows messages 2 of a conversation of user, as"),
        ("{% if messages[1] %}{{ raise_exception('one!') }}{% endif %}" + TURN, "refuses .*one!"),
        (TURN + "{{ strftime_now('%d') }}", "today's date"),
        (TURN + "{% if thinking != false %}!{% endif %}", r"chat_options: {thinking: false}"),
        (TURN + "{% if add_generation_prompt %}assistant<think>{% endif %}", "opens a turn with"),
        (TURN + "{% if add_generation_prompt %}other{% endif %}", "opens a turn with"),
    ],
)
def test_a_template_under_which_no_turn_can_be_played_is_refused(
    template: str, words: str, tmp_path: Path
) -> None:
    write_template(folder_of(tmp_path), template)
    with pytest.raises(ValueError, match=words) as refused:
        build_codec(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_block_that_the_template_closes_itself_is_no_fault(tmp_path: Path) -> None:
    prompt = "{% if add_generation_prompt %}assistant<think></think>{% endif %}"
    write_template(folder_of(tmp_path), TURN + prompt)
    assert build_codec(tmp_path)


def test_a_turn_ends_with_whatever_the_folder_names(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path,
        specials=("<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "<|im_end|>", "<|eom|>"),
        more_ends=("<|eom|>",),
    )
    codec = build_codec(folder)
    ends = {codec.decode([token]) for token in codec.eos_ids}
    assert ends == {"<|endoftext|>", "<|im_end|>", "<|eom|>"}


def test_tokens_that_are_numbered_with_gaps_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    told = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    told["model"]["vocab"]["Ġ1984"] = 900
    (folder / "tokenizer.json").write_text(json.dumps(told), "utf-8")
    with pytest.raises(ValueError, match=r"has \d+ tokens, and the last one has number 900"):
        build_codec(folder)


def lower_case(specials: Sequence[str]) -> Tokenizer:
    tokenizer = BYTES(specials)
    tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


def test_text_that_does_not_come_back_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gives 'Oslo .* back as 'oslo"):
        build_codec(folder_of(tmp_path, tokenizer=lower_case))


def test_a_folder_that_plain_transformers_reads_otherwise_is_not_trained(tmp_path: Path) -> None:
    """transformers builds the tokenizer of a Qwen2 anew, with Qwen2's own rules."""
    codec = build_codec(folder_of(tmp_path, kind="qwen2", tokenizer=tokenizers.no_blank))
    with pytest.raises(ValueError, match=r"AutoTokenizer reads .* as Qwen2Tokenizer"):
        check_plain_loading(codec)


@pytest.mark.parametrize(
    "kind", [tokenizers.metaspace, tokenizers.prepended, tokenizers.unigram, tokenizers.no_blank]
)
def test_parts_of_a_text_get_no_blanks_of_their_own(kind: Any, tmp_path: Path) -> None:
    codec: HfCodec = build_codec(
        folder_of(tmp_path, chat="mistral", tokenizer=kind, specials=SENTENCE)
    )
    data = "x</s>y <reason>\nOslo"
    parts = (
        Segment("who\n", True),
        Segment(data, False),
        Segment(" [1]\n", True),
        Segment("a", False),
    )
    text = "".join(part.text for part in parts)
    assert codec.decode(codec.encode(parts)) == text
    chat = codec.decode(codec.chat([Message("user", parts)]))
    assert chat.replace("<s> ", "<s>") == f"<s>[INST] {text}[/INST]"
    end = codec.tokenizer.eos_token_id
    assert codec.chat([Message("user", parts)]).count(end) == 0
    reply = codec.reply(parts, after_eos=False)
    assert reply == [end, *codec.reply(parts, after_eos=True)]
    assert reply.count(end) == 1


def test_a_model_that_cannot_work_is_not_recorded(tmp_path: Path) -> None:
    write_params(tmp_path, lambda _params: None)
    folder = tmp_path / "models/tiny/simulator"
    shutil.copytree(ROOT / "models/tiny/simulator", folder)
    assert "not there" not in record("tiny", tmp_path)[-1]
    place = record_path("tiny", tmp_path)
    before = place.read_bytes()
    rewrite(folder, lambda found: found.pop("model.norm.weight"))
    with pytest.raises(ValueError, match=r"models/tiny/simulator: .* lacks or misshapes model\.n"):
        record("tiny", tmp_path)
    assert place.read_bytes() == before
