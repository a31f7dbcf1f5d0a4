"""One trajectory as one coroutine: reason, search, read, ..., answer (Eq. 1, Algorithm 1).

A ``Dialogue`` says how the agent is asked and answered, so methods that differ in that alone share
this loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cosearch.core.formats import Grammar, Search
from cosearch.core.observe import PendingSearch, Pipeline, run_stages
from cosearch.core.prompts import Prompting, fill_text, fit_documents, opening_ids
from cosearch.core.protocols import Codec, Generate, Segment
from cosearch.core.seeds import derive
from cosearch.core.transcript import Ending, Transcript, has_stop_token
from cosearch.core.types import Question, Sampling, SearchCall, SpanKind, Terminal, Trajectory


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The grammar of an agent's turns, and the names of the templates of what it is told."""

    grammar: Grammar
    prompt: str
    observation: str
    notice: str | None
    """What the agent is told after a malformed turn, which then counts like a search. None: a
    malformed turn ends the trajectory."""
    last: str | None
    """What the agent is told before its last turn: answer, do not search. None: nothing."""


@dataclass(frozen=True, slots=True)
class AgentRules:
    """How an agent is prompted, and the limits of its trajectories. Lengths are in tokens."""

    codec: Codec
    sampling: Sampling
    prompting: Prompting
    dialogue: Dialogue
    max_searches: int
    """Searches and notices together; after them the agent has one more turn to answer."""
    max_prompt_tokens: int
    max_response_tokens: int
    """All turns and observations together."""
    max_observation_tokens: int
    lenient_answer: bool
    """Read an answer out of a malformed turn, in methods of one turn (``methods.oneshot``)."""


async def roll_out(
    question: Question, sample: int, rules: AgentRules, stages: Pipeline, seed: int
) -> Trajectory:
    """Sample one trajectory of ``question``. ``seed`` and ``sample`` fix every draw in it.

    Raises ValueError when the question's prompt exceeds ``max_prompt_tokens``.
    """
    own_seed = derive(seed, question.dataset, question.id, sample)
    opening = rules.prompting.opening(rules.dialogue.prompt)
    transcript = Transcript(rules.codec, rules.dialogue.grammar)
    transcript.append_given(SpanKind.PROMPT, 0, agent_prompt(question, rules), opening)
    limit = len(transcript.ids) + rules.max_response_tokens
    ending = Ending(Terminal.TOKEN_BUDGET)
    while (room := limit - len(transcript.ids)) > 0:
        turn = len(transcript.turns)
        generation = await generate_turn(transcript, rules, room, own_seed)
        action = transcript.append_turn(generation)
        room, after_eos = limit - len(transcript.ids), has_stop_token(generation, rules.codec)
        if isinstance(action, Search) and turn < rules.max_searches:
            search = await run_stages(_pending(question, action, transcript, own_seed), stages)
            reply, dropped = render_observation(search, rules, room=room, after_eos=after_eos)
            opening = _opening(rules.dialogue.observation, turn, rules)
            transcript.append_given(SpanKind.OBSERVATION, turn, reply, opening)
            transcript.calls.append(finished(search, dropped, rules))
        elif (notice := _notice_after(action, turn, rules)) is not None:
            reply = render_notice(notice, turn, rules, room=room, after_eos=after_eos)
            transcript.append_given(SpanKind.NOTICE, turn, reply, _opening(notice, turn, rules))
        else:
            ending = action if isinstance(action, Ending) else Ending(Terminal.SEARCH_BUDGET)
            break
        if not reply:
            break
    return transcript.finish(question, sample, rules.sampling, ending)


def agent_prompt(question: Question, rules: AgentRules) -> list[int]:
    """Ids of the first prompt. Raises ValueError when they exceed the budget."""
    fills = {"question": question.text}
    prompt = rules.prompting.chat(rules.codec, rules.dialogue.prompt, fills)
    check_prompt(prompt, question, rules)
    return prompt


def check_prompt(prompt: Sequence[int], question: Question, rules: AgentRules) -> None:
    """Raises ValueError when ``prompt`` exceeds ``max_prompt_tokens``, as prompts are never cut."""
    if len(prompt) > rules.max_prompt_tokens:
        raise ValueError(
            f"question {question.id} of {question.dataset} needs a prompt of {len(prompt)} tokens,"
            f" agent.max_prompt_tokens is {rules.max_prompt_tokens}"
        )


