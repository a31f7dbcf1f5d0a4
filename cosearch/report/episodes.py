"""Trajectories for a reader: question, turns, candidates, rankings and rewards.

A round holds thousands of trajectories and a page some dozens. This module chooses them without
random numbers, so that rare features of a round (a data set, an end, a case of Eq. 6) are shown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.core.text import answer_f1
from cosearch.core.types import Passage, Terminal
from cosearch.data.corpus import PassageLookup
from cosearch.report.spread import KEY, Key, key_of, spread
from cosearch.tables.groups import round_number

_LIGHT = (*KEY, "kind", "golds", "answer", "terminal", "branch", "r_main", "r_rank", "group")
TOLD = (
    *(*_LIGHT, "turn", "question", "query", "text", "fault", "candidates", "ranking"),
    *("has_answer", "shown_answer", "dropped_documents", "cut_documents"),
    *("r_rel", "advantage", "trained"),
)
"""Columns that a reader is shown."""
_REASONING = "reason|think"
_OPENED = re.compile(rf"\s*<(?:{_REASONING})>")
_CLOSED = re.compile(rf"</(?!(?:{_REASONING})>)\w+>\s*$")
"""How a turn begins and how it ends, in all formats of the agent (Section 3.1)."""


@dataclass(frozen=True, slots=True)
class LabelledCandidate:
    """A member of D_N: passage id, the retriever's score, and whether it is pseudo-relevant."""

    id: str
    score: float
    relevant: bool


