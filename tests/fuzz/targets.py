"""What hostile text may not do to each reader of text, and a fuzzer for them.

A target takes any text and raises AssertionError where a promise breaks. ``python -m
tests.fuzz.targets NAME [RUNS]`` fuzzes one from the corpus, with atheris where it is installed and
by seeded mutation elsewhere.
"""

import random
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from cosearch.core.formats import GRAMMARS, Answer, Malformed, Ranking, Search
from cosearch.core.formats import parse_ranking as read_ranking
from cosearch.core.formats import parse_turn as read_turn
from cosearch.core.prompts import fill_template
from cosearch.core.protocols import Segment
from cosearch.data.lists import read_qrels
from cosearch.data.passages import read_passages
from cosearch.data.questions import QuestionFile, load_questions
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.methods.zerosearch import parse_documents

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).with_name("corpus")
MODEL = ROOT / "models" / "tiny" / "agent"


def check_turn(text: str) -> None:
    """Both grammars give an action inside the text, or a reason."""
    for grammar in GRAMMARS.values():
        found = read_turn(text, grammar)
        if isinstance(found, Malformed):
            assert found.reason
            continue
        at = found.answer_at if isinstance(found, Answer) else found.query_at
        for start, end in (found.reason_at, at):
            assert 0 <= start <= end <= len(text)
        said = found.query if isinstance(found, Search) else found.text
        assert said == said.strip() != ""


def check_ranking(text: str) -> None:
    """A ranking names as many distinct candidates as were asked for, and none that is not there."""
    for candidates, wanted in ((1, 1), (8, 3), (50, 5)):
        found = read_ranking(text, candidates=candidates, wanted=wanted)
        if isinstance(found, Ranking):
            assert len(set(found.positions)) == len(found.positions) == wanted
            assert all(0 <= position < candidates for position in found.positions)


def check_documents(text: str) -> None:
    """A simulator's text is at most K documents, each with text of its own."""
    passages = parse_documents(text, at_most=3)
    assert len({passage.id for passage in passages}) == len(passages) <= 3
    assert all(passage.text for passage in passages)


@cache
def codec() -> HfCodec:
    """The shipped agent's."""
    return HfCodec(MODEL)


def check_codec(text: str) -> None:
    """Data encodes to known ids, none of them a control; in a prompt it adds none either."""
    ids = codec().encode([Segment(text, trusted=False)])
    assert all(0 <= token < len(codec().tokenizer) for token in ids)
    assert not set(ids) & codec()._control_ids
    asked = codec().chat(fill_template("tiny", "agent", {"question": text}))
    assert _controls(asked) == _controls(
        codec().chat(fill_template("tiny", "agent", {"question": "x"}))
    )


def _controls(ids: list[int]) -> list[int]:
    return [token for token in ids if token in codec()._control_ids]


def check_loaders(text: str) -> None:
    """A file of questions, passages or judgements is read, or refused in a ValueError."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("jsonl", "json", "tsv", "csv"):
            path = Path(folder) / f"rows.{suffix}"
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            for read in (_questions, _passages, _judgements):
                try:
                    read(path)
                except ValueError:
                    continue


def _questions(path: Path) -> None:
    for question in load_questions(QuestionFile("nq", path, None, "fuzz")).questions:
        assert any(gold.strip() for gold in question.golds)


def _passages(path: Path) -> None:
    assert all(passage.text for passage in read_passages(path))


def _judgements(path: Path) -> None:
    assert all(passages for passages in read_qrels(path).values())


TARGETS: Mapping[str, Callable[[str], None]] = {
    "turn": check_turn,
    "ranking": check_ranking,
    "documents": check_documents,
    "codec": check_codec,
    "loaders": check_loaders,
}


def corpus() -> list[bytes]:
    """The kept inputs, in name order."""
    return [path.read_bytes() for path in sorted(CORPUS.iterdir())]


def mutated(seed: int, inputs: list[bytes]) -> bytes:
    """One of ``inputs`` after some seeded cuts, repeats, splices and flips."""
    draw = random.Random(seed)
    data = bytearray(draw.choice(inputs))
    for _ in range(draw.randrange(1, 6)):
        start = draw.randrange(len(data) + 1)
        end = min(len(data), start + draw.randrange(1, 12))
        other = draw.choice(inputs)
        piece = {
            "cut": b"",
            "repeat": bytes(data[start:end]) * draw.randrange(2, 9),
            "splice": other[draw.randrange(len(other)) :][:40],
            "noise": draw.randbytes(end - start),
        }[draw.choice(("cut", "repeat", "splice", "noise"))]
        data[start:end] = piece
    return bytes(data)


def attack(name: str, data: bytes) -> None:
    """Give a target ``data`` as text; bytes that are none become lone surrogates."""
    TARGETS[name](data.decode("utf-8", "surrogateescape"))


def main() -> None:
    """Fuzz the named target."""
    name, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    try:
        import atheris
    except ImportError:
        inputs = corpus()
        for seed in range(runs):
            attack(name, mutated(seed, inputs))
        return
    atheris.Setup([sys.argv[0], f"-runs={runs}", str(CORPUS)], lambda data: attack(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
