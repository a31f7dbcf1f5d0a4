"""The registry: every method plays from what its bundle names, in every template set."""

from typing import Any

import pytest

from cosearch.core.prompts import load_messages
from cosearch.core.types import Terminal
from cosearch.methods.bundle import DIALOGUES, METHODS
from tests.core.builders import RETRIEVE, Table, agent_rules, question


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers(name: str) -> None:
    bundle = METHODS[name]
    grammar = bundle.dialogue.grammar
    said = (
        f"<{grammar.reason}>known</{grammar.reason}>"
        f"<{grammar.answer}>Oslo</{grammar.answer}><|end|>"
    )
    rules = agent_rules(dialogue=bundle.dialogue)
    table = Table(lambda *_: said)
    (played,) = table.play(bundle.play(question(), 0, rules, (RETRIEVE,), 0))
    assert (played.terminal, played.answer, played.notices) == (Terminal.ANSWERED, "Oslo", 0)


@pytest.mark.parametrize("templates", ["tiny", "worked", "paper"])
@pytest.mark.parametrize("name", DIALOGUES)
def test_every_template_of_a_dialogue_is_there(name: str, templates: str) -> None:
    dialogue = DIALOGUES[name]
    named: tuple[Any, ...] = (
        dialogue.prompt, dialogue.observation, dialogue.notice, dialogue.last,
    )  # fmt: skip
    for template in filter(None, named):
        assert load_messages(templates, template)[-1][0] == "user"


def test_what_is_special_to_a_method_is_said_by_its_bundle() -> None:
    assert {name for name, bundle in METHODS.items() if bundle.notes} == {"search_o1"}
    tagged = {name for name, b in METHODS.items() if b.dialogue is DIALOGUES["tags"]}
    assert tagged == {"search_r1", "zerosearch"}
    assert METHODS["react"].dialogue.notice is METHODS["react"].dialogue.last is None