@dataclass(frozen=True, slots=True)
class EpisodeCall:
    """One search. ``ranking`` holds positions in ``candidates``, best first, of which the agent was
    shown all but the last ``dropped_documents``; the end of ``cut_documents`` of these was cut.
    ``output`` is the text that the ranker wrote, ``mates`` are the rewards of its whole GRPO group.
    """

    turn: int
    query: str
    output: str | None
    fault: str | None
    candidates: tuple[LabelledCandidate, ...]
    ranking: tuple[int, ...]
    has_answer: bool
    shown_answer: bool
    dropped_documents: int
    cut_documents: int
    r_rel: float
    r_main: float
    r_rank: float
    branch: str
    group: str | None
    advantage: float | None
    trained: bool | None
    mates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Episode:
    """One trajectory. ``round``: the number of its file, from 1; None for one of an evaluation,
    which has no group, no advantage and no mates either. ``f1``: 0 for a trajectory without an
    answer; it does not depend on the reward (Eq. 4)."""

    variant: str
    round: int | None
    dataset: str
    question_id: str
    sample: int
    question: str
    golds: tuple[str, ...]
    turns: tuple[str, ...]
    answer: str | None
    f1: float
    terminal: str
    fault: str | None
    reward: float
    group: str | None
    advantage: float | None
    trained: bool | None
    mates: tuple[float, ...]
    calls: tuple[EpisodeCall, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """A sample of the ``recorded`` test questions, the most important first: of each of them the
    trajectory of every one of ``systems``. The first two systems stand side by side at first."""

    systems: tuple[str, ...] = ()
    questions: tuple[tuple[Episode, ...], ...] = ()
    recorded: int = 0


@dataclass(frozen=True, slots=True)
class Episodes:
    """Chosen trajectories of training, the most important first, and of evaluations.

    ``recorded``: number of trajectories in the chosen rounds. ``passages``: passage id -> passage,
    for those candidates that the corpus knows.
    """

    chosen: tuple[Episode, ...]
    recorded: int
    passages: Mapping[str, Passage]
    tested: Tested = Tested()


def read_episodes(
    runs: Mapping[str, Path], passages: PassageLookup, *, yes_no_rule: str, limit: int
) -> Episodes:
    """At most ``limit`` trajectories of the first, middle and last round of every run.

    ``runs``: label -> folder of ``round_NNN.parquet``. Raises ValueError for a run without rounds
    or a file that is no rollout file.
    """
    strata: list[list[Episode]] = []
    recorded = 0
    for label, folder in runs.items():
        for number, path in first_middle_last(folder):
            total, chosen = _read_round(path, label, number, yes_no_rule, limit)
            recorded += total
            strata.append(chosen)
    ranked = [
        (rank, at, episode)
        for at, stratum in enumerate(strata)
        for rank, episode in enumerate(stratum)
    ]
    chosen = [episode for _, _, episode in sorted(ranked, key=lambda one: one[:2])]
    return Episodes(tuple(chosen), recorded, look_up(chosen, passages))


def first_middle_last(folder: Path) -> list[tuple[int, Path]]:
    """Numbers and files of a run's first, middle and last round; fewer when it has fewer."""
    files = sorted(folder.glob("round_*.parquet"))
    if not files:
        raise ValueError(f"{folder}: no rounds; run `dvc repro` to make them")
    places = sorted({0, (len(files) - 1) // 2, len(files) - 1})
    return [(round_number(files[at]), files[at]) for at in places]


def split_turns(text: str) -> tuple[str, ...]:
    """The agent's turns, which a rollout file joins by a blank line.

    A turn may hold blank lines itself. A new turn begins where the text before it ends with the
    closing tag of a block other than reasoning, or where the text opens a reasoning block. Any
    other part belongs to the turn before it.
    """
    turns: list[str] = []
    for part in text.split("\n\n"):
        if turns and not _CLOSED.search(turns[-1]) and not _OPENED.match(part):
            turns[-1] += f"\n\n{part}"
        else:
            turns.append(part)
    return tuple(turn for turn in turns if turn.strip())


def _read_round(
    path: Path, label: str, number: int, yes_no_rule: str, limit: int
) -> tuple[int, list[Episode]]:
    """The number of trajectories in a round, and the chosen ones. The columns of token ids are left
    unread, because they are large."""
    try:
        light = pl.scan_parquet(path).select(_LIGHT).collect()
        features = _features(light.to_dicts(), yes_no_rule)
        keys = spread(features, limit)
        picked = pl.DataFrame(keys, schema={n: light.schema[n] for n in KEY}, orient="row")
        whole = pl.scan_parquet(path).select(TOLD)
        rows = whole.join(picked.lazy(), on=KEY, how="semi").collect().to_dicts()
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path}: not a rollout file ({error})") from None
    mates = _rewards_by_group(light)
    by_key: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(key_of(row), []).append(row)
    episodes = [episode_of(by_key[key], label, number, yes_no_rule, mates) for key in keys]
    return len(features), episodes


def _features(rows: Iterable[Mapping[str, Any]], yes_no_rule: str) -> dict[Key, list[str]]:
    found: dict[Key, list[str]] = {}
    for row in rows:
        features = found.setdefault(key_of(row), [])
        if row["kind"] == "call":
            features.append(f"branch {row['branch']}")
        else:
            outcome = outcome_of(row, yes_no_rule)
            features += [row["dataset"], f"outcome {outcome}", f"end {row['terminal']}"]
    return found


def outcome_of(row: Mapping[str, Any], yes_no_rule: str) -> str:
    """How good the answer in a trajectory's row is: exact, partial or none of it."""
    f1 = _f1(row, yes_no_rule)
    return "exact" if f1 == 1 else "partial" if f1 else "none"


def _rewards_by_group(light: pl.DataFrame) -> dict[tuple[str, str], tuple[float, ...]]:
    """Rewards of every group; the agent's and the ranker's are told apart by the kind of row."""
    reward = pl.when(pl.col("kind") == "call").then("r_rank").otherwise("r_main")
    grouped = (
        light.filter(pl.col("group").is_not_null())
        .group_by("kind", "group", maintain_order=True)
        .agg(reward.alias("rewards"))
    )
    return {(kind, group): tuple(rewards) for kind, group, rewards in grouped.iter_rows()}


def episode_of(
    rows: Sequence[Mapping[str, Any]],
    label: str,
    number: int | None,
    yes_no_rule: str,
    mates: Mapping[tuple[str, str], tuple[float, ...]],
) -> Episode:
    """The episode of a trajectory's row and the rows of its calls. ``mates``: kind and group -> the
    rewards of the group."""
    (row,) = (row for row in rows if row["kind"] == "trajectory")
    calls = sorted((row for row in rows if row["kind"] == "call"), key=lambda row: row["turn"])
    return Episode(
        variant=label,
        round=number,
        golds=tuple(row["golds"]),
        turns=split_turns(row["text"]),
        f1=_f1(row, yes_no_rule),
        reward=row["r_main"],
        mates=mates.get(("trajectory", row["group"]), ()),
        calls=tuple(_call(call, mates.get(("call", call["group"]), ())) for call in calls),
        **{name: row[name] for name in (*KEY, "question", "answer", "terminal", "fault")},
        **{name: row[name] for name in ("group", "advantage", "trained")},
    )


def _call(row: Mapping[str, Any], mates: tuple[float, ...]) -> EpisodeCall:
    return EpisodeCall(
        output=row["text"],
        candidates=tuple(LabelledCandidate(**found) for found in row["candidates"]),
        ranking=tuple(row["ranking"]),
        mates=mates,
        **{name: row[name] for name in ("turn", "query", "fault", "has_answer", "r_rel")},
        **{name: row[name] for name in ("shown_answer", "dropped_documents", "cut_documents")},
        **{name: row[name] for name in ("r_main", "r_rank", "branch", "group")},
        **{name: row[name] for name in ("advantage", "trained")},
    )


def _f1(row: Mapping[str, Any], yes_no_rule: str) -> float:
    if row["terminal"] != Terminal.ANSWERED or row["answer"] is None:
        return 0.0
    return answer_f1(row["answer"], row["golds"], yes_no_rule=yes_no_rule)


def look_up(episodes: Iterable[Episode], passages: PassageLookup) -> dict[str, Passage]:
    """Look up all passages in one call, because a corpus scans its ids at every call."""
    wanted = {found.id for one in episodes for call in one.calls for found in call.candidates}
    ids = sorted(wanted)
    if not ids:
        return {}
    return {
        id: passages.passage(int(position))
        for id, position in zip(ids, passages.positions(ids), strict=True)
        if position >= 0
    }
