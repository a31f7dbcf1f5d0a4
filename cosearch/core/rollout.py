"""One trajectory as one coroutine: reason, search, read, ..., answer (Eq. 1, Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosearch.core.observe import PendingSearch, Stage, run_stages
from cosearch.core.prompts import (
    document_segments,
    fill_template,
    fill_text,
    fit_documents,
    load_template,
)
from cosearch.core.protocols import Codec, Generate, Segment
from cosearch.core.seeds import derive
from cosearch.core.transcript import Ending, Transcript, has_stop_token
from cosearch.core.types import Question, Sampling, SpanKind, Terminal, Trajectory


@dataclass(frozen=True, slots=True)
class AgentRules:
    """How an agent is prompted and bounded. Lengths are in tokens unless they say otherwise."""

    codec: Codec
    sampling: Sampling
    templates: str
    document: str
    max_document_chars: int
    max_searches: int
    max_prompt_tokens: int
    max_response_tokens: int
    """All turns and observations together."""
    max_observation_tokens: int


async def roll_out(
    question: Question, sample: int, rules: AgentRules, stages: Sequence[Stage], seed: int
) -> Trajectory:
    """Sample one trajectory of ``question``. ``seed`` and ``sample`` fix every draw in it.

    Raises ValueError when the question's prompt exceeds ``max_prompt_tokens``.
    """
    own_seed = derive(seed, question.dataset, question.id, sample)
    transcript = Transcript(rules.codec)
    transcript.append_given(SpanKind.PROMPT, 0, agent_prompt(question, rules))
    limit = len(transcript.ids) + rules.max_response_tokens
    ending = Ending(Terminal.TOKEN_BUDGET)
    while (room := limit - len(transcript.ids)) > 0:
        turn = len(transcript.turns)
        generation = await generate_turn(transcript, rules, room, own_seed)
        action = transcript.append_turn(generation)
        if isinstance(action, Ending):
            ending = action
            break
        if len(transcript.calls) == rules.max_searches:
            ending = Ending(Terminal.SEARCH_BUDGET)
            break
        search = await run_stages(PendingSearch(question, action.query, turn, own_seed), stages)
        observation, dropped = render_observation(
            search,
            rules,
            room=limit - len(transcript.ids),
            after_eos=has_stop_token(generation, rules.codec),
        )
        transcript.append_given(SpanKind.OBSERVATION, turn, observation)
        transcript.calls.append(search.done(dropped))
        if not observation:
            break
    return transcript.finish(question, sample, rules.sampling, ending)


def agent_prompt(question: Question, rules: AgentRules) -> list[int]:
    """Ids of the first prompt. Raises ValueError when they exceed the budget."""
    prompt = rules.codec.chat(fill_template(rules.templates, "agent", {"question": question.text}))
    check_prompt(prompt, question, rules)
    return prompt


def check_prompt(prompt: Sequence[int], question: Question, rules: AgentRules) -> None:
    """Raises ValueError when ``prompt`` exceeds ``max_prompt_tokens``: prompts are never cut."""
    if len(prompt) > rules.max_prompt_tokens:
        raise ValueError(
            f"question {question.id} of {question.dataset} needs a prompt of {len(prompt)} tokens,"
            f" agent.max_prompt_tokens is {rules.max_prompt_tokens}"
        )


def generate_turn(transcript: Transcript, rules: AgentRules, room: int, own_seed: int) -> Generate:
    """The request for the next turn: all ids so far, within what is left of the budget."""
    return Generate(
        "agent",
        tuple(transcript.ids),
        replace(rules.sampling, max_tokens=min(rules.sampling.max_tokens, room)),
        derive(own_seed, "agent", len(transcript.turns)),
    )


def render_observation(
    search: PendingSearch, rules: AgentRules, *, room: int, after_eos: bool
) -> tuple[list[int], int]:
    """Ids of D_K as the next user message, and how many whole documents were dropped to fit.

    No ids when not even an empty message fits into ``room``. Raises ValueError when it does not
    fit into ``max_observation_tokens``.
    """
    documents = document_segments(
        rules.document, search.passages(), max_chars=rules.max_document_chars
    )
    ((_, template),) = load_template(rules.templates, "observation")

    def render(kept: Sequence[Sequence[Segment]]) -> list[int]:
        shown = [segment for document in kept for segment in document]
        return rules.codec.reply(fill_text(template, {"documents": shown}), after_eos=after_eos)

    if len(render([])) > rules.max_observation_tokens:
        raise ValueError(
            f"agent.max_observation_tokens={rules.max_observation_tokens} does not even hold the"
            f" frame of an observation, {len(render([]))} tokens"
        )
    return fit_documents(render, documents, max_tokens=min(rules.max_observation_tokens, room))
