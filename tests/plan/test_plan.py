"""The plan's arithmetic, its result for profile paper, and the quality of its predictions."""

import io
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cosearch.__main__ import main
from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe
from cosearch.engines.retrieval.index_need import index_need
from cosearch.files.artifacts import ROLLOUT_SCHEMA, Paths, write_frame
from cosearch.params.blocks import IndexGpus
from cosearch.params.plan import Architecture
from cosearch.params.settings import load_settings
from cosearch.plan import cost as plan_cost
from cosearch.plan import layout as plan_layout
from cosearch.plan import load as plan_load
from cosearch.plan import measure as plan_measure
from cosearch.plan import memory as plan_memory
from cosearch.plan import outlook as plan
from cosearch.plan.host import host_parts
from cosearch.plan.layout import Layout
from cosearch.plan.memory import Joint
from cosearch.plan.tables import lines, show_plan
from tests.settings import write_params

ROOT = Path(__file__).parents[2]
GIB = 2**30
TOY = Architecture(
    parameters=1000, layers=2, hidden=4, heads=2, kv_heads=1, head_size=2, feed_forward=8,
    vocabulary=10, tied=False,
)  # fmt: skip


@cache
def outlook(gpu: str | None = None, count: int | None = None) -> plan.Outlook:
    return plan.Outlook.of(load_settings("paper", ROOT / "params.yaml"), gpu, count)


def qwen_parameters(shape: Architecture) -> int:
    """Of a Qwen2: embeddings, biased q, k, v, an output, a gated MLP, two norms a layer and one."""
    hidden, inner = shape.hidden, shape.heads * shape.head_size
    shared = shape.kv_heads * shape.head_size
    layer = hidden * inner * 2 + inner + 2 * (hidden * shared + shared)
    layer += 3 * hidden * shape.feed_forward + 2 * hidden
    embeddings = shape.vocabulary * hidden * (1 if shape.tied else 2)
    return embeddings + shape.layers * layer + hidden


@pytest.mark.parametrize("name", ["qwen2.5-7b", "qwen2.5-3b", "tiny-policy", "tiny-policy-small"])
def test_parameters_follow_from_the_shape(name: str) -> None:
    shape = outlook().settings.file.plan.architectures[name]
    assert qwen_parameters(shape) == shape.parameters


def test_flops_of_a_toy_by_hand() -> None:
    assert plan_cost.matrix_weights(TOY) == 1000 - 40
    assert plan_cost.matrix_weights(TOY.model_copy(update={"tied": True})) == 1000
    # 2 per weight; 4 x 2 layers x 4 wide x 6 attended of 12
    assert plan_cost.forward_flops(TOY, 12, causal=True) == 2 * 960 + 4 * 2 * 4 * 6
    assert plan_cost.forward_flops(TOY, 12, causal=False) == 2 * 960 + 4 * 2 * 4 * 12


def test_cache_of_the_large_agent() -> None:
    shape = outlook().settings.file.plan.architectures["qwen2.5-7b"]
    assert plan_layout.cache_bytes(shape, 2) == 57344


def test_the_flat_index_has_the_size_of_the_published_one() -> None:
    sizes = plan_memory.index_bytes(21015324, 768, pq_m=96, hnsw_m=32)
    assert sizes["flat"] == 42949672960 + 21609402413 - 45  # two parts, less the header


def test_sizes_of_indexes_are_those_of_the_engine_less_centroids() -> None:
    sizes = plan_memory.index_bytes(21015324, 768, pq_m=96, hnsw_m=32)
    assert set(sizes) == set(KINDS)
    values = {"nlist": 16384, "nprobe": 64, "train_rows": 1, "ef_construction": 80, "ef_search": 1}
    for kind, size in sizes.items():
        recipe = IndexRecipe(kind, 1, pq_m=96, hnsw_m=32, seed=0, **values)
        need = index_need(recipe, rows=21015324, dimension=768, shard_rows=1)
        assert size == pytest.approx(need.bytes_file, rel=0.03)
    assert {"pq", "ivf_pq", "hnsw"}.isdisjoint(
        plan_memory.index_bytes(9, 8, pq_m=None, hnsw_m=None)
    )


