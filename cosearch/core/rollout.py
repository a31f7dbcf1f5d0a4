"""One trajectory as one coroutine: reason, search, read, ..., answer (Eq. 1, Algorithm 1).

Ids sampled in a turn are the ids trained on. The next prompt is those ids plus the observation's,
so the prompt of turn t is always a prefix of the prompt of turn t+1.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cosearch.core.formats import Answer, CharSpan, Malformed, Search, parse_turn
from cosearch.core.observe import PendingSearch, Stage
from cosearch.core.prompts import (
    document_segments,
    fill_template,
    fill_text,
    fit_documents,
    load_template,
)
from cosearch.core.protocols import Codec, Generate, Segment
from cosearch.core.seeds import derive
from cosearch.core.types import (
    Generation,
    Question,
    Sampling,
    SearchCall,
    Span,
    SpanKind,
    Terminal,
    Trajectory,
)


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


@dataclass(slots=True)
class _Context:
    """The growing context of one trajectory, the only mutable thing here."""

    ids: list[int]
    loss_mask: list[int]
    logprobs: list[float]
    spans: list[Span] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    calls: list[SearchCall] = field(default_factory=list)

    def append(self, ids: Sequence[int], logprobs: Sequence[float], *, sampled: bool) -> None:
        self.ids.extend(ids)
        self.loss_mask.extend([int(sampled)] * len(ids))
        self.logprobs.extend(logprobs)


async def roll_out(
    question: Question, sample: int, rules: AgentRules, stages: Sequence[Stage], seed: int
) -> Trajectory:
    """Sample one trajectory of ``question``. ``seed`` and ``sample`` fix every draw in it."""
    codec = rules.codec
    prompt = codec.chat(fill_template(rules.templates, "agent", {"question": question.text}))
    if len(prompt) > rules.max_prompt_tokens:
        raise ValueError(
            f"question {question.id} of {question.dataset} needs a prompt of {len(prompt)} tokens,"
            f" agent.max_prompt_tokens is {rules.max_prompt_tokens}"
        )
    context = _Context(list(prompt), [0] * len(prompt), [0.0] * len(prompt))
    context.spans.append(Span(SpanKind.PROMPT, 0, 0, len(prompt)))
    limit = len(prompt) + rules.max_response_tokens
    weights = 0

    def finish(terminal: Terminal, answer: str | None = None, fault: str | None = None):
        return Trajectory(
            question,
            sample,
            tuple(context.ids),
            tuple(context.loss_mask),
            tuple(context.logprobs),
            tuple(context.spans),
            tuple(context.turns),
            tuple(context.calls),
            answer,
            terminal,
            fault,
            rules.sampling,
            weights,
        )

    while True:
        turn = len(context.turns)
        room = min(rules.sampling.max_tokens, limit - len(context.ids))
        if room <= 0:
            return finish(Terminal.TOKEN_BUDGET)
        generation = await Generate(
            "agent",
            tuple(context.ids),
            replace(rules.sampling, max_tokens=room),
            derive(seed, question.dataset, question.id, sample, "agent", turn),
        )
        weights = generation.weights
        action = _append_turn(context, codec, generation, turn)
        if not generation.stopped:
            return finish(Terminal.TOKEN_BUDGET)
        match action:
            case Malformed(reason):
                return finish(Terminal.MALFORMED, fault=reason)
            case Answer(text):
                return finish(Terminal.ANSWERED, answer=text)
            case Search(query):
                if len(context.calls) == rules.max_searches:
                    return finish(Terminal.SEARCH_BUDGET)
                search = PendingSearch(
                    question, query, turn, derive(seed, question.dataset, question.id, sample)
                )
                for stage in stages:
                    search = await stage(search)
                _append_observation(context, rules, search, generation, limit)


def _append_turn(
    context: _Context, codec: Codec, generation: Generation, turn: int
) -> Search | Answer | Malformed:
    """Append what the policy sampled, with typed spans, and return the action it means."""
    start = len(context.ids)
    context.append(generation.ids, generation.logprobs, sampled=True)
    body = [token for token in generation.ids if token not in codec.eos_ids]
    text = codec.decode(body)
    context.turns.append(text)
    action = parse_turn(text)
    match action:
        case Search():
            blocks = [(SpanKind.REASON, action.reason_at), (SpanKind.QUERY, action.query_at)]
        case Answer():
            blocks = [(SpanKind.REASON, action.reason_at), (SpanKind.ANSWER, action.answer_at)]
        case Malformed():
            blocks = []
    cursor = start
    for kind, chars in blocks:
        first, last = (start + edge for edge in _token_span(codec, body, chars))
        _add_span(context, SpanKind.TAG, turn, cursor, first)
        _add_span(context, kind, turn, first, last)
        cursor = last
    _add_span(context, SpanKind.TAG, turn, cursor, len(context.ids))
    return action


def _token_span(codec: Codec, ids: Sequence[int], chars: CharSpan) -> tuple[int, int]:
    """The tokens that write characters ``chars``; one across an edge counts to what follows it."""

    def whole_before(char: int) -> int:
        return bisect_right(range(1, len(ids) + 1), char, key=lambda n: len(codec.decode(ids[:n])))

    return whole_before(chars[0]), whole_before(chars[1])


def _add_span(context: _Context, kind: SpanKind, turn: int, start: int, end: int) -> None:
    if end > start:
        context.spans.append(Span(kind, turn, start, end))


def _append_observation(
    context: _Context, rules: AgentRules, search: PendingSearch, last: Generation, limit: int
) -> None:
    """Append D_K as the next user message; whole documents are dropped from the tail to fit."""
    passages = [search.candidates[position].passage for position in search.ranking]
    documents = document_segments(rules.document, passages, max_chars=rules.max_document_chars)
    after_eos = bool(last.ids) and last.ids[-1] in rules.codec.eos_ids
    ((_, template),) = load_template(rules.templates, "observation")

    def render(kept: Sequence[Segment]) -> list[int]:
        return rules.codec.reply(fill_text(template, {"documents": kept}), after_eos=after_eos)

    room = min(rules.max_observation_tokens, limit - len(context.ids)) - len(render([]))
    kept, dropped = fit_documents(rules.codec, documents, max_tokens=room)
    ids = render(kept)
    start = len(context.ids)
    context.append(ids, [0.0] * len(ids), sampled=False)
    context.spans.append(Span(SpanKind.OBSERVATION, search.turn, start, len(context.ids)))
    context.calls.append(search.done(dropped))
