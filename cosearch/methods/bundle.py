"""The registry of methods: which loop plays a question, and how the agent speaks.

A method adds to the core only what differs from CoSearch; no method has a copy of the loop.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from cosearch.core.formats import GRAMMARS
from cosearch.core.observe import Pipeline
from cosearch.core.rollout import AgentRules, Dialogue, roll_out
from cosearch.core.types import Question, Trajectory
from cosearch.methods.oneshot import cot, direct, rag

MethodLoop = Callable[[Question, int, AgentRules, Pipeline, int], Coroutine[Any, Any, Trajectory]]
"""Plays a question: (question, sample number, rules, stages, seed) -> one trajectory."""

DIALOGUES: Mapping[str, Dialogue] = {
    "react": Dialogue(GRAMMARS["react"], "agent", "observation", None, None),
    "notes": Dialogue(GRAMMARS["react"], "agent", "observation_notes", None, "last"),
    "tags": Dialogue(
        GRAMMARS["tags"], "agent_tags", "observation_tags", "notice_tags", "last_tags"
    ),
}
"""``react``: the paper's. ``notes``: the agent reads a note in place of the documents, and before
its last turn it is told to answer. ``tags``: Search-R1's."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What makes a method: the loop that plays a question, how the agent speaks, and whether
    ``search_o1.NoteStage`` is the last stage (``notes``)."""

    play: MethodLoop
    dialogue: Dialogue
    notes: bool


METHODS: Mapping[str, Bundle] = {
    "react": Bundle(roll_out, DIALOGUES["react"], notes=False),
    "direct": Bundle(direct, DIALOGUES["react"], notes=False),
    "cot": Bundle(cot, DIALOGUES["react"], notes=False),
    "rag": Bundle(rag, DIALOGUES["react"], notes=False),
    "search_o1": Bundle(roll_out, DIALOGUES["notes"], notes=True),
    "search_r1": Bundle(roll_out, DIALOGUES["tags"], notes=False),
    "zerosearch": Bundle(roll_out, DIALOGUES["tags"], notes=False),
}
"""``react``: CoSearch and the rows that differ from it in the ranker alone (Retrieval Only, Fixed
Ranker, Oracle). ``direct``, ``cot``, ``rag``: one turn, untrained. ``search_o1``: searches, reads
notes, untrained. ``search_r1``: as ``react``, but told of its malformed turns and of its last one,
in its own tags. ``zerosearch``: Search-R1's dialogue on simulated documents."""
