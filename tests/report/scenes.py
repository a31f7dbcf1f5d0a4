"""Trajectories for the pages' tests: rows of a rollout file, and the records read from them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cosearch.core.types import Passage
from cosearch.data.corpus import write_corpus
from cosearch.files.artifacts import ROLLOUT_SCHEMA, write_frame
from cosearch.report.episodes import Episode, EpisodeCall, Episodes, LabelledCandidate, Tested
from cosearch.rollouts.recorded import rollout_frame

SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 8}
PASSAGES = [Passage(f"p{at}", f"Title {at}", f"Text of passage {at}.") for at in range(6)]
TURNS = (
    '<reason>look\n\nit up</reason>\n\n<tool_call>{"name": "search", "arguments": '
    '{"query": "fox"}}</tool_call>',
    "<reason>seen</reason> <answer>red fox</answer>",
)


def call(**changes: Any) -> EpisodeCall:
    """A search with four candidates, of which the third is relevant; two are shown."""
    found = tuple(LabelledCandidate(f"p{at}", 0.9 - at / 10, at == 2) for at in range(4))
    given: dict[str, Any] = {
        "turn": 0,
        "query": "fox",
        "output": "<reason>third</reason><rerank>[3] > [1]</rerank>",
        "fault": None,
        "candidates": found,
        "ranking": (2, 0),
        "has_answer": True,
        "shown_answer": True,
        "dropped_documents": 0,
        "cut_documents": 0,
        "r_rel": 1.0,
        "r_main": 1.0,
        "r_rank": 2.0,
        "branch": "relevance_and_main",
        "group": "nq/q0#0",
        "advantage": 0.5,
        "trained": True,
        "mates": (2.0, 1.0),
    }
    return EpisodeCall(**{**given, **changes})


def episode(**changes: Any) -> Episode:
    """A trajectory that searched once and answered right."""
    given: dict[str, Any] = {
        "variant": "cosearch",
        "round": 1,
        "dataset": "nq",
        "question_id": "q0",
        "sample": 0,
        "question": "Who is red?",
        "golds": ("red fox",),
        "turns": TURNS,
        "answer": "red fox",
        "f1": 1.0,
        "terminal": "answered",
        "fault": None,
        "reward": 1.0,
        "group": "nq/q0",
        "advantage": 0.7,
        "trained": True,
        "mates": (1.0, 0.0),
        "calls": (call(),),
    }
    return Episode(**{**given, **changes})


def episodes(chosen: Sequence[Episode], **passages: Passage) -> Episodes:
    """``chosen``, their passages (the usual six unless others are given), twice as many recorded"""
    known = {passage.id: passage for passage in PASSAGES} | passages
    return Episodes(tuple(chosen), 2 * len(chosen), known)


def with_tests(of: Episodes, systems: Sequence[str], count: int, **changes: Any) -> Episodes:
    """``of`` and ``count`` of a hundred test questions; the first system answers right."""
    plain = {"round": None, "group": None, "advantage": None, "trained": None, "mates": ()}
    questions = tuple(
        tuple(
            episode(
                variant=system,
                question_id=f"t{number}",
                f1=float(system == systems[0]),
                calls=(call(**{name: plain[name] for name in plain if name != "round"}),),
                **{**plain, "question": f"Who is {number}?", **changes},
            )
            for system in systems
        )
        for number in range(count)
    )
    return replace(of, tested=Tested(tuple(systems), questions, 100))


def trajectory_row(dataset: str, question: int, sample: int, **changes: Any) -> dict[str, Any]:
    """A row of kind trajectory that answered right after one search."""
    return {
        "kind": "trajectory",
        "round": 1,
        "dataset": dataset,
        "question_id": f"{dataset}-{question}",
        "sample": sample,
        "question": f"Who is {question}?",
        "golds": ["red fox"],
        "text": "\n\n".join(TURNS),
        "answer": "red fox",
        "terminal": "answered",
        "r_main": 1.0,
        "group": f"{dataset}/{dataset}-{question}",
        "advantage": 0.25,
        "trained": True,
        "sampling": SAMPLING,
        "weights": 0,
        **changes,
    }


def call_row(of: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A row of kind call under a trajectory's row."""
    shared = ("round", "dataset", "question_id", "sample", "question", "golds")
    return {
        **{name: of[name] for name in shared},
        "kind": "call",
        "turn": 0,
        "query": "fox",
        "candidates": [
            {"id": f"p{at}", "score": 0.9 - at / 10, "relevant": at == 2} for at in range(4)
        ],
        "ranking": [2, 0],
        "has_answer": True,
        "shown_answer": True,
        "dropped_documents": 0,
        "cut_documents": 0,
        "r_rel": 1.0,
        "r_main": 1.0,
        "r_rank": 2.0,
        "branch": "relevance_and_main",
        "group": f"{of['group']}#0",
        "advantage": -0.5,
        "trained": True,
        **changes,
    }


def write_round(folder: Path, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """A rollout file, under the schema it is published with."""
    write_frame(folder / f"round_{number:03d}.parquet", rollout_frame(rows), ROLLOUT_SCHEMA)


def make_corpus(folder: Path) -> Path:
    """A corpus of the usual six passages."""
    write_corpus(PASSAGES, folder, source="scene")
    return folder
