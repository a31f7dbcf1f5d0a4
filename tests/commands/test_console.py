"""Untrusted text on a terminal."""

import pytest

from cosearch.commands.console import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [red]text[/red]\n\tà 中", "plain [red]text[/red]\n\tà 中"),
        ("\x1b[2J\x07", "␛[2J␇"),
        ("\x9b\u202e\ud800", "\ufffd\ufffd\ufffd"),
    ],
)
def test_control_characters_are_shown_and_markup_is_text(text: str, shown: str) -> None:
    assert printable(text).plain == shown
