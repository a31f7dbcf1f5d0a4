"""What an exported model expects to be told, in a form that needs none of this code."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from cosearch.core.formats import Grammar
from cosearch.core.prompts import Prompting, load_template
from cosearch.core.protocols import Message
from cosearch.data.corpus import Corpus
from cosearch.export.finished import FinishedRow
from cosearch.files.artifacts import Paths
from cosearch.methods.bundle import METHODS
from cosearch.rollouts.pipelines import HEADS

Chat = list[dict[str, str]]
"""Messages as a chat template takes them."""
DATE = "strftime_now"
"""The option of a chat template that is a function there: it writes today's date."""
NOTES = ("notes", "notes_nothing", "notes_repeated")


@dataclass(frozen=True)
class RolePrompts:
    """How a role is prompted.

    ``templates``: name -> messages whose texts Python's ``str.format`` fills. ``document``: the
    text of one document, also to be filled. ``example``: a whole first prompt of the evaluation.
    ``chat_options`` go to the chat template. ``grammar``: the tags of an agent's turn, None for a
    ranker. ``scorer``: the model gives a number instead of text.
    """

    role: str
    templates: Mapping[str, Chat]
    document: str
    example: tuple[Message, ...]
    chat_options: Mapping[str, Any]
    grammar: Grammar | None
    scorer: bool
    limits: Mapping[str, int]

    def chat(self) -> Chat:
        """The example as a chat template takes it."""
        return [
            {"role": one.role, "content": "".join(part.text for part in one.segments)}
            for one in self.example
        ]

    def arguments(self) -> str:
        """The options of the chat template as further arguments of a call in Python."""
        shown = {name: repr(value) for name, value in self.chat_options.items()}
        if DATE in shown:
            shown[DATE] = f"lambda form: {shown[DATE]}"
        return "".join(f", {name}={value}" for name, value in shown.items())

    def record(self) -> dict[str, Any]:
        """What prompts.json says of the role."""
        return {
            "templates": self.templates,
            "document": self.document,
            "chat_options": self.chat_options,
            "limits": self.limits,
            "example": self.chat(),
        }


def role_prompts(row: FinishedRow, role: str) -> RolePrompts:
    """The prompts of a role of the row. Raises ValueError where the evaluation made no search."""
    block, rollout = row.playing[role], row.playing["method"]["rollout"]
    prompting = Prompting(block["templates"], block["document"], block["max_document_chars"])
    limits = {key: value for key, value in block.items() if key.startswith("max_")}
    if role == "agent":
        return _agent(row, prompting, limits | {"max_searches": rollout["max_searches"]})
    scorer = row.variant["ranker"] in HEADS
    name = "pair" if scorer else "ranker"
    for other in ("max_prompt_tokens", "max_turn_tokens") if scorer else ("max_pair_tokens",):
        del limits[other]
    return RolePrompts(
        role,
        {name: _template(prompting, name)},
        prompting.document,
        _ranked(row, prompting, name),
        block["chat_options"],
        None,
        scorer,
        limits | {key: rollout[key] for key in ("top_n", "top_k")},
    )


def _agent(row: FinishedRow, prompting: Prompting, limits: Mapping[str, int]) -> RolePrompts:
    method = METHODS[row.variant["method"]]
    spoken = method.dialogue
    names = [spoken.prompt, spoken.observation, spoken.notice, spoken.last]
    names += NOTES if method.notes else ()
    question = row.result.predictions["question"][0]
    return RolePrompts(
        "agent",
        {name: _template(prompting, name) for name in names if name is not None},
        prompting.document,
        prompting.fill(spoken.prompt, {"question": question}),
        row.playing["agent"]["chat_options"],
        spoken.grammar,
        False,
        limits,
    )


def _template(prompting: Prompting, name: str) -> Chat:
    blocks = load_template(prompting.templates, name)
    return [{"role": role, "content": text} for role, text in blocks]


def _ranked(row: FinishedRow, prompting: Prompting, name: str) -> tuple[Message, ...]:
    """The prompt of the evaluation's first search that found something."""
    found = row.result.calls.filter(pl.col("candidate_ids").list.len() > 0)
    if found.is_empty():
        raise ValueError(
            f"{row.name}: its evaluation made no search, which the ranker's card shows"
        )
    call = found.row(0, named=True)
    asked = row.result.predictions.filter(dataset=call["dataset"], question_id=call["question_id"])[
        "question"
    ][0]
    corpus = Corpus(Paths(row.profile).corpus)
    passages = [corpus.passage(int(at)) for at in corpus.positions(call["candidate_ids"])]
    documents = [part for document in prompting.documents(passages) for part in document]
    first, count = passages[0], len(passages)
    top_k = min(row.playing["method"]["rollout"]["top_k"], count)
    pair = {"title": first.title, "text": first.text[: prompting.max_document_chars]}
    fills = {"question": asked, "query": call["query"], "n": count, "k": top_k, **pair}
    return prompting.fill(name, {**fills, "candidates": documents})
