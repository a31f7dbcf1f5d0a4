"""Keys and values in memory that is taken once per batch, and kept from one turn to the next.

A turn's prompt begins with the whole turn before it. So the sampler keeps what its last call
computed, and of a prompt that goes on from there it runs the new tokens only.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer


class RoomyLayer(DynamicLayer):
    """A layer's keys and values, each [slots, heads, columns, size], with free columns behind the
    ``used`` ones. A forward pass writes its columns in place and sees the first ``rows`` slots."""

    def __init__(self, held: tuple[torch.Tensor, torch.Tensor], used: int) -> None:
        super().__init__()
        self.held = held
        self.keys, self.values = held
        self.dtype, self.device = held[0].dtype, held[0].device
        self.rows, self.used = len(held[0]), used
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new columns; returns all keys and values up to them."""
        start, self.used = self.used, self.used + key_states.shape[-2]
        keys, values = (held[: self.rows, :, : self.used] for held in self.held)
        keys[:, :, start:] = key_states
        values[:, :, start:] = value_states
        return keys, values

    def get_seq_length(self) -> int:
        """Columns in use."""
        return self.used

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Let the slots ``indices`` be the rows. A slot either stays or comes from behind the rows
        that are left; it changes places with one that ended, which keeps its memory."""
        places = (indices != torch.arange(len(indices), device=indices.device)).nonzero()[:, 0]
        for held in self.held:
            swap(held, places, indices[places])
        self.rows = len(indices)


def swap(held: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Let the rows ``left`` and ``right`` of ``held`` change places, pair by pair."""
    held[left], held[right] = held[right], held[left]


class BatchCache:
    """The cache and the attention mask [slots, columns] of a batch while it is sampled.

    ``rows`` repeats the rows that a forward pass has filled, and ``free`` columns are added. The
    first slots are those that go on; the others hold what has ended.
    """

    def __init__(
        self, cache: Any, mask: torch.Tensor, rows: torch.Tensor, free: int, device: torch.device
    ) -> None:
        self.cache = cache
        self.slots = list(range(len(rows)))
        """The row that lies in each slot."""
        self._running = len(rows)
        self._used = mask.shape[1]
        self._device = device
        self.prompt_tokens = len(rows) * int(mask.sum(dim=1).max())
        """How many tokens the prompts have, each counted as the longest one."""
        self._mask = torch.nn.functional.pad(mask[rows], (0, free))
        _take_room(cache, rows.to(device), free)

    @property
    def places(self) -> list[int]:
        """The rows that go on, in the order of the cache."""
        return self.slots[: self._running]

    @property
    def mask(self) -> torch.Tensor:
        """The columns [slots, used] that hold a token."""
        return self._mask[:, : self._used]

    def select(self, alive: Sequence[int]) -> torch.Tensor:
        """Let the rows at ``alive``, in ascending order, go on. Returns their new order [alive]."""
        left = len(alive)
        late = [place for place in alive if place >= left]
        ended = sorted(set(range(left)) - set(alive))
        order = torch.arange(left)
        if left < self._running:
            order[ended] = torch.tensor(late, dtype=torch.long)
            swap(self._mask, torch.tensor(ended, dtype=torch.long), order[ended])
            for one, other in zip(ended, late, strict=True):
                self.slots[one], self.slots[other] = self.slots[other], self.slots[one]
            self.cache.batch_select_indices(order.to(self._device))
            self._running = left
        return order

    def grow(self) -> torch.Tensor:
        """The attention mask [rows that go on, used] with a column for one more token of each."""
        self._mask[: self._running, self._used] = 1
        self._used += 1
        return self._mask[: self._running, : self._used]


def _take_room(cache: Any, rows: torch.Tensor, free: int) -> None:
    """Repeat the rows of ``cache``, with room for ``free`` more columns in every layer that keeps
    all columns. Other layers stay of their kind."""
    layers = getattr(cache, "layers", None)
    if layers is None:
        cache.batch_select_indices(rows)
        return
    for number, layer in enumerate(layers):
        if type(layer) in (DynamicLayer, RoomyLayer):
            layers[number] = _with_room(layer, rows, free)
        else:
            layer.batch_select_indices(rows)


