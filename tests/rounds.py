"""Rollouts of two training rounds, in files as training writes them.

The fixture ``trained`` is there for every test (``tests/conftest.py``).
"""

import dataclasses
import random

import pytest

from cosearch.core.advantages import AdvantageRules
from cosearch.core.credit import CreditRules, assign_credit
from cosearch.core.grouping import GroupRules
from cosearch.core.types import Terminal
from cosearch.files.artifacts import ROLLOUT_SCHEMA, write_frame, write_text
from cosearch.train.record import Round

RULES = GroupRules(semantic=True, delta=0.8, k_min=3)
QUERIES = ("red fox", "the red fox", "blue whale song", "green tree")
TEXTS = (["blue", "green", "red fox", "black"], ["blue", "green", "grey", "black"])


def credit_of(rollouts, rules=RULES):
    return CreditRules(
        reward=rollouts.reward,
        relevance=rollouts.relevance,
        group=rules,
        advantage=AdvantageRules(std="sample", adv_eps=1e-6),
        average_duplicates=False,
        drop_constant_groups=False,
        max_ranker_samples=None,
    )


def trajectories_of(rollouts, seed, *, ranked=True):
    """Three questions, eight trajectories each, up to two searches; some malformed."""
    rng = random.Random(seed)
    made = []
    for number in range(3):
        question = rollouts.question("nq", number)
        for sample in range(8):
            calls = [
                dataclasses.replace(
                    rollouts.call(rng.choice(TEXTS), rng.sample(range(4), 3), turn=turn),
                    query=rng.choice(QUERIES),
                )
                for turn in range(rng.randint(0, 2))
            ]
            if not ranked:
                calls = [dataclasses.replace(call, output=None) for call in calls]
            ended = Terminal.MALFORMED if rng.random() < 0.2 else Terminal.ANSWERED
            answer = rng.choice(["red fox", "red dog", "cat"])
            trajectory = rollouts.trajectory(question, answer, calls=calls, terminal=ended)
            made.append(dataclasses.replace(trajectory, sample=sample))
    return made


@pytest.fixture
def trained(tmp_path, rollouts):
    """A variant's folder after two rounds, and the rounds."""
    return write_rounds(tmp_path / "cosearch", rollouts)


def write_rounds(folder, rollouts, *, rules=RULES, ranked=True):
    credit = credit_of(rollouts, rules)
    rounds = []
    for number in range(2):
        made = trajectories_of(rollouts, number, ranked=ranked)
        rounds.append(Round(number, made, assign_credit(made, credit), {}, {}, {}))
        path = folder / "rollouts" / f"round_{number + 1:03d}.parquet"
        write_frame(path, rounds[-1].frame(), ROLLOUT_SCHEMA)
    write_text(folder / "metrics.csv", "round,dev_f1,r_main\n0,0.1,\n1,,0.2\n2,0.3,0.4\n")
    return folder, rounds
