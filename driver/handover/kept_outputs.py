"""Keeps the ends of an item's outputs in the store, for people at other machines.

Of what is not kept, the store names the machine and the file.
"""

from __future__ import annotations

from platform import node

from driver.filesystem.safe_file_access import read_plain_end
from driver.live.outputs import outputs
from driver.run_state.context import ItemRun
from state_store.sql.unshipped import MOST_OF_OUTPUT, Output, packed

MOST_OF_ITEM = 512 * 1024
_MOST_FILES = 200


class OutputKeeper:
    """Keeps the outputs of a wave's items. Used by one thread at a time."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, int, int]] = {}  # size, time of change, bytes wanted

    def keep(self, item: ItemRun) -> None:
        """Keep what was printed since the last look, the newest files first. Raises
        LeasedElsewhereError and CannotRunError."""
        folder = item.scratch_path
        found = sorted(outputs(folder), key=lambda one: one[1].st_mtime_ns, reverse=True)
        left, rows, seen_now = MOST_OF_ITEM, [], {}
        for name, seen in found[:_MOST_FILES]:
            path, most = str(folder / name), min(seen.st_size, MOST_OF_OUTPUT, left)
            left -= most
            state = seen.st_size, seen.st_mtime_ns, most
            if not seen.st_size or self._kept.get(path) == state:
                continue
            seen_now[path] = state
            end = read_plain_end(folder, name, most)[0][-most:] if most else b""
            body = packed(end) if end else None
            names = item.wave.wave_id, item.slug, name, node(), path
            rows.append(Output(*names, seen.st_size, body))
        if rows:
            item.wave.recorder.kept_outputs(item.key, rows)
            self._kept |= seen_now
