"""The vocabulary, prompts and fictional episodes that all tests of base training share."""

from pathlib import Path

import pytest
import torch

from cosearch.core.types import Passage
from cosearch.data.world import World, build_world
from cosearch.data.world_lexicon import LexiconSize
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.pretrain.fiction import FictionEpisode, draw_episodes
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.words import WordCodec, build_vocabulary, save_tokenizer

DOCUMENT = "{title} [{number}] {text}\n"
ROWS = {"nq": 8, "triviaqa": 8, "popqa": 8, "hotpotqa": 8, "2wikimultihopqa": 9, "musique": 8}


class OwnSections:
    """A retriever without a model: passages of the entity that the query ends in come first."""

    def __init__(self, codec: WordCodec) -> None:
        self._codec = codec

    def queries(self, queries: list[str]) -> torch.Tensor:
        return self._bags(queries)

    def passages(self, passages: tuple[Passage, ...]) -> torch.Tensor:
        return self._bags([passage.title for passage in passages])

    def _bags(self, texts: list[str]) -> torch.Tensor:
        bags = torch.zeros(len(texts), len(self._codec.vocabulary))
        for row, text in enumerate(texts):
            bags[row, self._codec.words(text)] = 1.0
        return bags


@pytest.fixture(scope="session")
def world() -> World:
    """The world whose facts are not to be taught."""
    return build_world({"nq": {"train": 4, "dev": 2, "test": 2}}, seed=7)


@pytest.fixture(scope="session")
def words() -> WordCodec:
    return WordCodec(build_vocabulary(LexiconSize()))


@pytest.fixture(scope="session")
def saved(words: WordCodec, tmp_path_factory: pytest.TempPathFactory) -> HfCodec:
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(words.vocabulary, folder, max_length=1024, spelling={})
    return HfCodec(folder)


@pytest.fixture(scope="session")
def prompts(words: WordCodec) -> Prompts:
    return Prompts(words, "tiny", DOCUMENT, DOCUMENT)


@pytest.fixture(scope="session")
def episodes(words: WordCodec, world: World) -> list[FictionEpisode]:
    return draw_episodes(
        OwnSections(words),
        3,
        size=LexiconSize(),
        rows=ROWS,
        top_n=10,
        avoid=world.encyclopaedia.triples(),
    )