@cache
def layout(**zero: object) -> Layout:
    """Profile paper's, with other rules of DeepSpeed."""
    found = outlook().engines.layout()
    assert found is not None
    return replace(found, trainer=found.trainer.model_copy(update=zero))


@cache
def joint(count: int = 8) -> Joint:
    return outlook().joint(outlook().machine(count))


def test_the_engines_decide_how_the_gpus_are_shared() -> None:
    found, block = layout(), outlook().settings.file.profiles["paper"]
    assert found.agent == block.agent.vllm and found.ranker == block.ranker.vllm
    assert found.trainer == block.train.deepspeed and found.gpus is block.index.gpus


@pytest.mark.parametrize(
    ("stage", "bytes_per_parameter"),
    [(1, 2 + 4 + 12 / 8), (2, 2 + 16 / 8), (3, 18 / 8)],
)
def test_zero_splits_states_as_its_paper_says(stage: int, bytes_per_parameter: float) -> None:
    memory = joint().memory
    parts = plan_memory.state_parts(TOY, layout(stage=stage).trainer, memory, 8)
    assert sum(parts.values()) * GIB == pytest.approx(1000 * bytes_per_parameter)
    away = layout(stage=stage, offload_optimizer=True).trainer
    moved = plan_memory.state_parts(TOY, away, memory, 8)
    assert moved["optimiser"] == 0.0 and moved["weights"] == parts["weights"]
    assert moved["gradients"] == (parts["gradients"] if stage == 1 else 0.0)


@given(st.integers(2, 64), st.integers(2, 64), st.sampled_from([1, 2, 3]))
def test_more_gpus_never_need_more_memory_each(first: int, second: int, stage: int) -> None:
    few, many = sorted((first, second))
    for role in joint().roles:
        needs = [
            plan_memory.update_need(role, layout(stage=stage), joint(count)).peak
            for count in (few, many)
        ]
        assert needs[1] <= needs[0]


def test_four_of_80_are_refused_and_eight_fit() -> None:
    four, eight = (outlook().verdict(outlook().machine(count)) for count in (4, 8))
    assert eight.fits and not four.fits
    assert [need.phase for need in four.phases] == [
        "encode", "load", "rollout", "update agent", "update ranker", "hand over", "evaluate",
    ]  # fmt: skip
    assert four.reasons[0] == "agent.vllm has 8 replicas on 8 GPUs, and there are 4"
    assert any(x.startswith("update ranker") and "agent's states" in x for x in four.reasons)
    assert four.others[0] == {
        "train.deepspeed.offload_optimizer": True,
        "agent.vllm.replicas": 4,
        "ranker.vllm.replicas": 4,
    }


def with_settings(tmp_path: Path, changes: Mapping[str, object]) -> plan.Outlook:
    """Profile paper with other settings, by the keys that the plan names."""

    def change(params: dict[str, Any]) -> None:
        for key, value in changes.items():
            *path, last = key.split(".")
            block = params["profiles"]["paper"]
            for name in path:
                # an anchor's block is one object for several keys
                block[name] = dict(block[name])
                block = block[name]
            block[last] = value

    return plan.Outlook.of(load_settings("paper", write_params(tmp_path, change)))


def test_settings_with_which_it_would_fit_are_parameters_and_fit(tmp_path: Path) -> None:
    for changes in outlook().verdict(outlook().machine(4)).others:
        other = with_settings(tmp_path, changes)
        assert other.verdict(other.machine(4)).fits


