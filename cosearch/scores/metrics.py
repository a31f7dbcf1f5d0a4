"""Frames of predictions and of calls from trajectories, and the numbers of one system at one seed
(Section 4.1).

The predictions have one row per question, the calls one row per search call. Every number can be
recomputed from them. Rows follow the order of the trajectories, so equal rollouts give equal bytes.
Hit@k is always *given that D_N holds an answer* (I_ans = 1) and pooled over calls.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import RewardRules, hit_at, relevance_reward
from cosearch.core.shown import LEFT_OUT, exposure
from cosearch.core.text import answer_f1, exact_match
from cosearch.core.types import SearchCall, Terminal, Trajectory
from cosearch.scores.averages import average

DIGITS = 6
"""Decimals in metrics.json. Differences below them have no meaning."""

Numbers = dict[str, Any]
"""A nested record of numbers, as metrics.json holds it."""

SCORES = ("em", "f1", "f1_bag", "f1_squad")

PREDICTION_COLUMNS: dict[str, pl.DataType] = {
    "system": pl.String(),
    "seed": pl.Int64(),
    "dataset": pl.String(),
    "kind": pl.String(),
    "question_id": pl.String(),
    "question": pl.String(),
    "golds": pl.List(pl.String()),
    "prediction": pl.String(),
    "terminal": pl.String(),
    "fault": pl.String(),
    "searches": pl.Int64(),
    "em": pl.Float64(),
    "f1": pl.Float64(),
    "f1_bag": pl.Float64(),
    "f1_squad": pl.Float64(),
    "agent_tokens": pl.Int64(),
    "context_tokens": pl.Int64(),
    "ranker_tokens": pl.Int64(),
    "ranker_context_tokens": pl.Int64(),
    "note_tokens": pl.Int64(),
    "note_context_tokens": pl.Int64(),
}
"""``f1`` is the F1 under the row's own yes/no rule. Agent, ranker and note tokens are sampled by a
model; context tokens (prompt, observations) are only read by it. Units: tokens per question."""


def call_columns(cutoffs: Sequence[int]) -> dict[str, pl.DataType]:
    """Columns of the calls frame, with ``hit_k`` and ``retriever_hit_k`` for each cutoff."""
    return {
        "system": pl.String(),
        "seed": pl.Int64(),
        "dataset": pl.String(),
        "question_id": pl.String(),
        "turn": pl.Int64(),
        "query": pl.String(),
        "candidate_ids": pl.List(pl.String()),
        "scores": pl.List(pl.Float64()),
        "labels": pl.List(pl.Boolean()),
        "ranking": pl.List(pl.Int64()),
        "ranker_fault": pl.String(),
        "has_answer": pl.Boolean(),
        "shown_answer": pl.Boolean(),
        "r_rel": pl.Float64(),
        **{f"hit_{k}": pl.Float64() for k in cutoffs},
        **{f"retriever_hit_{k}": pl.Float64() for k in cutoffs},
        "shown_documents": pl.Int64(),
        **{name: pl.Int64() for name in LEFT_OUT},
        "hidden_documents": pl.Int64(),
        "hidden_candidates": pl.Int64(),
        "cut_query": pl.Boolean(),
    }


TOKENS = ("agent", "context", "ranker", "ranker_context", "note", "note_context")
"""Kinds of tokens that a question costs; each has a predictions column ``KIND_tokens``."""


def predictions_frame(
    trajectories: Sequence[Trajectory],
    *,
    system: str,
    seed: int,
    kinds: Mapping[str, str],
    reward_rules: RewardRules,
) -> pl.DataFrame:
    """One row per question (``PREDICTION_COLUMNS``). A malformed trajectory has 0 in every score.

    ``kinds``: data set -> ``single`` or ``multi``. Raises ValueError for a question that occurs
    twice or a row with EM above an F1, KeyError for a data set without a kind.
    """
    rows = [
        {
            "system": system,
            "seed": seed,
            "kind": kinds[trajectory.question.dataset],
            **_prediction(trajectory),
            **_scores(trajectory, reward_rules.yes_no_rule),
        }
        for trajectory in trajectories
    ]
    frame = pl.DataFrame(rows, schema=PREDICTION_COLUMNS)
    if frame.select("dataset", "question_id").is_duplicated().any():
        raise ValueError(f"{system}: a question stands twice in the trajectories")
    check_score_bounds(frame)
    return frame


def _prediction(trajectory: Trajectory) -> dict[str, object]:
    question = trajectory.question
    outputs = [call.output for call in trajectory.calls if call.output is not None]
    notes = [call.note for call in trajectory.calls if call.note is not None]
    sampled = sum(trajectory.loss_mask)
    return {
        "dataset": question.dataset,
        "question_id": question.id,
        "question": question.text,
        "golds": list(question.golds),
        "prediction": trajectory.answer,
        "terminal": trajectory.terminal.value,
        "fault": trajectory.fault,
        "searches": len(trajectory.calls),
        "agent_tokens": sampled,
        "context_tokens": len(trajectory.ids) - sampled,
        "ranker_tokens": sum(len(output.generation.ids) for output in outputs),
        "ranker_context_tokens": sum(
            len(output.prompt_ids) + sum(map(len, output.inputs)) for output in outputs
        ),
        "note_tokens": sum(len(note.generation.ids) for note in notes if note.generation),
        "note_context_tokens": sum(len(note.prompt_ids) for note in notes),
    }


def _scores(trajectory: Trajectory, rule: str) -> dict[str, float]:
    if not trajectory.well_formed:
        return dict.fromkeys(SCORES, 0.0)
    answer, golds = trajectory.answer or "", trajectory.question.golds
    f1 = {name: answer_f1(answer, golds, yes_no_rule=name) for name in {"bag", "squad", rule}}
    return {
        "em": exact_match(answer, golds),
        "f1": f1[rule],
        "f1_bag": f1["bag"],
        "f1_squad": f1["squad"],
    }


def check_score_bounds(predictions: pl.DataFrame) -> None:
    """Raise ValueError unless 0 <= EM <= F1 <= 1 holds in every row, under both yes/no rules."""
    for column in SCORES[1:]:
        good = (pl.col("em") >= 0) & (pl.col("em") <= pl.col(column)) & (pl.col(column) <= 1)
        bad = predictions.filter(~good)
        if bad.height:
            row = bad.row(0, named=True)
            raise ValueError(
                f"{row['dataset']}/{row['question_id']}: em {row['em']}, {column} {row[column]}; "
                "0 <= em <= f1 <= 1 must hold"
            )


def calls_frame(
    trajectories: Sequence[Trajectory],
    *,
    system: str,
    seed: int,
    relevance: RelevanceRule,
    reward_rules: RewardRules,
    cut_queries: Collection[str] = (),
) -> pl.DataFrame:
    """One row per search call (``call_columns``).

    ``shown_answer``: the agent read an answer, so documents that did not fit and the ends of cut
    texts do not count. ``hidden_documents``, ``hidden_candidates``: passages of D_K, and of D_N,
    that hold an answer which the agent's, and the ranker's, prompt does not. ``hit_k``: Hit@k of
    the ranker's order. ``retriever_hit_k``: Hit@k of the retriever's order on the same call.
    ``cut_queries``: the queries of which the encoder read only the beginning.
    """
    rows = [
        {
            "system": system,
            "seed": seed,
            "dataset": trajectory.question.dataset,
            "question_id": trajectory.question.id,
            **_call(call, relevance.label(trajectory.question, call.candidates), reward_rules),
            **exposure(call, trajectory.question, relevance),
            "cut_query": call.query in cut_queries,
        }
        for trajectory in trajectories
        for call in trajectory.calls
    ]
    return pl.DataFrame(rows, schema=call_columns(reward_rules.hit_cutoffs))


def _call(call: SearchCall, labels: tuple[bool, ...], rules: RewardRules) -> dict[str, object]:
    ranked = [labels[position] for position in call.ranking]
    return {
        "turn": call.turn,
        "query": call.query,
        "candidate_ids": [candidate.passage.id for candidate in call.candidates],
        "scores": [candidate.score for candidate in call.candidates],
        "labels": list(labels),
        "ranking": list(call.ranking),
        "ranker_fault": call.output.fault if call.output else None,
        "has_answer": any(labels),
        "r_rel": relevance_reward(labels, call.ranking, rules),
        **{f"hit_{k}": hit_at(ranked, k) for k in rules.hit_cutoffs},
        **{f"retriever_hit_{k}": hit_at(labels, k) for k in rules.hit_cutoffs},
    }


def cutoffs_of(calls: pl.DataFrame) -> list[int]:
    """The k of the ``hit_k`` columns, ascending."""
    return sorted(int(name[4:]) for name in calls.columns if name.startswith("hit_"))


def summary(predictions: pl.DataFrame, calls: pl.DataFrame) -> Numbers:
    """The numbers of metrics.json: per data set, and the averages ``macro``, ``macro_groups`` and
    ``micro``. A quantity without a denominator is None, ``macro_groups`` is empty unless both kinds
    of sets are there. Raises ValueError for no question at all.
    """
    if predictions.is_empty():
        raise ValueError("no prediction to sum up")
    kinds = dict(predictions.select("dataset", "kind").unique(maintain_order=True).iter_rows())
    sets = {
        name: pooled(
            predictions.filter(pl.col("dataset") == name), calls.filter(pl.col("dataset") == name)
        )
        for name in kinds
    }
    averages = {"macro": _averaged("macro", kinds, sets)}
    both_kinds = len(set(kinds.values())) == 2
    averages["macro_groups"] = _averaged("macro_groups", kinds, sets) if both_kinds else {}
    averages["micro"] = pooled(predictions, calls)
    return {name: _rounded(part) for name, part in (("datasets", sets), ("averages", averages))}


def _averaged(name: str, kinds: Mapping[str, str], sets: Mapping[str, Numbers]) -> Numbers:
    """Averages of the numbers that exist for every set: scores, searches, share of well-formed
    rollouts."""
    mean = average(name, kinds)
    return {
        column: mean.of({key: entry[column] for key, entry in sets.items()})
        for column in (*SCORES, "searches", "well_formed")
    }


def pooled(predictions: pl.DataFrame, calls: pl.DataFrame) -> Numbers:
    """Every number of a set of questions, pooled: the entry of one data set, or of ``micro``."""
    given = calls.filter("has_answer")
    ranked = calls.filter(pl.col("hidden_candidates").is_not_null())
    terminals = predictions["terminal"].to_list()
    searches = predictions["searches"].to_list()
    return {
        "questions": predictions.height,
        **{column: predictions[column].mean() for column in (*SCORES, "searches")},
        "well_formed": terminals.count(Terminal.ANSWERED.value) / len(terminals),
        "terminals": {kind.value: terminals.count(kind.value) for kind in Terminal},
        "search_counts": {str(n): searches.count(n) for n in sorted(set(searches))},
        "calls": calls.height,
        "ranker_malformed": _share(calls, pl.col("ranker_fault").is_not_null()),
        "zero_answer_lists": _share(calls, ~pl.col("has_answer")),
        "hit": {str(k): given[f"hit_{k}"].mean() for k in cutoffs_of(calls)},
        "retriever_hit": {str(k): given[f"retriever_hit_{k}"].mean() for k in cutoffs_of(calls)},
        "r_rel": calls["r_rel"].mean(),
        "shown_answer": given["shown_answer"].mean(),
        "shown_documents": calls["shown_documents"].mean(),
        **{name: calls[name].sum() for name in (*LEFT_OUT, "hidden_documents")},
        "hidden_candidates": ranked["hidden_candidates"].sum(),
        "relevant_candidates": ranked["labels"].list.sum().sum(),
        "cut_queries": calls["cut_query"].sum(),
        "tokens": {name: predictions[f"{name}_tokens"].mean() for name in TOKENS},
    }


def _share(frame: pl.DataFrame, condition: pl.Expr) -> float | None:
    return frame.filter(condition).height / frame.height if frame.height else None


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value
