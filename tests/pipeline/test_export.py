"""A finished row, handed on: what others get, and what is not handed on."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import polars as pl
import pytest
import yaml
from huggingface_hub import DatasetCard, ModelCard

from cosearch.__main__ import main
from cosearch.core.formats import GRAMMARS, Malformed, parse_ranking, parse_turn
from cosearch.export.prompts import RolePrompts
from cosearch.files.artifacts import ROLLOUT_SCHEMA, read_json, write_json
from cosearch.files.hashes import hash_file, hash_files
from tests.pipeline.project import Project

ROW = "cosearch-0"
TRAINED = Path("artifacts/tiny/train/core/seed_0/cosearch")
EVALUATED = Path("artifacts/tiny/evaluate/core/seed_0/cosearch")
GATE = Path("artifacts/tiny/gate/core/seed_0/cosearch/gate.json")
IDENTITY = Path("artifacts/tiny/identity")
NEEDED = ("params.yaml", "plan.yaml", "hub.yaml", "profile.yaml", "rows.yaml", "dvc.lock", "docs")
ALONE = "import sys; sys.modules['cosearch'] = None; exec(sys.stdin.read())"
"""Runs what it is told in a process that cannot import this project."""


@pytest.fixture(scope="module")
def models(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported models of CoSearch."""
    return exported(reproduced, tmp_path_factory.mktemp("models") / "out")


@pytest.fixture(scope="module")
def rollouts(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported rollouts of CoSearch."""
    return exported(reproduced, tmp_path_factory.mktemp("rollouts") / "out", "--rollouts")


def exported(project: Project, target: Path, *more: str) -> Path:
    words = ("-m", "cosearch", "export", "--row", ROW, "--to", str(target), *more)
    told = project.command(sys.executable, *words).stdout
    assert told.startswith(f"{target}: ") and f"read {target}/README.md" in told
    return target


def examples(card: Path) -> list[str]:
    """The Python of a card, block by block."""
    return re.findall(r"^```python\n(.*?)^```$", card.read_text("utf-8"), re.M | re.S)


def run_alone(code: str, folder: Path) -> str:
    words = [sys.executable, "-c", ALONE]
    done = subprocess.run(words, cwd=folder, input=code, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def is_turn(text: str) -> bool:
    body = text.removesuffix("<|end|>")
    return not isinstance(parse_turn(body, GRAMMARS["react"]), Malformed)


def is_ranking(text: str) -> bool:
    body = text.removesuffix("<|end|>")
    return not isinstance(parse_ranking(body, candidates=8, wanted=3), Malformed)


@pytest.mark.parametrize(("role", "fits"), [("agent", is_turn), ("ranker", is_ranking)])
def test_the_card_shows_how_to_load_and_prompt_a_model(
    models: Path, role: str, fits: Callable[[str], bool]
) -> None:
    assert fits(run_alone(examples(models / role / "README.md")[0], models / role))


@pytest.mark.vllm
def test_vllm_serves_an_exported_model_as_its_card_says(models: Path) -> None:
    code = examples(models / "agent" / "README.md")[1]
    small = code.replace('LLM(".")', 'LLM(".", gpu_memory_utilization=0.3, enforce_eager=True)')
    assert small != code
    told = run_alone(small, models / "agent")  # among lines of vLLM's own
    assert any(map(is_turn, told.splitlines()))


def test_an_exported_model_is_the_trained_one(models: Path, reproduced: Project) -> None:
    for role in ("agent", "ranker"):
        trained = hash_files(reproduced.folder / TRAINED / role)
        out = hash_files(models / role)
        assert trained.items() <= out.items()
        assert out.keys() - trained.keys() == {"README.md", "prompts.json"}


def test_a_card_holds_what_was_measured(models: Path, reproduced: Project) -> None:
    told = read_json(reproduced.folder / EVALUATED / "metrics.json")["averages"]["macro"]
    data = ModelCard.load(models / "agent" / "README.md").data
    assert data.license == "apache-2.0" and data.library_name == "transformers"
    average = next(one for one in data.eval_results if one.dataset_type == "average (macro)")
    assert average.metric_value == pytest.approx(told["f1"], abs=1e-4)
    text = (models / "agent" / "README.md").read_text("utf-8")
    identity = reproduced.folder / IDENTITY / f"train@{ROW}.json"
    for words in (hash_file(identity), ROW, "changes none", "models/tiny/agent", "Apache-2.0"):
        assert words in text
    assert "{{" not in text and "{%" not in text


def test_a_card_passes_on_the_options_of_the_chat_template() -> None:
    options = {"enable_thinking": False, "strftime_now": "26 July 2024"}
    told = RolePrompts("agent", {}, "", (), options, None, False, {})
    given = ", enable_thinking=False, strftime_now=lambda form: '26 July 2024'"
    assert told.arguments() == given
    assert told.record()["chat_options"] == options


def test_prompts_and_settings_lie_beside_the_models(models: Path, reproduced: Project) -> None:
    prompts = read_json(models / "ranker" / "prompts.json")["ranker"]
    content = prompts["example"][0]["content"]
    assert re.search(r"\| .* \| 3 : .* \[1\] ", content) and "[8]" in content
    assert prompts["templates"]["ranker"][0]["content"].startswith("{question} | {query}")
    settings = read_json(models / "settings.json")
    identity = read_json(reproduced.folder / IDENTITY / f"train@{ROW}.json")
    assert settings["train"] == identity["settings"]


def test_rollouts_open_with_datasets(rollouts: Path, tmp_path: Path, reproduced: Project) -> None:
    card = DatasetCard.load(rollouts / "README.md")
    configs = {one["config_name"]: one["data_files"] for one in card.data.to_dict()["configs"]}
    assert {"rollouts", "predictions", "calls"} <= set(configs)
    for name, files in configs.items():
        found = datasets.load_dataset(str(rollouts), name, cache_dir=str(tmp_path))
        assert [str(split) for split in found] == [one["split"] for one in files]
        for one in files:
            frame = pl.read_parquet(rollouts / one["path"])
            assert found[one["split"]].column_names == frame.columns
            assert found[one["split"]].num_rows == frame.height
            for column in frame.columns:
                documented = re.sub(r"^(.*hit)_\d+$", r"\1_K", column)
                assert f"`{documented}`" in card.text, column
    rounds = sorted((reproduced.folder / TRAINED / "rollouts").glob("*.parquet"))
    shown = [one["path"] for one in configs["rollouts"] if one["split"].startswith("round_")]
    assert [Path(path).name for path in shown] == [path.name for path in rounds]
    assert pl.read_parquet_schema(rollouts / shown[0]) == ROLLOUT_SCHEMA


@pytest.fixture
def project(reproduced: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what an export reads, which a test may spoil; it is the current folder."""
    for name in NEEDED:
        source = reproduced.folder / name
        copy: Any = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, tmp_path / name)
    for name in ("data", "evaluate/core", "gate/core", "identity", "train/core"):
        part = Path("artifacts/tiny") / name
        shutil.copytree(reproduced.folder / part, tmp_path / part)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mark(path: Path, **values: Any) -> None:
    write_json(path, {**read_json(path), **values})