def test_shares_that_do_not_fit_beside_the_states_are_refused(tmp_path: Path) -> None:
    shares = {"agent.vllm.memory_share": 0.5, "ranker.vllm.memory_share": 0.5}
    large = with_settings(tmp_path, shares)
    verdict = large.verdict(large.machine(8))
    reasons = [" ".join(reason.split()[:4]) for reason in verdict.reasons]
    assert reasons == ["rollout needs 87.1 GiB", "hand over needs 89.2", "evaluate needs 83.6 GiB"]
    share = verdict.others[0]["agent.vllm.memory_share"]
    assert 0.4 <= share < 0.5 and verdict.others[0]["ranker.vllm.memory_share"] == share


def test_a_share_without_room_for_the_longest_sequence_is_refused(tmp_path: Path) -> None:
    small = with_settings(tmp_path, {"agent.vllm.memory_share": 0.21})
    said = list(small.verdict(small.machine(8)).reasons)
    wanted = "agent.vllm.memory_share 0.21 leaves 0.5 GiB of cache, and 24576 tokens take 1.3"
    assert said == [f"rollout: {wanted}", f"evaluate: {wanted}"]
    short = with_settings(tmp_path, {"agent.vllm.max_model_tokens": 16384})
    assert "may have 24576" in short.verdict(short.machine(8)).reasons[0]


def test_samplers_that_stay_awake_or_have_their_own_gpus() -> None:
    role, usual = joint().roles[0], layout()
    awake = usual.with_samplers(shared_gpus=False)
    asleep, beside = (plan_memory.update_need(role, one, joint()).peak for one in (usual, awake))
    assert beside - asleep == pytest.approx(2 * 0.4 * 79.6)
    apart = awake.with_samplers(devices=(4, 5, 6, 7), replicas=4)
    assert apart.own_gpus == 4 and list(apart.lacks(8)) == []
    _, rollout, update, *_ = plan_memory.needs(apart, joint())
    assert "agent's trainer" not in rollout.parts and "agent's sampler" not in update.parts
    assert update.parts["optimiser"] == pytest.approx(role.shape.parameters * 12 / 4 / GIB)
    assert "leave none of 8 GPUs" in next(awake.with_samplers(devices=tuple(range(8))).lacks(8))
    assert "9 GPUs" in next(usual.with_samplers(devices=(8,), replicas=1).lacks(8))


def test_what_trainers_move_away_is_room_for_samplers_and_every_phase_has_a_peak() -> None:
    moved, kept = layout(), layout(offload_optimizer=True)
    peaks = {need.phase: need.peak for need in plan_memory.needs(moved, joint())}
    assert list(peaks) == [
        "load", "rollout", "update agent", "update ranker", "hand over", "evaluate"
    ]  # fmt: skip
    weights = 2 * 7615616512 * 2 / 8 / GIB
    assert peaks["rollout"] - peaks["evaluate"] == pytest.approx(weights)
    assert peaks["hand over"] - peaks["rollout"] == pytest.approx(
        plan_memory.gathered(moved, joint())
    )
    assert plan_memory.largest_share(moved, joint()) == 0.43
    fits = moved.with_samplers(memory_share=0.43)
    assert all(need.fits for need in plan_memory.needs(fits, joint()))
    over = moved.with_samplers(memory_share=0.44)
    assert not all(need.fits for need in plan_memory.needs(over, joint()))
    apart = [plan_memory.resting(role, kept.trainer, joint().memory, 8) for role in joint().roles]
    assert sum(apart) == pytest.approx(weights)


