"""The kill switch: a file whose existence stops every run that uses the state folder.

Any file at its path is a halt, and so is an error when reading it. The engine ends running work.
Where many machines share a database, a row there halts all of them, and the file of the machine
that set it is a copy, with the key of the row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.halt")

from state_store.documents.errors import CannotRunError, ExitCode, InputError, InvalidValue
from state_store.sql.addresses import address_of

if TYPE_CHECKING:
    import argparse

    from state_store.database.store import EventStore
    from state_store.sql.addresses import HaltRow

SENTINEL_NAME = ".HALT"
HALT_FILE = SENTINEL_NAME
HALTED = 1  # the exit code of --status, as scripts of the source expect it
_MAX_BYTES = 2**16


def halt(reason: object, state_dir: str | Path | None = None) -> Path:
    """Stop every run of this state folder, and of all machines that share its database; returns the
    file that does so here. Any reason is made text.

    Raises CannotRunError if the switch cannot be set, ValueError for an empty reason. If only the
    database cannot be told, this machine is halted.
    """
    from datetime import UTC, datetime

    from state_store.documents.files import write_json_atomic

    text = str(reason)
    if not text.strip():
        raise InvalidValue("a halt needs a reason, so that others know when to end it")
    folder = resolve_state_dir() if state_dir is None else Path(state_dir)
    path = folder / HALT_FILE
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    held = {"reason": text, "timestamp": stamp}

    def write(content: Mapping[str, Any]) -> CannotRunError | None:
        try:
            write_json_atomic(path, content)
        except CannotRunError as error:
            return None if _lies_there(path) else error  # a folder or the like halts as well
        return None

    failed = write(held)  # this machine first: a server that is away may keep us waiting
    row, unreached = _halt_all(folder, text)
    if row is not None:
        failed = write({**held, "by": row.by, "row": row.key})
    if failed is not None:
        raise failed
    if unreached is not None:
        raise CannotRunError(f"only this machine is halted: {unreached}")
    return path


def is_halted(state_dir: str | Path | None = None) -> bool:
    """True if the file exists in any form, or if this is unknown. Raises CannotRunError if there is
    no file, and a database of many machines cannot be asked."""
    folder = resolve_state_dir() if state_dir is None else Path(state_dir)
    if address_of(folder) is None:
        return is_halted_here(folder)
    return get_halt_info(folder) is not None


def is_halted_here(folder: Path) -> bool:
    """`is_halted` without a question to a database."""
    return _lies_there(folder / HALT_FILE, otherwise=True)


def get_halt_info(state_dir: str | Path | None = None) -> dict[str, Any] | None:
    """None if not halted, else `reason` (always a readable text) and `timestamp` (or None); of a
    halt of all machines also `by` (user@host). Raises as `is_halted`."""
    folder = resolve_state_dir() if state_dir is None else Path(state_dir)
    if address_of(folder) is None:
        return info_here(folder)
    from state_store.place import halt_row

    return info_with(folder, lambda: halt_row(folder))


def info_here(folder: Path) -> dict[str, Any] | None:
    """`get_halt_info` by the file alone."""
    return _info(folder / HALT_FILE) if is_halted_here(folder) else None


def info_with(folder: Path, look: Callable[[], HaltRow | None]) -> dict[str, Any] | None:
    """`get_halt_info` with a look at the row of all machines. The copy of a row that is gone, since
    another machine ended the halt, is removed."""
    here = info_here(folder)
    key = _row_in(folder / HALT_FILE) if here else None
    if here and key is None:
        return here
    try:
        row = look()
    except CannotRunError:
        if here:
            return here
        raise
    if here and (row is None or row.key != key):
        from state_store.documents.files import remove_whatever

        remove_whatever(folder / HALT_FILE)
    return info_of(row) if row else None


def info_of(row: HaltRow) -> dict[str, Any]:
    """`get_halt_info` of a halt of all machines."""
    from datetime import UTC, datetime

    since = datetime.fromtimestamp(row.since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"reason": row.reason, "timestamp": since, "by": row.by}


def describe(info: Mapping[str, Any]) -> str:
    """The reason of a halt; of one of all machines also who set it, and when."""
    reason = str(info.get("reason") or "no reason given")
    if not info.get("by"):
        return reason
    return f"{reason} (set for all machines by {info['by']}, {info.get('timestamp')})"


def clear_halt(state_dir: str | Path | None = None) -> bool:
    """End the halt, of all machines that share the database; False if there was none. Raises
    CannotRunError if that fails."""
    from state_store.documents.files import remove_whatever

    folder = resolve_state_dir() if state_dir is None else Path(state_dir)
    was_set = False
    if address_of(folder) is not None and (store := _store_of(folder)):
        with store:
            was_set = store.drop_halt()
    return remove_whatever(folder / HALT_FILE) or was_set


def _halt_all(folder: Path, reason: str) -> tuple[HaltRow | None, CannotRunError | None]:
    """Halt all machines that share the folder's rows. Returns the new row, or the error because of
    which there is none; neither if no other machine shares them."""
    if address_of(folder) is None:
        return None, None
    import getpass
    import socket

    from state_store.place import open_store
    from state_store.write_api import STATE_DB_FILENAME

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = "unknown"
    try:
        with open_store(folder / STATE_DB_FILENAME) as store:
            return store.put_halt(reason, f"{user}@{socket.gethostname()}"), None
    except CannotRunError as error:
        return None, error


def _store_of(folder: Path) -> EventStore | None:
    """The store with the shared rows, if it has begun."""
    from state_store.place import has_begun, open_store
    from state_store.write_api import STATE_DB_FILENAME

    path = folder / STATE_DB_FILENAME
    return open_store(path) if has_begun(path) else None


def load_config() -> dict[str, Any]:
    """The `state_root` in force, and all other keys of the current folder's aesop.config.json."""
    from tools.settings import load as settings
    from tools.settings.sources import SOURCE_FILE, original_config

    kept = original_config([Path.cwd() / SOURCE_FILE])
    return {**kept, "state_root": str(settings.resolve_state_dir())}


