"""The tokenizer of the tiny models with its closed vocabulary, and a codec that needs no library.

Each word is a token. Control tokens stand for whole pieces of the two output grammars, so that a
well-formed turn is short. Decoding joins tokens by blanks, which the grammars allow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cosearch.core.protocols import Message, Segment
from cosearch.data.world_lexicon import LexiconSize, closed_vocabulary

PAD, UNKNOWN, USER, ASSISTANT, END = "<|pad|>", "<|unk|>", "<|user|>", "<|assistant|>", "<|end|>"
REASON, REASON_END = "<reason>", "</reason>"
ANSWER, ANSWER_END = "<answer>", "</answer>"
RERANK, RERANK_END = "<rerank>", "</rerank>"
CALL = '<tool_call>{"name": "search", "arguments": {"query": "'
CALL_END = '"}}</tool_call>'
CONTROL = (
    PAD, UNKNOWN, USER, ASSISTANT, END, REASON, REASON_END, ANSWER, ANSWER_END,
    RERANK, RERANK_END, CALL, CALL_END,
)  # fmt: skip
SEARCH_R1_TAGS: Mapping[str, str] = {
    REASON: "<think>",
    REASON_END: "</think>",
    CALL: "<search>",
    CALL_END: "</search>",
}
"""Spelling of control tokens in the grammar of Search-R1. The tags of answers do not differ."""
MAX_NUMBER = 20
"""Highest document number that has a token."""
AS_THE_FILE_SAYS = {"AutoTokenizer": [None, "load_without_trust_remote_code.TokenizersBackend"]}
"""The ``auto_map`` of saved tokenizers, by which ``AutoTokenizer`` takes tokenizer.json as it is.

Without it, transformers holds the class that a folder of model type ``qwen2`` names for a mistake
and builds the byte-level pipeline of ``Qwen2Tokenizer``, which drops nearly every word of this
vocabulary. The entry is read only with ``trust_remote_code``. There is no code to trust, so
transformers then says that a file of this name is missing.
"""
_PLAIN = (">", "|", ":", ".", "?", "query:", "passage:", "need", "found", "not")

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|assistant|>' if message['role'] == 'assistant' else '<|user|>' }}"
    "{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def ranked_id(number: int) -> str:
    """The token that names document ``number`` in a ranking."""
    return f"[{number}]"


def build_vocabulary(size: LexiconSize) -> dict[str, int]:
    """Ids of all tokens, in the order control tokens, plain signs, numbers, words of the
    lexicon."""
    numbers = range(1, MAX_NUMBER + 1)
    tokens = [*CONTROL, *_PLAIN, *map(str, numbers), *map(ranked_id, numbers)]
    words = dict.fromkeys([*tokens, *closed_vocabulary(size)])
    return {word: number for number, word in enumerate(words)}


def save_tokenizer(
    vocabulary: Mapping[str, int], folder: Path, *, max_length: int, spelling: Mapping[str, str]
) -> None:
    """Write the tokenizer of ``vocabulary`` as an ordinary Hugging Face folder.

    The tokenizer recognises control tokens anywhere in trusted text, with or without blanks around
    them. ``spelling`` renames some of them without a change of their ids. ``AutoTokenizer`` loads
    the folder without any argument.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    spelled = {spelling.get(token, token): number for token, number in vocabulary.items()}
    controls = [AddedToken(spelling.get(token, token), normalized=False) for token in CONTROL]
    tokenizer = Tokenizer(models.WordLevel(spelled, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(controls)
    build: Any = PreTrainedTokenizerFast
    fast = build(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        padding_side="left",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        auto_map=AS_THE_FILE_SAYS,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)


class WordCodec:
    """A ``core.protocols.Codec`` by table look-up. It is fast enough for millions of training rows.

    It returns the same ids as the saved tokenizer, for texts whose control tokens come from the
    chat frame only. Raises KeyError for an unknown word. Training text contains none.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.vocabulary = dict(vocabulary)
        self._words = list(vocabulary)
        self.eos_ids = frozenset({self.vocabulary[END]})

    def tokens(self, *tokens: str) -> list[int]:
        """Ids of single tokens."""
        return [self.vocabulary[token] for token in tokens]

    def words(self, text: str) -> list[int]:
        """Ids of the words of ``text``."""
        return [self.vocabulary[word] for word in text.split()]

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """Ids of bare segments."""
        return self.words("".join(segment.text for segment in segments))

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of user messages up to and including the opening of the assistant's turn."""
        ids: list[int] = []
        for message in messages:
            ids += [*self.tokens(USER), *self.encode(message.segments), *self.tokens(END)]
        return [*ids, *self.tokens(ASSISTANT)]

    def reply(self, segments: Sequence[Segment], *, after_eos: bool) -> list[int]:
        """Ids between an assistant turn and the next one."""
        before = (USER,) if after_eos else (END, USER)
        return [*self.tokens(*before), *self.encode(segments), *self.tokens(END, ASSISTANT)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, control tokens included."""
        return " ".join(self._words[token] for token in ids)