def test_an_index_on_the_gpus_and_offloaded_states_are_counted() -> None:
    spread = IndexGpus(spread=True, float16=False)
    copied = IndexGpus(spread=False, float16=True)
    for gpus, share in ((spread, 1 / 8), (copied, 1 / 2)):
        found = replace(layout(), gpus=gpus)
        need = plan_memory.sampling_need("rollout", found, joint(), training=True)
        update = plan_memory.update_need(joint().roles[0], found, joint())
        assert need.parts["index"] == update.parts["index"]
        assert need.parts["index"] == pytest.approx(joint().index * share)
        assert "index" not in host_parts(found, joint())
    host = host_parts(layout(), joint())
    assert host["index"] == joint().index
    agent, ranker = (
        host[f"{name}'s states, or its samplers asleep"] for name in ("agent", "ranker")
    )
    assert agent == pytest.approx(7615616512 * 16 / GIB)  # it learns in every row
    assert ranker == pytest.approx(2 * 8 * 7615616512 * 2 / GIB)  # some rows keep it: pinned
    away = layout(offload_optimizer=True, offload_parameters=True)
    host = host_parts(away, joint())
    assert host["agent's optimiser"] == pytest.approx(7615616512 * 16 / GIB)
    assert host["agent's weights"] == pytest.approx(7615616512 * 2 / GIB)
    assert sum(
        plan_memory.state_parts(TOY, away.trainer, joint().memory, 8).values()
    ) == pytest.approx(0.0)


def test_replicas_bound_what_samples_and_the_share_how_much_at_once() -> None:
    work, file = outlook().work, outlook().settings.file
    stage = work.training("cosearch", "core", 1)
    engines, gpu = outlook().engines, file.plan.gpus["h100-80"]
    agent = engines.samplers["agent"]
    assert [agent.replicas(count) for count in (2, 8, 16)] == [2, 8, 8]
    shape = work.architecture("qwen2.5-7b")
    least, most = (agent.sequences(shape, tokens, gpu, file.plan.memory) for tokens in (1e6, 1.0))
    assert (least, most) == (1, 256)
    eight, sixteen = (
        plan_cost.load_seconds(stage.loads[0], file.plan, outlook().machine(count), engines)
        for count in (8, 16)
    )
    assert eight["sample"] == sixteen["sample"] and eight["update"] == 2 * sixteen["update"]


def test_every_row_is_priced_once() -> None:
    found, graph = outlook().priced(), outlook().settings.graph
    rows: dict[str, int] = {}
    for one in found:
        rows[one.stage.stage] = rows.get(one.stage.stage, 0) + one.stage.rows
    assert rows == {
        "encode": 1,
        "fixed_ranker_data": 1,
        "fixed_ranker": len(graph.seeds),
        "train": len(graph.trainings),
        "evaluate": len(graph.evaluations),
    }
    assert all(one.cost.flops > 0 and one.cost.hours > 0 for one in found)


def test_a_collection_of_lists_is_encoded_and_kept_like_the_corpus() -> None:
    work, disk = outlook().work, outlook().disk()
    corpus, collection = work.stages()[:2]
    assert collection.stage == "fixed_ranker_data"
    share = 8841823 / 21015324
    assert collection.loads[0].read == pytest.approx(corpus.loads[0].read * share)
    whole = disk["corpus"] + disk["passage vectors"] + disk["index"]
    assert disk["collections of lists"] == pytest.approx(whole * share)


def test_joint_training_by_hand() -> None:
    """Tokens of variant cosearch: 100 rounds of 512 x 8, and 11 looks at 512 development rows."""
    work = outlook().work
    stage = work.training("cosearch", "core", 3)
    agent, ranker = stage.loads
    rolled, dev = 100 * 512 * 8, 11 * 512
    assert agent.read + agent.sampled == pytest.approx(
        (rolled + dev) * (270 + 2.67 * 90 + 1.67 * 780)
    )
    assert ranker.sampled == pytest.approx((rolled + dev) * 1.67 * 220)
    assert ranker.trained == pytest.approx(0.35 * rolled * 1.67 * (7900 + 220))
    assert stage.queries == pytest.approx((rolled + dev) * 1.67)


