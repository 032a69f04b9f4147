"""The word `logs`: what a wave did, and what the agents and tests of an item printed."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from driver.cli.log_lines import FileTail
    from state_store.database.interface import Store

LINES = 100
LOOK_EVERY_S = 0.3


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 2 if there is no such wave or item."""
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="logs.py", description="Show what a wave and its items printed.")
    add = parser.add_argument
    add("item", metavar="ITEM", nargs="?", help="also the outputs of this item, by slug or id")
    add("-f", "--follow", action="store_true", help="go on until the wave ends, or Ctrl-C")
    add("--wave", metavar="ID", help="this wave, or the only one that begins so (default: newest)")
    add("--lines", metavar="N", type=int, default=LINES, help="of each output; 0: all (100)")
    parser.add_shared("--state-dir")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from state_store.documents.errors import InputError
    from state_store.place import open_store
    from state_store.write_api import begun_database
    from tools.program import show
    from tools.settings.load import resolve_store
    from tools.settings.secret_values import hide_configured

    if asked.follow and asked.json:
        raise InputError("--follow is for people: leave it or --json out")
    if asked.lines < 0:
        raise InputError("--lines is 0 or more")
    hide_configured()
    state_dir = resolve_store(asked.state_dir)
    with open_store(begun_database(state_dir)) as store:
        log = Log(store, _wave(store, asked.wave), asked.item, asked.lines or None)
        if asked.follow:
            return follow(log)
        lines = list(log.more(last=True))
        document = {"wave_id": log.wave_id, "item": log.slug, "lines": lines}
        if asked.json:
            show(document, (), as_json=True)
        else:  # safe already, and their headings have a color
            print("\n".join(lines))
    return 0


def follow(log: Log, wait: Callable[[], object] | None = None) -> int:
    """Prints what comes until the wave ends. Returns 0, also after Ctrl-C."""
    import time

    wait = wait or (lambda: time.sleep(LOOK_EVERY_S))
    try:
        while True:
            is_over = log.is_over()
            for line in log.more(last=is_over):
                print(line)
            sys.stdout.flush()
            if is_over:
                return 0
            wait()
    except KeyboardInterrupt:
        return 0


class Log:
    """The lines of a wave, or of an item of it with its outputs. `more` continues them."""

    def __init__(self, store: Store, wave_id: str, item: str | None, lines: int | None) -> None:
        self.wave_id = wave_id
        self.slug = _slug(store, wave_id, item) if item else None
        self._store, self._lines = store, lines
        self._at = _before(store, wave_id)
        self._tails: dict[Path, FileTail] = {}
        self._shown: Path | None = None

    def more(self, *, last: bool) -> Iterator[str]:
        """Yields the lines since the last look; `last` also yields unfinished lines."""
        from driver.cli.log_lines import event_line
        from state_store.database.events import AGENT_TRACES, wave_stream

        stream = wave_stream(self.wave_id)
        end = self._store.head(stream)[0]
        for event in self._store.scan_several((stream, AGENT_TRACES), self._at):
            self._at = event["id"]
            if self._is_asked_for(event) and (line := event_line(event)):
                yield line
            if last and event["stream"] == stream and event["version"] == end:
                break  # the store may hold years of later events
        if self.slug is not None:
            yield from self._outputs(last=last)

    def is_over(self) -> bool:
        """True if the wave has ended, or the run is gone."""
        from driver.run_state.run_registry import waves_alive

        return self.wave_id not in waves_alive(self._store.path.parent)

    def _is_asked_for(self, event: Mapping[str, Any]) -> bool:
        payload = event["payload"]
        if not isinstance(payload, dict):
            return False
        if payload.get("wave", self.wave_id) != self.wave_id:
            return False  # a dispatch of another wave
        slug = payload.get("slug") or payload.get("item")
        return self.slug is None or not isinstance(slug, str) or slug == self.slug

    def _outputs(self, *, last: bool) -> Iterator[str]:
        from driver.cli.log_lines import FileTail, output_files
        from driver.terminal.color import CYAN, paint
        from driver.terminal.invocation import current
        from driver.terminal.safe_text import log_line
        from state_store.documents.journal import stored_slug

        runs = self._store.path.parent / "runs" / stored_slug(self.wave_id)
        folder = runs / stored_slug(str(self.slug))
        files = output_files(folder)
        if last:
            yield from self._kept({path.relative_to(folder).as_posix() for path in files})
        for path in files:
            tail = self._tails.setdefault(path, FileTail(path, self._lines))
            for line in tail.more(last=last):
                if self._shown != path:
                    self._shown = path
                    name = path.relative_to(folder).as_posix()
                    heading = log_line(f"== {name} ==")
                    yield heading if current().json else paint(heading, CYAN)
                yield line

    def _kept(self, here: Collection[str]) -> Iterator[str]:
        """Yields the outputs on other machines, as far as the store has them."""
        from driver.cli.log_lines import kept_lines
        from driver.terminal.color import CYAN, paint
        from driver.terminal.invocation import current
        from driver.terminal.safe_text import log_line

        wave, slug = self.wave_id, str(self.slug)
        for one in self._store.read_unshipped(lambda book: book.printed(wave, slug)) or ():
            if one.name not in here:
                heading = log_line(f"== {one.name} on {one.host} ==")
                yield heading if current().json else paint(heading, CYAN)
                yield from kept_lines(one, self._lines)


def _wave(store: Store, asked: str | None) -> str:
    """The wave with this id, or the only one that begins so; else the newest one."""
    from state_store.documents.errors import InputError
    from state_store.views.store_summary import StoreSummary, wave_named

    path = str(store.path)
    if asked is not None:
        return wave_named(path, asked)
    with StoreSummary(path) as summary:
        newest = summary.newest_waves(1)
    if not newest:
        raise InputError(f"there is no wave in {store.path.parent} yet")
    return newest[0]


def _slug(store: Store, wave_id: str, item: str) -> str:
    """The slug of an item of the wave, given by slug or by id. Raises InputError."""
    from driver.cli.flags import guess
    from state_store.documents.errors import InputError
    from state_store.views.wave_progress import read_progress

    slugs = list(read_progress(store, wave_id).items)
    ids = {str(one.get("id")): str(one.get("slug")) for one in store.items()}
    named = item if item in slugs else ids.get(item, "")
    if named not in slugs:
        known = ", ".join(slugs) or "none"
        near = guess(item, [*slugs, *(name for name, slug in ids.items() if slug in slugs)])
        raise InputError(f"wave {wave_id} has no item {item!r}{near}; it has {known}")
    return named


def _before(store: Store, wave_id: str) -> int:
    """The id of the last event before the wave."""
    from state_store.database.events import wave_stream

    first = next(store.scan(wave_stream(wave_id)), None)
    return first["id"] - 1 if first is not None else 0