def _with_room(layer: DynamicLayer, rows: torch.Tensor, free: int) -> RoomyLayer:
    used = layer.get_seq_length()
    assert layer.keys is not None and layer.values is not None
    pair = layer.keys[:, :, :used][rows], layer.values[:, :, :used][rows]
    return RoomyLayer((_widened(pair[0], free), _widened(pair[1], free)), used)


def _widened(held: torch.Tensor, free: int) -> torch.Tensor:
    """``held`` [slots, heads, columns, size] in front of ``free`` more columns, not yet set."""
    slots, heads, columns, size = held.shape
    room = held.new_empty(slots, heads, columns + free, size)
    room[:, :, :columns] = held
    return room


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A sequence that a batch of the last call ended with: its ids, and where its keys and values
    lie. They are those of all ids but the last, which no forward pass has seen."""

    ids: tuple[int, ...]
    batch: int
    slot: int

    @property
    def computed(self) -> int:
        """How many ids have keys and values."""
        return len(self.ids) - 1


class KeptTurns:
    """The turns of one call, and the caches of its batches.

    ``tokens`` bounds the prompts of the batches that are kept, as it bounds those of one batch.
    """

    def __init__(self, tokens: int) -> None:
        self._left = tokens
        self._turns: list[KeptTurn] = []
        self._batches: list[tuple[list[RoomyLayer], torch.Tensor]] = []

    def find(self, prompt: tuple[int, ...]) -> KeptTurn | None:
        """The turn that ``prompt`` goes on from."""
        place = bisect_right(self._turns, prompt, key=lambda turn: turn.ids)
        turn = self._turns[place - 1] if place else None
        return turn if turn and prompt[: len(turn.ids)] == turn.ids else None

    def keep(self, batch: BatchCache, turns: Sequence[tuple[int, ...]]) -> None:
        """Keep a batch, of which ``turns`` are the ids of every row. A batch beyond the bound is
        not kept, nor one whose cache drops columns."""
        layers = getattr(batch.cache, "layers", [None])
        prompts = batch.prompt_tokens
        if prompts > self._left or any(type(layer) is not RoomyLayer for layer in layers):
            return
        self._left -= prompts
        number = len(self._batches)
        kept = [KeptTurn(turns[row], number, slot) for slot, row in enumerate(batch.slots)]
        self._turns = sorted([*self._turns, *kept], key=lambda turn: turn.ids)
        self._batches.append((layers, batch.mask))

    def gather(self, turns: Sequence[KeptTurn], free: int) -> tuple[DynamicCache, torch.Tensor]:
        """A cache of ``turns`` of one batch, with room for ``free`` more columns, and its attention
        mask [turns, columns]. The turns are padded on the left."""
        layers, mask = self._batches[turns[0].batch]
        width = max(turn.computed for turn in turns)
        columns = torch.zeros(len(turns), width, dtype=torch.long)
        found = torch.zeros(len(turns), width, dtype=torch.long)
        for row, turn in enumerate(turns):
            own = mask[turn.slot].nonzero()[:, 0]
            columns[row, width - len(own) :] = own
            found[row, width - len(own) :] = 1
        slots = torch.tensor([turn.slot for turn in turns])[:, None]
        cache = DynamicCache()
        cache.layers = [_gathered(layer, slots, columns, free) for layer in layers]
        return cache, found


def _gathered(
    layer: RoomyLayer, slots: torch.Tensor, columns: torch.Tensor, free: int
) -> RoomyLayer:
    slots, columns = slots.to(layer.device), columns.to(layer.device)
    keys, values = (_widened(held[slots, :, columns].transpose(1, 2), free) for held in layer.held)
    return RoomyLayer((keys, values), columns.shape[1])
