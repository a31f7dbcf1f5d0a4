"""Answers in one turn (rows of the paper's main table): Direct Inference, CoT, and RAG.

Direct asks the model. CoT asks it to reason at length before it answers. RAG retrieves once with
the question itself as the query, shows D_K in the prompt and then asks. All have the signature and
the result of ``core.rollout.roll_out``. A turn that asks for a search is malformed.
"""

from collections.abc import Sequence

from cosearch.core.formats import Grammar, Search
from cosearch.core.observe import PendingSearch, Pipeline, run_stages
from cosearch.core.prompts import Fill, fit_documents
from cosearch.core.protocols import Segment
from cosearch.core.rollout import AgentRules, check_prompt, finished, generate_turn
from cosearch.core.seeds import derive
from cosearch.core.transcript import Ending, Transcript
from cosearch.core.types import Question, SearchCall, SpanKind, Terminal, Trajectory


async def direct(
    question: Question, sample: int, rules: AgentRules, stages: Pipeline, seed: int
) -> Trajectory:
    """One turn from the model's own knowledge; ``stages`` are not used."""
    return await _from_memory("direct", question, sample, rules, seed)


async def cot(
    question: Question, sample: int, rules: AgentRules, stages: Pipeline, seed: int
) -> Trajectory:
    """Like ``direct``, with a prompt that asks for the reasoning step by step."""
    return await _from_memory("cot", question, sample, rules, seed)


async def rag(
    question: Question, sample: int, rules: AgentRules, stages: Pipeline, seed: int
) -> Trajectory:
    """One turn after one retrieval. Documents beyond ``max_observation_tokens`` are dropped, the
    last ones first."""
    own_seed = derive(seed, question.dataset, question.id, sample)
    search = await run_stages(PendingSearch(question, question.text, 0, own_seed), stages)
    documents = rules.prompting.documents(search.passages())

    def render(kept: Sequence[tuple[Segment, ...]]) -> list[int]:
        return _render("rag", question, rules, kept)

    bare = render(())
    check_prompt(bare, question, rules)
    budget = len(bare) + rules.max_observation_tokens
    prompt, dropped = fit_documents(render, documents, max_tokens=budget)
    call = finished(search, dropped, rules)
    return await _answer(question, sample, rules, "rag", prompt, (call,), own_seed)


def lenient_answer(text: str, grammar: Grammar) -> str | None:
    """The content of the last whole answer block, else what stands in the last line that is not
    blank, behind the tag of an answer if it has one, else None (our choice: an instruct model was
    not trained on the grammar, so it need not follow it)."""
    before, _, _ = text.rpartition(f"</{grammar.answer}>")
    _, opening, inside = before.rpartition(f"<{grammar.answer}>")
    if opening and inside.strip():
        return inside.strip()
    lines = [line.rpartition(f"<{grammar.answer}>")[2].strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), None)


async def _from_memory(
    template: str, question: Question, sample: int, rules: AgentRules, seed: int
) -> Trajectory:
    prompt = _render(template, question, rules, ())
    check_prompt(prompt, question, rules)
    own_seed = derive(seed, question.dataset, question.id, sample)
    return await _answer(question, sample, rules, template, prompt, (), own_seed)


async def _answer(
    question: Question,
    sample: int,
    rules: AgentRules,
    template: str,
    prompt: Sequence[int],
    calls: Sequence[SearchCall],
    own_seed: int,
) -> Trajectory:
    transcript = Transcript(rules.codec, rules.dialogue.grammar, calls=list(calls))
    transcript.append_given(SpanKind.PROMPT, 0, prompt, rules.prompting.opening(template))
    generation = await generate_turn(transcript, rules, rules.max_response_tokens, own_seed)
    ending = _ending(transcript.append_turn(generation), transcript.turns[-1], rules)
    return transcript.finish(question, sample, rules.sampling, ending)


def _ending(action: Search | Ending, text: str, rules: AgentRules) -> Ending:
    """The end of the only turn. A turn that the length limit cut has no answer."""
    if isinstance(action, Search):
        return Ending(Terminal.MALFORMED, fault="search_not_allowed")
    if rules.lenient_answer and action.terminal is Terminal.MALFORMED:
        answer = lenient_answer(text, rules.dialogue.grammar)
        return action if answer is None else Ending(Terminal.ANSWERED, answer=answer)
    return action


def _render(
    template: str, question: Question, rules: AgentRules, kept: Sequence[tuple[Segment, ...]]
) -> list[int]:
    shown = [segment for document in kept for segment in document]
    fills: dict[str, Fill] = {"question": question.text, "documents": shown}
    return rules.prompting.chat(rules.codec, template, fills)
