"""Model folders as others load them: with nothing but what transformers and vLLM bring."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoTokenizer

from cosearch.core.prompts import Prompting
from cosearch.core.protocols import Message, Segment
from cosearch.core.types import Passage
from cosearch.data.world import build_world
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.files.hashes import hash_files

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "models/tiny").glob("*/config.json"))
LOADERS = {
    "ForCausalLM": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "Model": "AutoModel",
}
"""End of an architecture's name -> the class of transformers that loads it."""
PROMPTING = Prompting("tiny", "{title} [{number}] {text}\n", 2000)
SAVE = """
import sys
from pathlib import Path

from cosearch.data.world_lexicon import LexiconSize
from cosearch.engines.policies.build import TrainerRules, build_codec, build_trainer
from cosearch.params.blocks import Train
from cosearch.pretrain.words import build_vocabulary, save_tokenizer
from cosearch.rollouts.policy import Policy
from tests.settings import block, tiny

base, target = Path(sys.argv[1]), Path(sys.argv[2])
rules = TrainerRules(block(Train), tiny().method().loss, 1e-3, 24)
codec = build_codec(base)
trainer = build_trainer(base, codec, rules, target / "scratch")
Policy(codec, None, trainer, 1.0).export(target / "trained")
save_tokenizer(build_vocabulary(LexiconSize()), target / "shipped", max_length=1024, spelling={})
"""


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    return list(build_world({"nq": {"train": 4, "dev": 2, "test": 2}}, seed=3).passages)


def chats(passages: list[Passage]) -> Iterator[tuple[Message, ...]]:
    """Every prompt of the roles that are trained, over many passages."""
    for start in range(0, len(passages) - 8, 8):
        found = passages[start : start + 8]
        text = " ".join(found[0].text.split()[:12]) + " ?"
        documents = [one for parts in PROMPTING.documents(found) for one in parts]
        fills = {"question": text, "query": found[1].title, "k": 3, "candidates": documents}
        yield PROMPTING.fill("agent", fills)
        yield PROMPTING.fill("ranker", fills)
        yield PROMPTING.fill("pair", {**fills, "title": found[0].title, "text": found[0].text})


def plain(messages: tuple[Message, ...]) -> list[dict[str, str]]:
    return [
        {"role": one.role, "content": "".join(segment.text for segment in one.segments)}
        for one in messages
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plain_transformers_reads_a_shipped_folder_as_the_codec_does(
    folder: Path, passages: list[Passage]
) -> None:
    codec, tokenizer = HfCodec(folder), AutoTokenizer.from_pretrained(folder)
    for messages in chats(passages):
        ids = tokenizer.apply_chat_template(
            plain(messages), add_generation_prompt=True, return_dict=False
        )
        assert ids == codec.chat(messages)
        assert tokenizer.unk_token_id not in ids
        assert tokenizer(tokenizer.decode(ids)).input_ids == ids
    for passage in passages:
        text = " ".join(f"{passage.title} {passage.text}".split())
        ids = tokenizer(text).input_ids
        assert ids == codec.encode([Segment(text, trusted=False)])
        assert tokenizer.decode(ids) == codec.decode(ids) == text


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plain_transformers_loads_a_shipped_model(folder: Path) -> None:
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    loader = next(name for end, name in LOADERS.items() if architecture.endswith(end))
    model, report = getattr(transformers, loader).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    out = model(input_ids=torch.tensor([[2, 20, 4]]))
    assert out[0].isfinite().all()


def test_a_tokenizer_that_is_saved_by_others_loads_as_well(tmp_path: Path) -> None:
    """With the model, because its type decides which tokenizer ``AutoTokenizer`` builds."""
    folder = ROOT / "models/tiny/agent"
    transformers.AutoModelForCausalLM.from_pretrained(folder).save_pretrained(tmp_path)
    first = AutoTokenizer.from_pretrained(folder)
    first.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("need found ?").input_ids == first("need found ?").input_ids


def test_remote_code_is_refused_by_a_name_that_says_why() -> None:
    with pytest.raises(OSError, match="load_without_trust_remote_code"):
        AutoTokenizer.from_pretrained(ROOT / "models/tiny/agent", trust_remote_code=True)


def saved(target: Path, workplace: Path, shell: dict[str, str]) -> dict[str, str]:
    """Hashes of what the pipeline's savers write in a process with these variables."""
    workplace.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    words = [sys.executable, "-c", SAVE, str(ROOT / "models/tiny/agent"), str(target)]
    environment = kept | {"PYTHONPATH": str(ROOT)} | shell
    done = subprocess.run(words, cwd=workplace, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return hash_files(target)


def test_saved_folders_depend_on_nothing_of_the_shell(tmp_path: Path) -> None:
    offline = saved(tmp_path / "one", tmp_path / "here", {"HF_HUB_OFFLINE": "1"})
    online = saved(tmp_path / "two", tmp_path / "there", {"HF_HOME": str(tmp_path / "cache")})
    assert {"trained/tokenizer_config.json", "trained/config.json"} <= set(offline)
    assert {"trained/model.safetensors", "shipped/tokenizer_config.json"} <= set(offline)
    assert online == offline


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
def test_vllm_chats_with_a_shipped_model_as_transformers_does(passages: list[Passage]) -> None:
    from vllm import LLM, SamplingParams

    folder = ROOT / "models/tiny/agent"
    messages = [plain(one) for one in list(chats(passages))[:4]]
    engine: Any = LLM(str(folder), enforce_eager=True, dtype="float32", gpu_memory_utilization=0.3)
    greedy = SamplingParams(temperature=0.0, max_tokens=8, skip_special_tokens=False)
    written = engine.chat(messages, greedy, use_tqdm=False)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    for one, chat in zip(written, messages, strict=True):
        inputs = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt"
        )
        assert one.prompt_token_ids == inputs["input_ids"][0].tolist()
        ids = model.generate(**inputs, max_new_tokens=8, do_sample=False)[0]
        expected = ids[len(one.prompt_token_ids) :].tolist()
        assert list(one.outputs[0].token_ids) == expected
        text = tokenizer.decode(expected).removesuffix(tokenizer.eos_token)
        assert one.outputs[0].text.split() == text.split()
