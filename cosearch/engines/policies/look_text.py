"""The look at a tokenizer and its chat template when a model is opened.

What cannot work is refused here, in one line, before any work: ids that are not those of the
template, text that does not come back, a turn without an end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers import AutoTokenizer, GenerationConfig

from cosearch.core.formats import GRAMMARS, RANKING_BLOCKS
from cosearch.core.protocols import Codec, Message, Segment
from cosearch.engines.policies.chat_template import ChatTemplate

_QUESTION = Message(
    "user",
    (
        Segment("Question: ", trusted=True),
        Segment("who wrote it ?", trusted=False),
        Segment("\n", trusted=True),
        Segment("Oslo (1984) naïve Straße", trusted=False),
        Segment(" [1] > [2]\nAnswer it .", trusted=True),
    ),
)
_TURN = Message("assistant", (Segment("I look for Oslo .", trusted=True),))
CHATS = ((_QUESTION,), (_QUESTION, _TURN, _QUESTION), (_QUESTION, _TURN) * 2 + (_QUESTION,))
"""Conversations of the shapes that prompts have."""


class TextCodec(Codec, Protocol):
    """A codec over a tokenizer of a model folder."""

    folder: Path
    tokenizer: Any
    template: ChatTemplate


def turn_ends(codec: TextCodec, controls: set[int]) -> frozenset[int]:
    """The tokens that end a turn: those that the tokenizer and the generation config name, and the
    control token by which the chat template ends one. Raises ValueError where it ends none."""
    named = {codec.tokenizer.eos_token_id, *_generation_ends(codec.folder)}
    ends = named & set(codec.tokenizer.get_vocab().values())
    frame = codec.encode(codec.template.reply((Segment("x", trusted=False),)))
    place = next((n for n, token in enumerate(frame) if token in ends | controls), len(frame))
    if place == len(frame) or codec.decode(frame[:place]).strip():
        raise ValueError(
            f"{codec.folder}: after an assistant's turn its chat template writes"
            f" {codec.decode(frame)[:40]!r}, which begins with no token that ends a turn"
            f" ({_named(codec, ends)}); use a model whose template ends its turns"
        )
    return frozenset(ends | {frame[place]})


def look_at_text(codec: TextCodec) -> None:
    """Raises ValueError for a tokenizer or template by which no conversation can be held."""
    _check_numbering(codec)
    _check_back(codec)
    why = (
        "its tokenizer encodes a chat whole otherwise than by its parts; name a model whose"
        " tokenizer takes parts as it takes the whole"
    )
    check_chats(codec, codec.tokenizer, CHATS, why)


def check_plain(codec: TextCodec, chats: Sequence[Sequence[Message]]) -> None:
    """Raises ValueError where ``AutoTokenizer`` gives a chat other ids than the codec does, because
    others will open a trained model by it."""
    plain: Any = AutoTokenizer.from_pretrained(codec.folder, trust_remote_code=False)
    why = (
        f"AutoTokenizer reads its tokenizer.json as {type(plain).__name__} and gives a chat other"
        " ids than the file does; start from a folder that it reads as the file says"
    )
    check_chats(codec, plain, chats, why)


def check_chats(
    codec: TextCodec, tokenizer: Any, chats: Sequence[Sequence[Message]], why: str
) -> None:
    """Raises ValueError, with ``why``, where a tokenizer gives a chat other ids than the codec."""
    for messages in chats:
        told = [
            {"role": one.role, "content": "".join(part.text for part in one.segments)}
            for one in messages
        ]
        wanted = tokenizer.apply_chat_template(
            told, add_generation_prompt=True, return_dict=False, **codec.template.options
        )
        found = codec.chat(messages)
        if list(wanted) != found:
            pairs = enumerate(zip(wanted, found, strict=False))
            place = next((n for n, pair in pairs if pair[0] != pair[1]), len(found))
            raise ValueError(
                f"{codec.folder}: {why} (they part at {codec.decode(found[place:])[:30]!r})"
            )


def _check_numbering(codec: TextCodec) -> None:
    size, highest = len(codec.tokenizer), max(codec.tokenizer.get_vocab().values())
    if highest != size - 1:
        raise ValueError(
            f"{codec.folder}: the tokenizer has {size} tokens, and the last one has number"
            f" {highest}; name a model whose tokens are numbered without gaps"
        )


def _check_back(codec: TextCodec) -> None:
    """Text must come back, but for its blanks, unless it has words that the vocabulary lacks; and
    the tags of one grammar at least must be among what it has."""
    forms = [(g.reason, g.search, g.answer) for g in GRAMMARS.values()]
    tags = ["".join(f"<{name}> </{name}> " for name in form) for form in (*forms, RANKING_BLOCKS)]
    if not any(_given_back(codec, text) == text.split() for text in tags):
        raise ValueError(
            f"{codec.folder}: its tokenizer cannot write the tags of any grammar, such as"
            f" {tags[0].split()[0]!r}; name a model whose tokenizer keeps every character"
        )
    text = "Oslo (1984), naïve Straße: who wrote it?"
    back = _given_back(codec, text)
    if back is not None and back != text.split():
        raise ValueError(
            f"{codec.folder}: its tokenizer gives {text!r} back as {' '.join(back)!r}; name a model"
            " whose tokenizer keeps every character"
        )


def _given_back(codec: TextCodec, text: str) -> list[str] | None:
    """The words of a text after encoding and decoding; None if some are not in the vocabulary."""
    ids = codec.encode((Segment(text, trusted=True),))
    return None if codec.tokenizer.unk_token_id in ids else codec.decode(ids).split()


def _generation_ends(folder: Path) -> list[int]:
    """The end tokens of the generation config, or of config.json where there is none."""
    try:
        ends = GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:  # a tokenizer on its own
        return []
    return ends if isinstance(ends, list) else [ends]


def _named(codec: TextCodec, ends: set[int]) -> str:
    return ", ".join(sorted(codec.decode([token]) for token in ends)) or "none is named"