def generate_turn(transcript: Transcript, rules: AgentRules, room: int, own_seed: int) -> Generate:
    """The request for the next turn: it continues all ids so far, by at most ``room`` tokens."""
    return Generate(
        "agent",
        tuple(transcript.ids),
        replace(rules.sampling, max_tokens=min(rules.sampling.max_tokens, room)),
        derive(own_seed, "agent", len(transcript.turns)),
    )


def render_observation(
    search: PendingSearch, rules: AgentRules, *, room: int, after_eos: bool
) -> tuple[list[int], int]:
    """Ids of D_K, or of the note in its place, as the next user message, and how many whole
    documents were dropped to fit; a note counts as one document.

    The ids are empty when even a message without documents exceeds ``room`` tokens. Raises
    ValueError when such a message exceeds ``max_observation_tokens``.
    """
    template = rules.prompting.text(rules.dialogue.observation)

    def render(kept: Sequence[Sequence[Segment]]) -> list[int]:
        shown = [segment for document in kept for segment in document]
        message = fill_text(template, {"documents": shown})
        return _reply(message, rules.dialogue.observation, search.turn, rules, after_eos)

    if len(render([])) > rules.max_observation_tokens:
        raise ValueError(
            f"agent.max_observation_tokens={rules.max_observation_tokens} does not even hold the"
            f" frame of an observation, {len(render([]))} tokens"
        )
    budget = min(rules.max_observation_tokens, room)
    return fit_documents(render, _shown(search, rules), max_tokens=budget)


def finished(search: PendingSearch, dropped: int, rules: AgentRules) -> SearchCall:
    """The record of ``search``, of which the agent read all but the last ``dropped`` documents."""
    if search.note is not None:
        return search.done(dropped)
    return search.done(dropped, rules.prompting.cuts(search.passages(), dropped))


def render_notice(
    name: str, turn: int, rules: AgentRules, *, room: int, after_eos: bool
) -> list[int]:
    """Ids of template ``name`` as the next user message; empty when they exceed ``room``."""
    ids = _reply(fill_text(rules.prompting.text(name), {}), name, turn, rules, after_eos)
    return ids if len(ids) <= room else []


def _reply(
    message: Sequence[Segment], name: str, turn: int, rules: AgentRules, after_eos: bool
) -> list[int]:
    """Ids of ``message``, which template ``name`` made, as the answer to ``turn``, with the
    opening of the agent's next turn."""
    told = rules.codec.reply((*message, *_last_call(turn, rules)), after_eos=after_eos)
    return [*told, *opening_ids(rules.codec, _opening(name, turn, rules))]


def _opening(name: str, turn: int, rules: AgentRules) -> str:
    """What the turn after ``turn`` begins with, which template ``name`` answers. If it is told
    that it is the last one, the template of these words decides."""
    last = rules.dialogue.last if _last_call(turn, rules) else None
    return rules.prompting.opening(last or name)


def _pending(
    question: Question, action: Search, transcript: Transcript, own_seed: int
) -> PendingSearch:
    return PendingSearch(
        question,
        action.query,
        len(transcript.turns) - 1,
        own_seed,
        calls=tuple(transcript.calls),
        turns=tuple(transcript.turns),
    )


def _shown(search: PendingSearch, rules: AgentRules) -> list[tuple[Segment, ...]]:
    """What the agent reads of a search, in pieces that are shown whole or are left out."""
    if search.note is not None:
        return [(Segment(search.note.text, trusted=False),)]
    return rules.prompting.documents(search.passages())


def _notice_after(action: Search | Ending, turn: int, rules: AgentRules) -> str | None:
    """The template that answers a malformed turn; None without one, or when no turn is left."""
    malformed = isinstance(action, Ending) and action.terminal is Terminal.MALFORMED
    return rules.dialogue.notice if malformed and turn < rules.max_searches else None


def _last_call(turn: int, rules: AgentRules) -> tuple[Segment, ...]:
    """The request to answer, if the turn after ``turn`` is the last one; else empty."""
    if rules.dialogue.last is None or turn + 1 < rules.max_searches:
        return ()
    return (
        Segment("\n", trusted=True),
        *fill_text(rules.prompting.text(rules.dialogue.last), {}),
    )
