"""The Fixed Ranker's training (Appendix)."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cosearch.data.corpus import Corpus
from cosearch.data.index import open_corpus
from cosearch.data.lists import read_list_sources
from cosearch.files.artifacts import move_folder, named, read_json, write_json
from cosearch.params import blocks
from cosearch.params.method import Method
from cosearch.rollouts.pipelines import generative_ranker
from cosearch.rollouts.policy import serving
from cosearch.rollouts.wiring import (
    Learning,
    Parts,
    engines_of,
    open_learner,
    open_run,
    supervision,
)
from cosearch.run.stage import Stage
from cosearch.train.idle import idle_rounds
from cosearch.train.lists import Lists
from cosearch.train.observer import observer_of
from cosearch.train.single_turn import ListRules, ListRun, train_ranker

RECORD = "fixed_ranker.json"
"""The file that says where the Fixed Ranker's model is."""
SHOWN = ("r_rank", "hit_1", "ranker_well_formed")
"""Metrics of a round that progress shows."""


def train_fixed_ranker(stage: Stage, seed: int, lists_path: Path, target: Path) -> None:
    """Train the Fixed Ranker on the lists and publish model, rollouts and metrics. In a run of
    zero rounds the base ranker takes its place."""
    parts, block = Parts.of(stage.settings, {}), stage.settings.section(blocks.FixedRanker)
    folder = parts.models.ranker
    if not block.rounds:
        write_json(target / RECORD, {"ranker": folder})
        return
    sizes = stage.settings.section(blocks.Train)
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    sources = read_list_sources(stage.paths)
    collections = {name: Corpus(stage.paths.collection(name)) for name in sources if sources[name]}
    lists = Lists(lists_path, corpus, collections)
    with open_run(stage, {}, every=sizes.checkpoint_rounds) as store, ExitStack() as stack:
        longest = parts.ranker.max_turn_tokens
        role = Learning(parts.ranker, block.temperature, block.lr, longest, sizes)
        policy = open_learner(folder, role, parts, store.folder)
        stack.enter_context(serving({"ranker": policy}))
        rules = list_rules(block, parts.method, sizes.update_questions, len(lists), seed)
        run = ListRun(
            rules=rules,
            credit=parts.credit(),
            lists=lists,
            ranker=generative_ranker(parts.tools({"ranker": policy}, policy.temperature)),
            policy=policy,
            engines=engines_of(retriever, {"ranker": policy}, supervision(stage)),
            store=store,
        )
        train_ranker(run, observer_of(stage, rules.rounds, SHOWN))
        aside = store.fresh("published")
        store.publish(aside, rules.rounds)
        with named(target / "ranker"):
            policy.export(aside / "ranker")
        record: dict[str, Any] = {"accepted": store.accepted} if store.accepted else {}
        record |= {"ranker": str(target / "ranker"), "idle": idle_rounds(store.metrics())}
        write_json(aside / RECORD, record)
        move_folder(aside, target)
        store.discard()


def read_fixed_ranker(target: Path) -> str:
    """Model folder of the Fixed Ranker."""
    folder: str = read_json(target / RECORD)["ranker"]
    return folder


def list_rules(
    block: blocks.FixedRanker, method: Method, update_lists: int, lists: int, seed: int
) -> ListRules:
    """Sizes of the single-turn loop; a round never asks for more lists than there are."""
    group_size = method.rollout.group_size
    return ListRules(
        rounds=block.rounds,
        lists=min(block.questions, lists),
        group_size=group_size,
        per_update=update_lists * group_size,
        importance_cap=method.loss.importance_cap,
        seed=seed,
    )
