"""The trajectory browser of the report: a sample of trajectories as data, and a script to read it.

Passages, questions and outputs of models are untrusted text. They enter the page as JSON without
``<``, and the script shows them as text nodes only. The page's content policy allows this one
script, by its hash.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

from cosearch.report.episodes import Episode, EpisodeCall, Episodes

_PAGE = files("cosearch.report") / "page"
SCRIPT = (_PAGE / "browser.js").read_text("utf-8")
"""The page's only script."""

_FILTERS = {
    "variant": "Variant",
    "round": "Round",
    "dataset": "Data set",
    "outcome": "Answer",
    "terminal": "End",
    "branch": "Branch of Eq. 6",
}
_DIGITS = 6
"""Decimals of rewards, advantages and scores on the page."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The trajectories that the page carries: their number, and all their data as JSON."""

    count: int
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
    """As many whole trajectories as ``budget`` bytes hold, in the order they were chosen.

    The data holds titles of all candidates, and texts of those shown (D_K) or pseudo-relevant.
    """
    kept: list[tuple[Any, ...]] = []
    titles: dict[str, str] = {}
    texts: dict[str, str] = {}
    spent = len(embed(_payload([], titles, texts)))
    for episode in episodes.chosen:
        more_titles, more_texts = _passages(episode, episodes)
        more_titles = {id: t for id, t in more_titles.items() if id not in titles}
        more_texts = {id: t for id, t in more_texts.items() if id not in texts}
        packed = pack_episode(episode)
        # Each part is counted with its two braces, which make up for the commas between parts.
        cost = sum(len(embed(part)) for part in (packed, more_titles, more_texts))
        if spent + cost > budget:
            continue
        spent += cost
        kept.append((*_place(episode), packed))
        titles |= more_titles
        texts |= more_texts
    ordered = [one[-1] for one in sorted(kept, key=lambda one: one[:-1])]
    return Fitted(len(kept), embed(_payload(ordered, titles, texts)))


def pack_episode(episode: Episode) -> dict[str, Any]:
    """An episode as JSON holds it; a candidate is ``[id, score, relevant]``."""
    return _record(episode) | {
        "id": f"{episode.variant}/{episode.round}/{episode.question_id}/{episode.sample}",
        "calls": [_pack_call(call) for call in episode.calls],
    }


def markup(episodes: Episodes, fitted: Fitted, bound: int) -> str:
    """The section: its filters, an empty list, and the data. ``bound``: bytes of the whole page."""
    selects = "".join(
        f"<label>{html.escape(label)}"
        f'<select data-filter="{name}"><option value="">all</option></select></label>'
        for name, label in _FILTERS.items()
    )
    return (
        f'<section id="section-episodes">\n<h2>Trajectories</h2>\n<p>{_extent(episodes, fitted)} '
        f"A page holds at most {bound / 1e6:g} MB; trajectories beyond that are left out whole. "
        "Keys <kbd>j</kbd> and <kbd>k</kbd> go to the next and the previous one; the address of "
        "the page names the filters and the trajectory.</p>\n"
        f'<form id="episodes-filters" role="search">{selects}'
        '<label class="wide">Text<input type="search" data-filter="text"></label></form>\n'
        '<p id="episodes-count" role="status" aria-live="polite"></p>\n'
        '<div id="episodes-panes"><ol id="episodes-list"></ol>'
        '<article id="episodes-detail"></article></div>\n'
        "<noscript><p>The trajectories are shown by a script.</p></noscript>\n"
        f'<script type="application/json" id="episodes-data">{fitted.data}</script>\n'
        f"<script>{SCRIPT}</script>\n</section>"
    )


def _extent(episodes: Episodes, fitted: Fitted) -> str:
    rounds = {(one.variant, one.round) for one in episodes.chosen}
    left_out = len(episodes.chosen) - fitted.count
    text = f"{fitted.count} of {episodes.recorded} trajectories recorded in {len(rounds)} rounds."
    return f"{text} {left_out} of the sample were left out for their size." if left_out else text


def _payload(
    episodes: Sequence[Mapping[str, Any]], titles: Mapping[str, str], texts: Mapping[str, str]
) -> dict[str, Any]:
    return {"episodes": episodes, "titles": titles, "texts": texts}


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


def _place(episode: Episode) -> tuple[str, int, str, str, int]:
    return (
        episode.variant,
        episode.round,
        episode.dataset,
        episode.question_id,
        episode.sample,
    )


def _pack_call(call: EpisodeCall) -> dict[str, Any]:
    found = [[one.id, round(one.score, _DIGITS), int(one.relevant)] for one in call.candidates]
    return _record(call) | {"candidates": found}


def _record(record: Episode | EpisodeCall) -> dict[str, Any]:
    return {one.name: _short(getattr(record, one.name)) for one in fields(record)}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    return list(map(_short, value)) if isinstance(value, tuple) else value