def test_frozen_rankers_and_one_turn_methods_cost_what_they_do() -> None:
    work = outlook().work
    frozen = work.training("fixed_ranker", "core", 1)
    assert [bool(load.trained) for load in frozen.loads] == [True, False]
    direct, rag = (work.evaluation(name, "core", 1) for name in ("direct", "rag"))
    assert direct.queries == 0 and rag.queries == 51713
    assert direct.loads[0].read == pytest.approx(51713 * 270)
    few, many = (work.evaluation(f"cosearch_grid_{n}", "more", 1) for n in (0, 3))
    assert few.loads[0].read < many.loads[0].read
    assert few.loads[1].read == many.loads[1].read
    roles = {load.role for load in work.evaluation("search_o1", "more", 1).loads}
    assert roles == {"agent", "notes"}
    assert "simulator" in {load.role for load in work.training("zerosearch", "more", 1).loads}
    scorer = work.training("cross_encoder", "more", 1).loads[1]
    assert (scorer.architecture, scorer.sampled) == ("bge-reranker-v2-m3", 0)
    assert scorer.trained > 0


def test_twice_the_gpus_take_about_half_the_hours() -> None:
    eight, sixteen = (
        sum(x.cost.seconds["update"] for x in outlook(count=n).priced()) for n in (8, 16)
    )
    assert eight == pytest.approx(2 * sixteen)


def test_the_whole_plan_is_printed() -> None:
    console = Console(file=io.StringIO(), width=200)
    show_plan(outlook(), console, rows=True)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "4 x h100-80 (80 GiB each): refused: agent.vllm has 8 replicas" in text
    assert "would fit with train.deepspeed.offload_optimizer: true, agent.vllm.replicas: 4" in text
    assert "8 x h100-80 (80 GiB each): fits" in text
    assert all(name in text for name in ("cosearch_small", "oracle_grid_3", "ivf_pq", "rollouts"))


def test_assumptions_are_told() -> None:
    assert any(line.startswith("habits assumed, not measured: ") for line in lines(outlook()))


