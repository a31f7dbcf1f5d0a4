"""The simulation of a round: by hand where one trajectory is alone, and counts that must agree."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from cosearch.files.artifacts import ROLLOUT_SCHEMA, write_frame
from cosearch.params.settings import load_settings
from cosearch.plan.lengths import Script, Turn, read_scripts
from cosearch.plan.outlook import Outlook
from cosearch.plan.simulate import Drive, Speed, continuously, in_lockstep, simulate

ROOT = Path(__file__).parents[2]
SPEED = Speed(read_s=0.01, weights_s=1.0, cached_s=0.0, sequence_s=0.1, cache=10_000, sequences=64)
SPEEDS = {"agent": SPEED, "ranker": SPEED}
ALONE: Script = (Turn(0, 100, 10, 1, 200, 5), Turn(110, 50, 3, 0, 0, 0))
DRIVERS: tuple[Callable[..., Drive], ...] = (in_lockstep, continuously)


@pytest.mark.parametrize("drive", DRIVERS)
def test_a_trajectory_that_is_alone_takes_the_sum_of_its_parts(drive: Callable[..., Drive]) -> None:
    found = drive([ALONE], SPEEDS, 0.5, "x")
    assert found.parts["agent"] == pytest.approx(100 * 0.01 + 10 + 50 * 0.01 + 3)
    assert found.parts["ranker"] == pytest.approx(200 * 0.01 + 5)
    assert found.parts["search"] == pytest.approx(2.0)
    assert found.seconds == pytest.approx(sum(found.parts.values()))


@pytest.mark.parametrize("drive", DRIVERS)
def test_every_token_is_written_once(drive: Callable[..., Drive]) -> None:
    found = drive([ALONE] * 9, SPEEDS, 0.5, "x")
    assert found.written == {"agent": 9 * 13, "ranker": 9 * 5}


def test_sequences_that_share_a_batch_share_the_reading_of_the_weights() -> None:
    one, many = (in_lockstep([ALONE] * n, SPEEDS, 1e9, "x") for n in (1, 10))
    assert many.parts["agent"] == pytest.approx(13 + 10 * 150 * 0.01)
    assert many.parts["agent"] < 10 * one.parts["agent"]


def test_a_cache_with_room_for_one_serves_one_after_the_other() -> None:
    tight = Speed(0.01, 1.0, 0.0, 0.1, cache=170, sequences=64)
    found = in_lockstep([ALONE] * 3, {"agent": tight, "ranker": SPEED}, 1e9, "x")
    again = 50 + 110  # the cache has lost the first turn, which is read again
    assert found.parts["agent"] == pytest.approx(3 * (100 * 0.01 + 10 + again * 0.01 + 3))


def test_samplers_that_work_together_share_the_gpu() -> None:
    late: Script = (Turn(0, 0, 15, 0, 0, 0),)
    early: Script = (Turn(0, 0, 8, 1, 0, 8), Turn(8, 0, 1, 0, 0, 0))
    found = continuously([early, late], SPEEDS, 1e9, "x")
    assert found.seconds > 8 + 8 + 1
    assert found.seconds <= 8 + 2 * 8 + 1 + 1e-6


def spans(*stretches: tuple[str, int, int]) -> list[dict[str, object]]:
    """Spans of (kind, turn, length), one after the other."""
    found, start = [], 0
    for kind, turn, length in stretches:
        found.append({"kind": kind, "turn": turn, "start": start, "end": start + length})
        start += length
    return found


def row(kind: str, sample: int, turn: int | None, mask: list[int], told: list[object]) -> object:
    known = {"kind": kind, "dataset": "nq", "question_id": "1", "sample": sample, "turn": turn}
    known |= {"ids": [1] * len(mask), "loss_mask": mask, "spans": told}
    return {name: known.get(name) for name in ROLLOUT_SCHEMA}


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training whose second round has a trajectory of two turns, and one that answers at once."""
    folder = tmp_path_factory.mktemp("training")
    stretches = ("prompt", 0, 12), ("reason", 0, 5), ("query", 0, 4), ("observation", 0, 30)
    searched = spans(*stretches, ("tag", 1, 2), ("answer", 1, 3))
    rows = [
        row("trajectory", 0, None, [0], searched),
        row("call", 0, 0, [0] * 90 + [1] * 7, spans(("prompt", 0, 90), ("ranking", 0, 7))),
        row("trajectory", 1, None, [0], spans(("prompt", 0, 12), ("answer", 0, 9))),
    ]
    for number, kept in enumerate((rows[2:], rows), 1):
        frame = pl.DataFrame(kept, schema=ROLLOUT_SCHEMA)
        write_frame(folder / "rollouts" / f"round_{number:03d}.parquet", frame, ROLLOUT_SCHEMA)
    return folder


def test_turns_have_the_lengths_that_the_last_round_recorded(training: Path) -> None:
    searched, direct = read_scripts(training)
    assert searched == (Turn(0, 12, 9, 1, 90, 7), Turn(21, 30, 5, 0, 0, 0))
    assert direct == (Turn(0, 12, 9, 0, 0, 0),)
    with pytest.raises(ValueError, match="name the folder of a training"):
        read_scripts(training / "rollouts")


def test_profile_paper_is_simulated_with_the_spread_of_any_training(training: Path) -> None:
    outlook = Outlook.of(load_settings("paper", ROOT / "params.yaml"))
    awake, asleep, free = simulate(outlook, training)
    assert awake.written == asleep.written == free.written
    assert asleep.seconds < awake.seconds
    habits = outlook.work.calibration.habits["generative"]
    scaled = read_scripts(training, habits)
    assert [turn.call_read for script in scaled for turn in script if turn.ranked] == [
        habits.call_prompt_tokens
    ]
    with pytest.raises(ValueError, match="stage's own process"):
        simulate(Outlook.of(load_settings("tiny", ROOT / "params.yaml")), training)
