"""Two files of a user become valid parameters, or an error that names the faulty rows."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.utils.serialize import modify_yaml

from cosearch.__main__ import main
from cosearch.commands import doctor, machine
from cosearch.commands.init import make_profile
from cosearch.commands.profile_text import add_profile
from cosearch.data.assemble import assemble, read_questions
from cosearch.data.own_files import check_files
from cosearch.files.artifacts import Paths, read_json
from cosearch.files.hashes import hash_folder
from cosearch.params import blocks
from cosearch.params.rows_file import check_rows, profile_folders
from cosearch.params.settings import load_settings

ROOT = Path(__file__).parents[2]
PATTERN = "profiles/mini/profile.yaml"


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def questions(count: int = 50, **more: Any) -> list[dict[str, Any]]:
    return [{"question": f"Who wrote book {n}?", "answer": [f"writer {n}"]} | more for n in range(count)]  # fmt: skip  # noqa: E501


def passages(count: int = 500) -> list[dict[str, Any]]:
    return [{"id": f"p{n}", "title": f"Book {n}", "text": f"By writer {n}."} for n in range(count)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's parameters beside a folder with the user's files."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "profiles" / "mini").mkdir(parents=True)
    for name in ("params.yaml", "plan.yaml", "hub.yaml", "dvc.yaml", "profile.yaml", PATTERN):
        shutil.copyfile(ROOT / name, root / name)
    (root / "models").mkdir()
    (tmp_path / "mine").mkdir()
    write_lines(tmp_path / "mine" / "q.jsonl", questions())
    write_lines(tmp_path / "mine" / "c.jsonl", passages())
    monkeypatch.chdir(root)
    return root


def init(*more: str) -> None:
    files = ("--questions", "../mine/q.jsonl", "--corpus", "../mine/c.jsonl")
    main(["init", *files, "--name", "books", *more])


@pytest.mark.parametrize("name", ["../mine/c.jsonl", "profiles/books/questions.jsonl"])
def test_a_file_that_changes_after_the_check_is_named(project: Path, name: str) -> None:
    init()
    check_files(Path("profiles/books"))
    (project / name).write_text("{}\n")
    with pytest.raises(ValueError, match=f"^{re.escape(name)}: missing, or another file"):
        check_files(Path("profiles/books"))


@pytest.mark.parametrize("like", ["mini", "tiny"])
def test_fifty_questions_become_a_profile_that_loads(
    project: Path, like: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "params.yaml").read_text("utf-8")
    init("--like", like)
    assert capsys.readouterr().out.splitlines()[0] == (
        "questions: 50 (30 train, 10 dev, 10 test); passages: 500"
    )
    settings = load_settings("books")
    assert settings.section(blocks.Models).agent.startswith("models/books/")
    assert settings.section(blocks.Train) == load_settings(like).section(blocks.Train)
    assemble(settings.section(blocks.Data), Path("."), Paths("books"))
    found = {split: read_questions(Paths("books"), split) for split in ("train", "dev", "test")}
    assert {split: len(rows) for split, rows in found.items()} == {
        "train": 30,
        "dev": 10,
        "test": 10,
    }
    assert {q.golds[0] for rows in found.values() for q in rows} == {
        f"writer {n}" for n in range(50)
    }
    with modify_yaml(str(project / "params.yaml")):
        pass  # as `dvc exp run -S` writes it
    after = (project / "params.yaml").read_text("utf-8")
    start = after.index("  books:")
    added = len(after) - len(before)
    assert after[:start] + after[start + added :] == before


@pytest.mark.parametrize("like", ["mini", "tiny", "paper"])
def test_the_plan_and_the_doctor_know_the_profile(
    project: Path, like: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: (project / name).read_text("utf-8") for name in ("params.yaml", "plan.yaml")}
    shutil.copytree(ROOT / "models/tiny", project / "models/tiny")
    (project / "profiles/paper").mkdir()
    shutil.copyfile(ROOT / "profiles/paper/profile.yaml", project / "profiles/paper/profile.yaml")
    init("--like", like)
    calibration = load_settings("books").file.plan.calibration
    assert calibration["books"].passages == 500
    assert calibration["books"].passage_bytes == round(
        sum(len(f"Book {n}By writer {n}.") for n in range(500)) / 500
    )
    assert not [name for name, h in calibration["books"].habits.items() if h.measured]
    before, after = calibration[like].habits, calibration["books"].habits
    assert {name: h.model_copy(update={"measured": None}) for name, h in before.items()} == after
    for name, text in files.items():  # what was there stays
        added = iter((project / name).read_text("utf-8").splitlines())
        assert all(line in added for line in text.splitlines())
    capsys.readouterr()
    main(["plan", "--profile", "books"])
    assert "Profile books" in capsys.readouterr().out
    assert examined("books", like) == ({"models/books/"} if like != "tiny" else set())


def examined(profile: str, like: str) -> set[str]:
    """What the doctor finds lacking of models and data."""
    settings = load_settings(profile)
    found = doctor.examine(settings, Paths(profile), machine.real_probes())
    places = ("models/", "data:")
    return {
        one.name[: len("models/books/")] for one in found if one.fix and one.name.startswith(places)
    }


@pytest.mark.parametrize(("like", "count"), [("mini", 3), ("tiny", 2)])
def test_models_that_are_lacking_come_first(
    project: Path, like: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "models/tiny", project / "models/tiny")
    init("--like", like)
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert len(commands) == count
    assert ("stages.base_models --profile books" in commands[0]) == (count == 3)


def test_the_folder_leads_to_the_graph_and_the_models(project: Path) -> None:
    (project / "models" / "mini").mkdir()
    init()
    folder = project / "profiles" / "books"
    assert (folder / "dvc.yaml").samefile(project / "dvc.yaml")
    assert (folder / "params.yaml").samefile(project / "params.yaml")
    told, pattern = (
        yaml.safe_load(path.read_text("utf-8"))
        for path in (folder / "profile.yaml", ROOT / PATTERN)
    )
    assert told == pattern | {"profile": "books", "folder": "profiles/books"}
    assert (project / "models" / "books").samefile(project / "models" / "mini")
    check_rows(load_settings("books"), folder)
    assert profile_folders() == {
        "tiny": Path(), "books": Path("profiles/books"), "mini": Path("profiles/mini"),
    }  # fmt: skip
    assert read_json(project / "models" / "books.json") == {}


def test_models_that_are_there_are_recorded(project: Path) -> None:
    for name in ("encoder", "agent"):
        (project / "models" / "tiny" / name).mkdir(parents=True)
        (project / "models" / "tiny" / name / "config.json").write_text("{}")
    init("--like", "tiny")
    folders = ["models/books/agent", "models/books/encoder"]
    hashes = {folder: hash_folder(Path(folder)) for folder in folders}
    assert read_json(project / "models" / "books.json") == hashes


def test_splits_that_rows_name_are_kept(project: Path, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": f"Who {n}?", "golden_answers": ["a"], "answer_aliases": [],
         "supporting_ids": [], "split": ("train", "dev", "test")[n % 3]}
        for n in range(9)
    ]  # fmt: skip
    write_lines(tmp_path / "mine" / "q.jsonl", rows)
    init()
    kept = (project / "profiles/books/questions.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["split"] for line in kept] == [row["split"] for row in rows]


def test_a_split_stays_when_rows_change_places(project: Path, tmp_path: Path) -> None:
    named = [{"id": f"q{n}", "question": f"Who {n}?", "golden_answers": ["a"]} for n in range(20)]
    found = []
    for name, rows in (("one", named), ("two", named[::-1])):
        path = write_lines(tmp_path / f"{name}.jsonl", rows)
        make_profile(name, path, Path("../mine/c.jsonl"), like="mini", kind="single")
        lines = (project / f"profiles/{name}/questions.jsonl").read_text("utf-8").splitlines()
        found.append({(row["id"], row["split"]) for row in map(json.loads, lines)})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("q", '{"question": "Who?", "answer": ["x"]}\n{"question": "Who?"}\nno json\n',
         "2 of 3 rows: row 2: no key 'answer'; row 3: not JSON, truncated? (Expecting value"),
        ("q", '{"question": "Who?", "answer": [" "]}\n', "1 of 1 rows: row 1: no gold answer"),
        ("q", '{"question": " ", "answer": ["x"]}\n', "row 1: blank 'question'"),
        ("q", "[1]\n", "row 1: list, not an object"),
        ("q", '{"text": 1}\n', "row 1: no known format has keys ['text']"),
        ("q", "", "no rows"),
        ("q", '{"question": "Who?", "answer": ["x"]}\n', "every split needs a question"),
        ("c", '{"id": "a", "title": "t", "text": "x"}\n\n{"id": "a", "title": "t", "text": "y"}\n',
         "passage 2 ('a', 't') has an id that is used before"),
        ("c", '{"id": "a", "title": "t", "text": " "}\n', "row 1: passage 't' has no text"),
        ("c", '{"id": "a", "title": "t", "text": "x"}\n', "1 passages, but a search asks for 10"),
    ],
)  # fmt: skip
def test_faulty_rows_are_named_and_nothing_is_written(
    project: Path, tmp_path: Path, file: str, text: str, words: str
) -> None:
    (tmp_path / "mine" / f"{file}.jsonl").write_text(text, "utf-8")
    before = (project / "params.yaml").read_bytes()
    with pytest.raises(SystemExit, match=re.escape(words)):
        init()
    assert (project / "params.yaml").read_bytes() == before
    assert not (project / "profiles" / "books").exists()


def test_only_the_first_faults_are_listed(project: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "mine" / "q.jsonl", questions(9, answer=[]))
    with pytest.raises(SystemExit, match=r"9 of 9 rows: row 1: [^;]*(; row [2-5]: [^;]*){4}$"):
        init()


@pytest.mark.parametrize(("name", "words"), [("Books!", "lower case"), ("tiny", "there already")])
def test_a_name_that_is_none_or_taken_is_refused(project: Path, name: str, words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        init("--name", name)


def test_a_file_without_the_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="no line"):
        add_profile("profiles:\n  tiny:\n", "books", "mini", "")
