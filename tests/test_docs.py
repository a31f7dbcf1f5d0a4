"""What the documents say is what the project holds."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from cosearch.commands.readme import MARKS, readme_block, write_readme

ROOT = Path(__file__).parents[1]


def test_the_readme_shows_the_tables_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = (ROOT / "README.md").read_text("utf-8").split(MARKS[0])[1].split(MARKS[1])[0]
    assert shown.strip() == readme_block("tiny", "all_1").strip()


def test_a_readme_without_marks_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "README.md"
    path.write_text("nothing to replace")
    with pytest.raises(ValueError, match="results: begin"):
        write_readme("tiny", "all_1", path)
    assert path.read_text() == "nothing to replace"


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