@pytest.mark.parametrize("profile", ["tiny", "mini"])
def test_a_profile_without_vllm_and_deepspeed_has_tokens_and_hours_alone(profile: str) -> None:
    found = plan.Outlook.of(load_settings(profile, ROOT / "params.yaml"))
    console = Console(file=io.StringIO(), width=200)
    show_plan(found, console, rows=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "memory is not planned: not all engines are vllm and deepspeed" in text
    assert "GPU memory" not in text and "hours" in text
    assert all(one.cost.hours > 0 for one in found.priced())
    agent = found.engines.samplers["agent"]
    assert (agent.replicas(8), agent.width) == (1, 1)
    stages = {one.stage.stage for one in found.priced()}
    assert ("train" in stages) == (profile == "tiny")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "paper", "--gpu", "abacus"], "plan.gpus: no 'abacus'"),
        (["--profile", "paper", "--count", "0"], "count: 0 GPUs"),
        (["--profile", "paper", "--check", "9"], "seed 9 trained none of"),
        (["--profile", "paper", "--calibrate"], "no rollouts of seed 0"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(
    monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit, match=r"^error: ") as caught:
        main(["plan", *words])
    assert message in str(caught.value)


def test_a_data_set_without_a_number_of_rows_is_refused() -> None:
    work = plan_load.Workload(
        load_settings("mini", ROOT / "params.yaml"), outlook().work.calibration
    )
    with pytest.raises(ValueError, match=r"data\.sets\.nq\.test: a plan needs"):
        work.questions("test")
    assert work.questions("test", most=5) == 35


def test_a_profile_without_habits_is_refused(tmp_path: Path) -> None:
    path = write_params(tmp_path, lambda params: params["plan"]["calibration"].pop("mini"))
    with pytest.raises(ValueError, match=r"plan\.calibration: no 'mini'"):
        plan.Outlook.of(load_settings("mini", path))


def test_planning_imports_no_torch() -> None:
    planned = "cosearch.plan.tables, cosearch.commands.doctor"
    code = f"import sys, {planned}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def rolled_out(folder: Path, seed: int, *, rounds: int, mean_searches: float) -> None:
    """Rollout files of a policy whose lengths are drawn; a call row for every search."""
    draw = random.Random(seed)
    for number in range(rounds):
        rows = []
        for sample in range(40):
            searches = sum(draw.random() < mean_searches / 4 for _ in range(4))
            rows.append(trajectory(draw, number, sample, searches))
            rows += [call(draw, number, sample) for _ in range(searches)]
        frame = pl.DataFrame(rows, schema=ROLLOUT_SCHEMA)
        write_frame(folder / "rollouts" / f"round_{number + 1:03d}.parquet", frame, ROLLOUT_SCHEMA)


def row(kind: str, number: int, sample: int, mask: list[int], live: bool) -> dict[str, Any]:
    filled = {
        "kind": kind,
        "round": number + 1,
        "sample": sample,
        "ids": [1] * len(mask),
        "loss_mask": mask,
        "trainer_logprobs": [0.0] * len(mask) if live else None,
    }
    return {name: filled.get(name) for name in ROLLOUT_SCHEMA}


def trajectory(draw: random.Random, number: int, sample: int, searches: int) -> dict[str, Any]:
    mask, spans = [0] * 12, [{"kind": "prompt", "turn": 0, "start": 0, "end": 12}]
    for turn in range(searches + 1):
        for kind, flag, low in (("observation", 0, 30), ("reason", 1, 8)):
            if flag or turn:
                start = len(mask)
                mask += [flag] * draw.randint(low, low + 8)
                spans.append({"kind": kind, "turn": turn, "start": start, "end": len(mask)})
    return row("trajectory", number, sample, mask, draw.random() < 0.6) | {"spans": spans}


def call(draw: random.Random, number: int, sample: int) -> dict[str, Any]:
    mask = [0] * draw.randint(90, 110) + [1] * draw.randint(10, 16)
    return row("call", number, sample, mask, draw.random() < 0.4)


def test_constants_of_one_seed_predict_the_tokens_of_another(tmp_path: Path) -> None:
    for seed in (0, 1):
        rolled_out(tmp_path / str(seed), seed, rounds=30, mean_searches=1.6)
    first, second = (plan_measure.tally(tmp_path / str(seed)) for seed in (0, 1))
    habits = first.habits("cosearch")
    assert habits.turns == pytest.approx(habits.searches + 1)
    own = plan_measure.deviations(plan_measure.predict(habits, 1200), first.tokens)
    other = plan_measure.deviations(plan_measure.predict(habits, 1200), second.tokens)
    assert max(one.relative for one in own) < 1e-9
    assert max(one.relative for one in other) <= 0.1
    assert sum(one.measured for one in other) > 0


def test_a_policy_of_other_habits_is_beyond_the_tolerance(tmp_path: Path) -> None:
    rolled_out(tmp_path / "a", 0, rounds=5, mean_searches=1.6)
    rolled_out(tmp_path / "b", 0, rounds=5, mean_searches=2.4)
    habits = plan_measure.tally(tmp_path / "a").habits("cosearch")
    found = plan_measure.deviations(
        plan_measure.predict(habits, 200), plan_measure.tally(tmp_path / "b").tokens
    )
    assert max(one.relative for one in found) > 0.1


def test_no_rollouts_and_an_agent_without_searches(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no rollout files"):
        plan_measure.tally(tmp_path)
    rolled_out(tmp_path, 0, rounds=1, mean_searches=0.0)
    habits = plan_measure.tally(tmp_path).habits("retrieval_only")
    assert (habits.searches, habits.call_prompt_tokens, habits.observation_tokens) == (0, 0, 0)


def test_calibrate_and_check_find_the_trainings_of_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("params.yaml", "plan.yaml", "hub.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    rolled_out(Paths("tiny").train("core", 0, "cosearch"), 0, rounds=2, mean_searches=1.6)
    main(["plan", "--profile", "tiny", "--calibrate"])
    assert capsys.readouterr().out.startswith("cosearch: {measured: cosearch, searches: 1.")
    with pytest.raises(SystemExit, match="off by more than 10%"):
        main(["plan", "--profile", "tiny", "--check", "0"])
    assert "beyond" in capsys.readouterr().out
