"""Texts on a terminal that lacks some of their signs."""

import io

import pytest

from cosearch.run.terminal import write_plainly


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "- +- 0.5 -> 1 Beyonc\\xe9 \\u4e2d \\U0001f600"),
        ("latin-1", "- ± 0.5 -> 1 Beyoncé \\u4e2d \\U0001f600"),
        ("utf-8", "– ± 0.5 → 1 Beyoncé 中 😀"),
    ],
)
def test_signs_that_a_terminal_lacks_are_told_by_others(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding))
    write_plainly()
    print("– ± 0.5 → 1 Beyoncé 中 😀", end="", flush=True)
    assert written.getvalue().decode(encoding) == shown