def refuse_at_the_gate(project: Path) -> None:
    mark(project / GATE, refused=["reads no content"])


def diverge(project: Path) -> None:
    shutil.rmtree(project / EVALUATED)
    write_json(project / EVALUATED / "skipped.json", {"status": "diverged in round 7: entropy"})


def forget_the_evaluation(project: Path) -> None:
    shutil.rmtree(project / EVALUATED)


def change_the_settings(project: Path) -> None:
    mark(project / IDENTITY / f"train@{ROW}.json", models={})


def spoil_the_weights(project: Path) -> None:
    (project / TRAINED / "agent" / "model.safetensors").write_bytes(b"")


def forget_how_the_tokenizer_loads(project: Path) -> None:
    path = project / TRAINED / "ranker" / "tokenizer_config.json"
    write_json(path, {key: value for key, value in read_json(path).items() if key != "auto_map"})
    files = read_json(project / TRAINED / "trained.json")["files"]
    files["ranker/tokenizer_config.json"] = hash_file(path)
    mark(project / TRAINED / "trained.json", files=files)


def relock(project: Path) -> None:
    """Write the hashes of the identities as they are now into dvc.lock."""
    lock = yaml.safe_load((project / "dvc.lock").read_text())
    for stage in lock["stages"].values():
        for one in stage.get("deps", ()):
            if (path := project / one["path"]).is_file() and IDENTITY in Path(one["path"]).parents:
                one["md5"] = hashlib.md5(path.read_bytes()).hexdigest()
    (project / "dvc.lock").write_text(yaml.safe_dump(lock))


AGAIN = "run `make row ROW=cosearch SEED=0`"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (refuse_at_the_gate, f"{ROW}: withheld: its ranker failed the gate"),
        (diverge, f"{ROW}: diverged in round 7: entropy"),
        (forget_the_evaluation, f"{ROW}: not trained and evaluated here; {AGAIN}"),
        (change_the_settings, AGAIN),
        (spoil_the_weights, "model.safetensors: truncated or altered"),
        (forget_how_the_tokenizer_loads, "AutoTokenizer reads its tokenizer.json as Qwen2Token"),
    ],
)
def test_what_is_not_fit_is_refused_and_leaves_nothing(
    project: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(project)
    before = set(project.iterdir())
    with pytest.raises(SystemExit, match=re.escape(told)) as refused:
        main(["export", "--row", ROW, "--to", "out"])
    assert "\n" not in str(refused.value)
    assert set(project.iterdir()) == before


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("start-0", "start-0: this row trains no model of its own"),
        ("wo_main-0", "run `make row ROW=wo_main SEED=0`"),
        ("nothing-0", "no row 'nothing-0'; a row is NAME-SEED"),
    ],
)
def test_a_row_without_models_is_refused(project: Path, row: str, told: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(told)):
        main(["export", "--row", row, "--to", "out"])


def test_a_folder_that_holds_something_stays(project: Path) -> None:
    (project / "out").mkdir()
    (project / "out" / "mine").write_text("kept")
    with pytest.raises(SystemExit, match="out: there is something already"):
        main(["export", "--row", ROW, "--to", "out"])
    assert (project / "out" / "mine").read_text() == "kept"


def test_an_unknown_base_model_needs_a_stated_licence(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stage in ("train", "evaluate"):
        path = project / IDENTITY / f"{stage}@{ROW}.json"
        text = path.read_text().replace("models/tiny/agent", "models/mine/agent")
        path.write_text(text)
    relock(project)
    with pytest.raises(SystemExit, match="models/mine/agent: no licence is known"):
        main(["export", "--row", ROW, "--to", "out"])
    main(["export", "--row", ROW, "--to", "out", "--license", "mit"])
    assert ModelCard.load(project / "out/agent/README.md").data.license == "mit"
    assert capsys.readouterr().out.startswith("out: agent, ranker of cosearch-0")


def test_an_upload_without_a_connection_is_one_line(reproduced: Project, tmp_path: Path) -> None:
    words = ("-m", "cosearch", "export", "--row", ROW, "--to", str(tmp_path / "out"))
    done = reproduced.command(sys.executable, *words, "--push", "me/mine", check=False)
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: --push: the hub is not reached") and "hf auth login" in line
