"""The trajectory browser of the report: a sample of trajectories as data, and a script to read it.

Passages, questions and outputs of models are untrusted text. They enter the page as JSON without
``<``, and the script shows them as text nodes only. The page's content policy allows this one
script, by its hash.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from markupsafe import Markup

from cosearch.report.episodes import Episode, EpisodeCall, Episodes
from cosearch.report.templates import PAGE, TEMPLATES

SCRIPT = (PAGE / "browser.js").read_text("utf-8")
"""The page's only script."""

_FILTERS = {
    "run": "Run",
    "variant": "Variant or system",
    "round": "Round",
    "dataset": "Data set",
    "outcome": "Answer",
    "terminal": "End",
    "branch": "Branch of Eq. 6",
}
_SIDES = {"question": "Question", "left": "Left", "right": "Right"}
_TESTED_SHARE = 0.5
"""Of the budget, what test questions may take; trajectories of training take the rest."""
_DIGITS = 6
"""Decimals of rewards, advantages and scores on the page."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What the page carries: the number of trajectories of training, the number of test questions,
    and all their data as JSON."""

    count: int
    questions: int
    data: str


def source_hash(source: str) -> str:
    """The hash of a script or a style, in the form of a content policy."""
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def embed(value: Any) -> str:
    """``value`` as JSON that may stand in a script element: ASCII, without ``<``, ``>`` and ``&``.

    Reading it gives ``value`` again, lone surrogates included. Raises ValueError for NaN.
    """
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def fit_episodes(episodes: Episodes, budget: int) -> Fitted:
    """As many test questions and whole trajectories as ``budget`` bytes hold, in the order they
    were chosen. A test question is held with all its systems or not at all.

    The data holds titles of all candidates, and texts of those shown (D_K) or pseudo-relevant.
    """
    filling = _Filling(episodes)
    share = int(_TESTED_SHARE * budget)
    questions = sum([filling.take(together, share) for together in episodes.tested.questions])
    count = sum([filling.take((one,), budget) for one in episodes.chosen])
    return Fitted(count, questions, embed(filling.payload()))


class _Filling:
    """What was taken so far, and how many bytes it needs."""

    def __init__(self, episodes: Episodes) -> None:
        self._episodes = episodes
        self._kept: list[tuple[Any, ...]] = []
        self._titles: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._spent = len(embed(self.payload()))

    def take(self, together: Sequence[Episode], budget: int) -> bool:
        """Take all of ``together`` if they fit into ``budget``, counted from the first byte."""
        titles: dict[str, str] = {}
        texts: dict[str, str] = {}
        for episode in together:
            more_titles, more_texts = _passages(episode, self._episodes)
            titles |= {id: t for id, t in more_titles.items() if id not in self._titles}
            texts |= {id: t for id, t in more_texts.items() if id not in self._texts}
        packed = [pack_episode(episode) for episode in together]
        # Each part is counted with its two braces, which make up for the commas between parts.
        cost = sum(len(embed(part)) for part in (*packed, titles, texts))
        if self._spent + cost > budget:
            return False
        self._spent += cost
        self._kept += [(*_place(e), p) for e, p in zip(together, packed, strict=True)]
        self._titles |= titles
        self._texts |= texts
        return True

    def payload(self) -> dict[str, Any]:
        """All data of the page."""
        return {
            "episodes": [one[-1] for one in sorted(self._kept, key=lambda one: one[:-1])],
            "systems": self._episodes.tested.systems,
            "titles": self._titles,
            "texts": self._texts,
        }


def pack_episode(episode: Episode) -> dict[str, Any]:
    """An episode as JSON holds it; a candidate is ``[id, score, relevant]``."""
    place = "test" if episode.round is None else episode.round
    return _record(episode) | {
        "id": f"{episode.variant}/{place}/{episode.question_id}/{episode.sample}",
        "calls": [_pack_call(call) for call in episode.calls],
    }


def markup(episodes: Episodes, fitted: Fitted, bound: int) -> str:
    """The section: two systems side by side, the filters, an empty list, and the data. ``bound``:
    bytes of the whole page."""
    return TEMPLATES.get_template("browser.html.j2").render(
        extent=_extent(episodes, fitted),
        megabytes=f"{bound / 1e6:g}",
        sides=_SIDES if episodes.tested.systems else {},
        filters=_FILTERS,
        data=Markup(fitted.data),
        script=Markup(SCRIPT),
    )


def _extent(episodes: Episodes, fitted: Fitted) -> str:
    rounds = {(one.variant, one.round) for one in episodes.chosen}
    tested = episodes.tested
    parts = [f"{fitted.count} of {episodes.recorded} trajectories of {len(rounds)} training rounds"]
    if tested.systems:
        words = f"the same questions for all {len(tested.systems)} systems"
        parts.append(f"{fitted.questions} of {tested.recorded} test questions, {words}")
    return f"A sample, in which rare cases come first: {'; '.join(parts)}."


def _passages(episode: Episode, episodes: Episodes) -> tuple[dict[str, str], dict[str, str]]:
    """Titles and texts, by passage id, that an episode needs."""
    titles: dict[str, str] = {}
    texts: dict[str, str] = {}
    for call in episode.calls:
        for position, found in enumerate(call.candidates):
            if (passage := episodes.passages.get(found.id)) is None:
                continue
            titles[found.id] = passage.title
            if found.relevant or position in call.ranking:
                texts[found.id] = passage.text
    return titles, texts


def _place(episode: Episode) -> tuple[bool, str, int, str, str, int]:
    """Where an episode stands in the list: by run, and evaluations after training."""
    number = episode.round or 0
    place = (episode.variant, number, episode.dataset, episode.question_id, episode.sample)
    return (episode.round is None, *place)


def _pack_call(call: EpisodeCall) -> dict[str, Any]:
    found = [[one.id, round(one.score, _DIGITS), int(one.relevant)] for one in call.candidates]
    return _record(call) | {"candidates": found}


def _record(record: Episode | EpisodeCall) -> dict[str, Any]:
    return {one.name: _short(getattr(record, one.name)) for one in fields(record)}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    return list(map(_short, value)) if isinstance(value, tuple) else value
