"""What a training leaves: which rows entered an update, and the models after a divergence."""

from pathlib import Path

import polars as pl

from cosearch.files.artifacts import read_json
from cosearch.params import blocks
from cosearch.params.rows import Variant
from cosearch.rollouts.wiring import Parts
from cosearch.train.idle import idle_roles, idle_rounds
from cosearch.train.joint import Setup, publish
from tests.settings import block, tiny
from tests.train.test_loop_ranker import Game

VARIANT = Variant(
    method="react",
    ranker="cross_encoder",
    models={"agent": "agent", "ranker": "cross_encoder"},
    shared=False,
    train=("ranker",),
    set={},
)


def published(game: Game) -> dict[str, object]:
    """The record of a run that ``publish`` leaves; its ranker began in the folder ``begun``."""
    diverged = game.run()
    setup = Setup(
        Parts.of(tiny(), {}),
        block(blocks.Train, rounds=game.rounds),
        None,
        VARIANT,
        seed=0,
        folders={"agent": "agent", "ranker": "begun"},
        policies={"ranker": game.policy},
    )
    target = game.folder / "published"
    publish(setup, game.store, target, diverged)
    return {
        "files": sorted(path.name for path in target.iterdir()),
        **read_json(target / "trained.json"),
    }


def test_a_run_that_diverges_in_its_first_round_leaves_no_half_updated_model(
    tmp_path: Path,
) -> None:
    record = published(Game(tmp_path, poison_at=0))
    assert record["diverged"] == {
        "round": 1,
        "reason": "ranker: the loss of update 0 is not finite in round 1",
    }
    assert record["models"] == {"agent": "agent", "ranker": "begun"}
    assert "ranker" not in record["files"]


def test_a_run_that_diverges_later_leaves_the_models_of_its_last_good_round(tmp_path: Path) -> None:
    game = Game(tmp_path, poison_at=1)
    record = published(game)
    assert record["models"]["ranker"] == str(tmp_path / "published" / "ranker")
    assert game.trainer.version == 1


def test_a_run_that_diverges_between_two_states_goes_back_to_the_same_models(
    tmp_path: Path,
) -> None:
    left = []
    for every in (1, 3):
        game = Game(tmp_path / str(every), poison_at=1, every=every)
        assert published(game)["diverged"] is not None
        left.append((game.folder / "published/ranker/model.safetensors").read_bytes())
    assert left[0] == left[1]


def test_only_rows_of_a_role_that_learns_are_trained(tmp_path: Path) -> None:
    """The agent of this run is frozen, and its trajectories have advantages all the same."""
    game = Game(tmp_path, rounds=1)
    game.run()
    rows = pl.read_parquet(game.store.rollouts / "round_001.parquet")
    agent, ranker = rows.filter(kind="trajectory"), rows.filter(kind="call")
    assert (agent["advantage"] != 0).any() and not agent["trained"].any()
    assert ranker["trained"].any()
    learned = ranker.filter(pl.col("trainer_logprobs").is_not_null())
    assert learned.height > 0 and learned["trained"].all()


def test_a_round_without_anything_to_learn_from_is_counted() -> None:
    some = {"round": 1.0, "ranker_samples": 4.0, "ranker_trained_tokens": 3.0}
    none = {"round": 2.0, "ranker_samples": 0.0, "agent_samples": 8.0, "agent_trained_tokens": 9.0}
    equal = {"round": 3.0, "ranker_samples": 4.0, "ranker_trained_tokens": 0.0}
    broken = {"round": 4.0, "ranker_samples": 4.0}
    assert [idle_roles(row) for row in (some, none, equal, broken)] == [
        [],
        ["ranker"],
        ["ranker"],
        [],
    ]
    assert idle_rounds([some, none, equal, broken]) == {"ranker": 2}
