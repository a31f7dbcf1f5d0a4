"""What the documents say is what the project holds."""

import re
import shutil
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from cosearch.__main__ import main
from cosearch.commands.results import DOCUMENTS, MARKS, long_tables, short_table
from cosearch.files.artifacts import Paths, read_json, write_json
from cosearch.params.reading import BESIDE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
TABLES = (short_table, long_tables)
"""What each of DOCUMENTS shows."""


@pytest.mark.parametrize(("path", "table"), list(zip(DOCUMENTS, TABLES, strict=True)))
def test_a_document_shows_the_tables_that_were_written(
    path: Path, table: Callable[[Paths, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = path.read_text("utf-8").split(MARKS[0])[1].split(MARKS[1])[0]
    assert shown.strip() == table(Paths("tiny"), "all_1").strip()


def test_the_command_writes_both_documents_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = Paths("tiny")
    for folder in (paths.tables("all_1"), paths.oracle_gap("all_1")):
        shutil.copytree(ROOT / folder, folder)
    made = {"maker": "GenuineIntel", "portable": 0}
    for row in ("rag-0", "cosearch-0"):
        write_json(paths.timing(f"evaluate@{row}"), {"made_by": made})
    for name in (
        "profile.yaml",
        "rows.yaml",
        "params.yaml",
        *(f"{name}.yaml" for name in BESIDE),
    ):
        Path(name).symlink_to(ROOT / name)
    Path("docs").mkdir()
    for path in DOCUMENTS:
        path.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    main(["results", "--scope", "all_1"])
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        assert text.startswith("before\n") and text.endswith("after\n") and "\nold\n" not in text
        assert "| ---" in text
    assert read_json(paths.made_by) == {"all_1": [made]}
    DOCUMENTS[0].write_text("old")
    DOCUMENTS[1].write_text("nothing to replace")
    with pytest.raises(SystemExit, match="results: begin"):
        main(["results", "--scope", "all_1"])
    assert [path.read_text() for path in DOCUMENTS] == ["old", "nothing to replace"]


def test_the_reference_names_the_same_paper_twice() -> None:
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (about["version"], about["license"]) == (pins["version"], pins["license"])
    (paper,) = about["references"]
    (entry,) = re.findall(r"^```bibtex\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
    names = [f"{one['given-names']} {one['family-names']}" for one in paper["authors"]]
    assert fields["author"] == " and ".join(names)
    assert (fields["title"], fields["year"]) == (paper["title"], str(paper["year"]))
    assert paper["url"].endswith(fields["eprint"])


def test_every_function_and_test_of_the_paper_map_exists() -> None:
    text = (ROOT / "docs/paper.md").read_text("utf-8")
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert tests and not [name for name in tests if not (ROOT / name).is_file()]
    rooms = "|".join(path.name for path in (ROOT / "cosearch").iterdir() if path.is_dir())
    names = set(re.findall(rf"`((?:{rooms})\.(?:\w+\.)+\w+)`", text))
    assert len(names) > 30
    for name in names:
        module, _, attribute = f"cosearch.{name}".rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_no_document_names_a_path_of_a_machine() -> None:
    for path in documents():
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|opt|usr)/", path.read_text("utf-8"))


def documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def links(path: Path) -> list[tuple[str, str]]:
    """Text and target of every link and picture that leads into the project."""
    found = re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", path.read_text("utf-8"))
    return [(text, target) for text, target in found if "://" not in target]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for _, target in links(path):
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"{path.name}: {target}"
        if file.suffix == ".md" and anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
            assert anchor in [slug.replace(" ", "-") for slug in slugs], f"{path.name}: {target}"


def test_every_link_to_a_line_holds_what_it_names() -> None:
    seen = 0
    for path in documents():
        for text, target in links(path):
            name, _, line = target.partition("#L")
            if not line:
                continue
            lines = (path.parent / name).read_text("utf-8").splitlines()
            wanted = re.compile(rf"\s*(?:async )?(?:def|class) {text.strip('`')}\b")
            places = [number for number, code in enumerate(lines, 1) if wanted.match(code)]
            assert int(line) in places, f"{path.name}: {text} is at line {places} of {name}"
            seen += 1
    assert seen > 25


def test_the_tour_passes_every_file_of_the_reading_path() -> None:
    path = (
        "train/loop", "rollouts/collect", "core/rollout", "core/observe", "core/rewards",
        "core/grouping", "core/advantages", "core/credit", "train/learning",
        "engines/policies/loss",
    )  # fmt: skip
    text = (ROOT / "docs/tour.md").read_text("utf-8")
    places = [text.index(f"../cosearch/{name}.py#L") for name in path]
    assert places == sorted(places)