def resolve_state_dir(config: Mapping[str, Any] | None = None) -> Path:
    """The state folder: environment, `state_root` of `config` (or of the files), else `state`."""
    from tools.settings import load as settings

    if config is None:
        return _place(None)
    configured = config.get("state_root") or config.get("state_dir")
    if configured is not None and not isinstance(configured, str | Path):
        raise InputError(f"state_root must be a path, not {configured!r:.60}")
    return settings.place_state_dir(configured)


def main(argv: Sequence[str] | None = None) -> int:
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="halt.py", description="Stop all runs, or allow them again.")
    parser.add_argument("action", nargs="?", choices=("set",), help="set the halt")
    parser.add_argument("reason", nargs="*", help="the reason, shown by every halted run")
    parser.add_argument("--status", action="store_true", help="exit 1 if halted, 0 if not")
    parser.add_argument("--clear", action="store_true", help="end the halt")
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from tools.program import show

    one_action = [asked.action == "set", asked.status, asked.clear].count(True) == 1
    if (asked.action == "set") != bool(asked.reason) or not one_action:
        raise InputError('give one of: set "<reason>", --status, --clear')
    folder = _place(asked.state_dir)
    answer: dict[str, Any]
    if asked.clear:
        answer = {"halted": False, "cleared": clear_halt(folder)}
        line = "cleared" if answer["cleared"] else "not halted"
    else:
        if asked.action == "set":
            halt(" ".join(asked.reason), folder)
        info = get_halt_info(folder)
        answer = {"halted": info is not None, **(info or {})}
        line = f"HALTED: {_printable(describe(answer))}" if answer["halted"] else "not halted"
    show({**answer, "file": str(folder / HALT_FILE)}, [line], as_json=asked.json)
    return HALTED if asked.status and answer["halted"] else ExitCode.DONE


def _printable(reason: str) -> str:
    """The reason on one line and in ASCII, because a terminal's encoding may lack its letters."""
    from driver.terminal.safe_text import safe_line

    return safe_line(reason).encode("ascii", "backslashreplace").decode("ascii")


def _place(flag: str | None) -> Path:
    """The state folder. The place of its rows becomes known, unless a file of the settings is
    broken, which must not hinder a halt."""
    from tools.settings import load as settings

    try:
        return settings.resolve_store(flag)
    except InputError:
        return settings.resolve_state_dir(flag)


def _lies_there(path: Path, *, otherwise: bool = False) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return otherwise
    return True


def _info(path: Path) -> dict[str, Any]:
    from state_store.documents.files import BadFileError

    try:
        held = _read(path)
    except BadFileError as error:
        unread = f"halted, for a reason that cannot be read: {error}"
        return {"reason": _by_hand(path) or unread, "timestamp": None}
    reason, stamp, by = (held.get(key) for key in ("reason", "timestamp", "by"))
    if not isinstance(reason, str) or not reason.strip():
        reason = f"halted, without a reason in {path}"
    found = {"reason": reason, "timestamp": stamp if isinstance(stamp, str) else None}
    return {**found, "by": by} if isinstance(by, str) else found


def _read(path: Path) -> dict[str, Any]:
    from state_store.documents.files import read_json

    held = read_json(path, _MAX_BYTES)
    return held if isinstance(held, dict) else {}


def _row_in(path: Path) -> str | None:
    """The key of the row of which this file is a copy; None for a halt of this machine alone."""
    from state_store.documents.files import BadFileError

    try:
        key = _read(path).get("row")
    except BadFileError:
        return None
    return key if isinstance(key, str) else None


def _by_hand(path: Path) -> str:
    """The reason in a file that a person made with `touch` or `echo`; "" if it is not a text."""
    from state_store.documents.files import BadFileError, read_text

    try:
        text = read_text(path, _MAX_BYTES).strip()
    except BadFileError:
        return ""
    first = text.partition("\n")[0].strip()
    if first.startswith(("{", "[")) or not first.isprintable():
        return ""
    return f"halted by hand: {first[:500]}" if first else f"halted, without a reason in {path}"


if __name__ == "__main__":
    sys.exit(main())
