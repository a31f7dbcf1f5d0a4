"""The joint loop with a real cross-encoder beside a scripted agent: learn, resume, diverge."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from cosearch.core.observe import RetrieverStage
from cosearch.core.protocols import Generate, JudgeCase, Judgement
from cosearch.core.rollout import roll_out
from cosearch.core.score import CrossEncoderStage
from cosearch.core.types import Passage, Question, Sampling
from cosearch.engines.policies.heads import PickHead
from cosearch.engines.policies.loss import LossRules
from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder
from cosearch.engines.policies.step import OptimizerRules
from cosearch.engines.policies.trainer_torch import TorchTrainer
from cosearch.engines.scripted import ScriptedCodec, ScriptedPolicy, ScriptedRetriever
from cosearch.params.blocks import Guards
from cosearch.rollouts.policy import Policy
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.trained import Diverged
from cosearch.train.loop import JointRun, LoopRules, train
from cosearch.train.observer import Observer
from tests.core.builders import ASSISTANT, CODEC, agent_rules, answer_turn, preset, search_turn
from tests.micro import save_scorer

QUESTIONS = [Question(str(n), "nq", f"where is {n}", ("Oslo",)) for n in range(4)]
TOWNS = ("Rome", "Bern", "Oslo", "Bath")
PASSAGES = [Passage(str(number), "t", f"{town} here") for number, town in enumerate(TOWNS)]
NO_GUARDS = Guards(
    min_well_formed=None,
    min_ranker_well_formed=None,
    min_entropy=None,
    max_entropy=None,
    max_gap=None,
    max_reward_drop=None,
    patience=1,
)
PAPER = preset("paper")
CREDIT = replace(PAPER, reward=replace(PAPER.reward, hit_cutoffs=(1, 2)))


class Killed(Exception):
    """Stands for a kill between two rounds."""


class KeptCodec(ScriptedCodec):
    """A codec that has nothing to save."""

    def save(self, folder: Path) -> None:
        """Nothing."""


def script(_: str, request: Generate) -> str:
    """Search, then answer with the town of the first document shown."""
    if request.prompt_ids.count(ASSISTANT) == 1:
        return search_turn("here")
    shown = CODEC.decode(request.prompt_ids).rsplit("t [1] ", 1)[1]
    return answer_turn(shown.split(" ", 1)[0])


@dataclass
class Game:
    """A run of the loop in ``folder``, with what it was told on the way."""

    folder: Path
    credit: Any = CREDIT
    rounds: int = 3
    lr: float = 1e-3
    kill_at: int | None = None
    judge: Any = None
    guards: Guards = NO_GUARDS
    poison_at: int | None = None
    every: int = 1
    phases: list[str] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    rows: list[Mapping[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        model = self.folder / "model"
        if not model.exists():
            save_scorer(model, vocabulary=160, initializer_range=0.1)
        self.trainer = TorchTrainer(
            model,
            head=PickHead(),
            dtype="float32",
            rules=OptimizerRules(self.lr, (0.9, 0.95), 0.0, 1.0, 0, 1 << 14, 4096),
            loss=LossRules(0.2, "sum_per_sequence", None, 0.0, 3),
            scratch=self.folder / "scratch",
        )
        sampler = CrossEncoder(model, batch_tokens=1 << 14, dtype="float32")
        self.policy = Policy(KeptCodec(), sampler, self.trainer, 1.0)
        self.store = RunStore(self.folder / "run", {"game": "one"}, {}, every=self.every)

    def run(self) -> Diverged | None:
        sampling = Sampling(1.0, 1.0, 0, 1)
        stages = (
            RetrieverStage(top_n=4, top_k=2),
            CrossEncoderStage(2, CODEC, sampling, "tiny", 100, 120),
        )

        def play(number: int) -> Any:
            rules = agent_rules()
            return lambda question, sample: roll_out(question, sample, rules, stages, number)

        with self.store as store:
            run = JointRun(
                rules=LoopRules(self.rounds, 2, 2, 6, 2, 2, 7, None),
                credit=self.credit,
                guards=self.guards,
                questions=QUESTIONS,
                play=play,
                policies={"ranker": self.policy},
                learners=["ranker"],
                engines={
                    "agent": ScriptedPolicy(script),
                    "ranker": self.policy.sampler,
                    "retriever": ScriptedRetriever(PASSAGES),
                },
                judge=self.judge,
                evaluate=lambda: {"f1": 0.5},
                store=store,
            )
            return train(run, Observer(self.report, self.phase, self.moved.append))

    def report(self, number: int, phase: str, metrics: Mapping[str, float]) -> None:
        if phase == "rollout" and number == self.kill_at:
            raise Killed
        if phase == "rollout" and number == self.poison_at:
            with torch.no_grad():
                next(self.trainer._model.parameters()).fill_(torch.nan)
        if phase == "done":
            self.rows.append(metrics)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.phases.append(name)
        yield

    def calls(self, number: int) -> pl.DataFrame:
        frame = pl.read_parquet(self.store.rollouts / f"round_{number:03d}.parquet")
        return frame.filter(pl.col("kind") == "call")

    def files(self) -> dict[str, bytes]:
        self.store.publish(self.folder / "out", self.rounds)
        return {p.name: p.read_bytes() for p in (self.folder / "out").rglob("*") if p.is_file()}

    def saved(self) -> list[str]:
        return [path.name for path in (self.folder / "run" / "state").iterdir()]


def test_a_cross_encoder_learns_in_the_joint_loop(tmp_path: Path) -> None:
    game = Game(tmp_path, rounds=12, lr=3e-3)
    assert game.run() is None
    first, last = game.rows[0], game.rows[-1]
    assert last["r_rank"] > first["r_rank"] + 0.5
    assert last["hit_1"] > first["hit_1"] + 0.3
    assert last["ranker_well_formed"] == 1.0
    assert max(row["ranker_gap_max"] for row in game.rows) < 1e-4
    assert game.policy.sampler.weights == game.trainer.version == 12
    calls = game.calls(1)
    assert calls["ids"].to_list() == calls["ranking"].to_list()
    assert set(calls["text"]) <= {f"[{a}] > [{b}]" for a in range(1, 5) for b in range(1, 5)}


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    straight = Game(tmp_path / "straight")
    straight.run()
    with pytest.raises(Killed):
        Game(tmp_path / "killed", kill_at=2).run()
    resumed = Game(tmp_path / "killed")
    resumed.run()
    assert [row["round"] for row in resumed.rows] == [3.0]
    assert resumed.files() == straight.files()
    assert resumed.trainer.checksum() == straight.trainer.checksum()


def test_the_parts_of_a_round_are_timed(tmp_path: Path) -> None:
    game = Game(tmp_path, rounds=2)
    game.run()
    one = ["rollout", "score", "update_ranker", "update_ranker", "hand_over"]
    assert game.phases == [
        *("evaluate", *one, "checkpoint"),
        *(*one, "evaluate", "checkpoint"),
    ]
    assert game.moved == [sum(value.nbytes for value in game.trainer.weights().values())] * 2


class FirstJudge:
    """Likes Rome in first place."""

    def __call__(self, cases: Sequence[JudgeCase]) -> list[Judgement]:
        return [Judgement(float("Rome" in case.passages[0].text), 1, 2) for case in cases]


def test_a_judge_pays_the_ranker(tmp_path: Path) -> None:
    judged = replace(CREDIT, reward=replace(CREDIT.reward, source="judge"))
    game = Game(tmp_path, credit=judged, judge=FirstJudge(), rounds=1)
    game.run()
    calls = game.calls(1)
    assert set(calls["branch"]) == {"judge"}
    assert (set(calls["dropped_judged"]), set(calls["cut_judged"])) == ({1}, {2})
    paid = [float(ranking[0] == 0) for ranking in calls["ranking"].to_list()]
    order = [c[0]["id"] for c in calls["candidates"].to_list()]
    assert set(order) == {"0"}
    assert calls["r_rank"].to_list() == paid
    assert 0 < sum(paid) < len(paid)


def test_a_guard_stops_the_run_and_the_round_before_is_kept(tmp_path: Path) -> None:
    guards = NO_GUARDS.model_copy(update={"min_entropy": 10.0, "patience": 2})
    game = Game(tmp_path, guards=guards, rounds=5)
    found = game.run()
    assert found is not None and found.round == 2
    assert found.reason.startswith("ranker_entropy = ")
    assert found.reason.endswith("is below min_entropy = 10 in round 2 (2 in a row)")
    assert [row["round"] for row in game.rows] == [1.0]
    assert game.saved() == ["round_000001"]
    assert [row["round"] for row in game.store.metrics()] == [0.0, 1.0, 2.0]
    assert len(game.calls(2)) == 12
    assert Game(tmp_path, guards=guards, rounds=5).run() == found
    calm = Game(tmp_path / "calm", guards=guards.model_copy(update={"min_entropy": 0.01}), rounds=2)
    assert calm.run() is None


def test_an_update_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    game = Game(tmp_path, poison_at=1)
    found = game.run()
    assert found == Diverged(2, "ranker: the loss of update 1 is not finite in round 2")
    assert game.saved() == ["round_000001"]
    assert len(game.calls(2)) == 12
    assert [row["round"] for row in game.store.metrics()] == [0.0, 1.0, 2.0]
    assert "ranker_gap_mean" not in game.store.metrics()[2]
    assert (tmp_path / "scratch" / "not_finite_1.pt").is_file()
