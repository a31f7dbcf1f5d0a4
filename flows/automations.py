"""Tell a web address what happens: ``python -m flows.automations --webhook URL``.

Registers three automations on the Prefect server: a stage has failed, a training has diverged, a
run has ended. Each posts a JSON object with one line under ``text``, as Slack and Mattermost take
it. Another registration replaces the earlier one.
"""

import argparse
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.automations import Automation, CallWebhook, EventTrigger
from prefect.blocks.webhook import Webhook

BLOCK = "cosearch"
"""Name of the block that keeps the address on the server."""
TEXT = "{{ {'text': automation.name ~ ': ' ~ %s} | tojson }}"
STATE = (
    "event.resource.name ~ ' is ' ~ event.payload.validated_state.name"
    " ~ ' ' ~ (event.payload.validated_state.message or '')"
)
DIVERGED = "event.resource.name ~ ' ' ~ event.payload.reason"


def triggers() -> dict[str, tuple[EventTrigger, str]]:
    """Name of each automation -> what starts it, and the expression of what it tells."""
    stage = {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.cosearch"}
    last = {"prefect.resource.role": "flow", "prefect.resource.name": ["reproduce", "report"]}
    ends = ("Completed", "Failed", "Crashed", "Cancelled")
    return {
        "cosearch stage failed": (_on(stage, "Failed", "Crashed"), STATE),
        "cosearch training diverged": (
            EventTrigger(expect={"cosearch.training.diverged"}, threshold=1),
            DIVERGED,
        ),
        "cosearch run ended": (_on(last, *ends), STATE),
    }


def _on(related: dict[str, Any], *states: str) -> EventTrigger:
    """Starts for each flow run that enters one of the states and is related to a resource."""
    return EventTrigger(
        expect={f"prefect.flow-run.{state}" for state in states},
        match_related=related,
        for_each={"prefect.resource.id"},
        threshold=1,
    )


def register(url: str) -> list[str]:
    """Keep the address and register the automations. Returns their names."""
    block = Webhook.model_validate({"url": url})
    block.save(BLOCK, overwrite=True)
    identity = block._block_document_id
    assert identity is not None
    for name, (trigger, told) in triggers().items():
        remove(name)
        action = CallWebhook(block_document_id=UUID(str(identity)), payload=TEXT % told)
        Automation(name=name, trigger=trigger, actions=[action]).create()
    return list(triggers())


def remove(name: str) -> None:
    """Remove the automations of this name, if there are any."""
    with get_client(sync_client=True) as client:
        for found in client.read_automations_by_name(name):
            client.delete_automation(found.id)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.automations", description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--webhook", metavar="URL", help="address to post to")
    chosen.add_argument("--remove", action="store_true", help="remove the automations")
    arguments = parser.parse_args()
    if arguments.remove:
        for name in triggers():
            remove(name)
        return
    print("\n".join(register(arguments.webhook)))


if __name__ == "__main__":
    main()
