"""The real small models, where they were fetched: they must be the models they claim to be."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cosearch.engines.retrieval.encoder import DenseEncoder
from cosearch.params.blocks import Encoder
from tests.settings import block

MINI = Path(__file__).parents[2] / "models" / "mini"
pytestmark = pytest.mark.skipif(
    not (MINI / "recipe.json").is_file(), reason="models/mini was not fetched"
)


def test_the_encoder_knows_what_is_about_what() -> None:
    encoder = DenseEncoder(
        MINI / "encoder",
        block(
            Encoder,
            query_prefix="",
            passage_prefix="",
            max_length=128,
            batch_size=32,
            dtype="bfloat16",
        ),
    )
    texts = ["a violin and a cello", "the orchestra plays", "concrete sets slowly"]
    first, near, far = encoder.encode_queries(texts)
    assert first @ near > 0.3 > first @ far


def test_the_chat_model_answers() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MINI / "chat")
    model = AutoModelForCausalLM.from_pretrained(MINI / "chat", dtype=torch.float32)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**prompt, max_new_tokens=8, do_sample=False)
    text = tokenizer.decode(output[0, prompt["input_ids"].shape[1] :])
    assert text.startswith("The capital of France is Paris.")
