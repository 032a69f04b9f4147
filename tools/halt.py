"""The kill switch: a file whose existence stops every run that uses the state folder.

Any file at its path is a halt, and so is an error when reading it. The engine ends running work.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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

if TYPE_CHECKING:
    import argparse

SENTINEL_NAME = ".HALT"
HALT_FILE = SENTINEL_NAME
HALTED = 1  # the exit code of --status, as scripts of the source expect it
_MAX_BYTES = 2**16


def halt(reason: object, state_dir: str | Path | None = None) -> Path:
    """Stop every run of this state folder; returns the file that does so. Any reason is made text.

    Raises CannotRunError if the switch cannot be set, ValueError for an empty reason.
    """
    from datetime import UTC, datetime

    from state_store.documents.files import write_json_atomic

    text = str(reason)
    if not text.strip():
        raise InvalidValue("a halt needs a reason, so that others know when to end it")
    path = _halt_path(state_dir)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        write_json_atomic(path, {"reason": text, "timestamp": stamp})
    except CannotRunError:
        if not _lies_there(path):  # a folder or the like at its path halts as well
            raise
    return path


def is_halted(state_dir: str | Path | None = None) -> bool:
    """True if the file exists in any form, or if this is unknown."""
    return _lies_there(_halt_path(state_dir), otherwise=True)


def get_halt_info(state_dir: str | Path | None = None) -> dict[str, Any] | None:
    """None if not halted, else `reason` (always a readable text) and `timestamp` (or None)."""
    path = _halt_path(state_dir)
    return _info(path) if _lies_there(path, otherwise=True) else None


def clear_halt(state_dir: str | Path | None = None) -> bool:
    """End the halt; False if there was none. Raises CannotRunError if that fails."""
    from state_store.documents.files import remove_whatever

    return remove_whatever(_halt_path(state_dir))


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
        return settings.resolve_state_dir()
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
    from tools.settings import load as settings

    one_action = [asked.action == "set", asked.status, asked.clear].count(True) == 1
    if (asked.action == "set") != bool(asked.reason) or not one_action:
        raise InputError('give one of: set "<reason>", --status, --clear')
    folder = settings.resolve_state_dir(asked.state_dir)
    answer: dict[str, Any]
    if asked.clear:
        answer = {"halted": False, "cleared": clear_halt(folder)}
        line = "cleared" if answer["cleared"] else "not halted"
    else:
        if asked.action == "set":
            halt(" ".join(asked.reason), folder)
        info = get_halt_info(folder)
        answer = {"halted": info is not None, **(info or {})}
        line = f"HALTED: {_printable(answer['reason'])}" if answer["halted"] else "not halted"
    show({**answer, "file": str(folder / HALT_FILE)}, [line], as_json=asked.json)
    return HALTED if asked.status and answer["halted"] else ExitCode.DONE


def _printable(reason: str) -> str:
    """The reason on one line and in ASCII, because a terminal's encoding may lack its letters."""
    from driver.terminal.safe_text import safe_line

    return safe_line(reason).encode("ascii", "backslashreplace").decode("ascii")


def _halt_path(state_dir: str | Path | None) -> Path:
    return (resolve_state_dir() if state_dir is None else Path(state_dir)) / HALT_FILE


def _lies_there(path: Path, *, otherwise: bool = False) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return otherwise
    return True


def _info(path: Path) -> dict[str, Any]:
    from state_store.documents.files import BadFileError, read_json

    try:
        held = read_json(path, _MAX_BYTES)
    except BadFileError as error:
        unread = f"halted, for a reason that cannot be read: {error}"
        return {"reason": _by_hand(path) or unread, "timestamp": None}
    reason = held.get("reason") if isinstance(held, dict) else None
    stamp = held.get("timestamp") if isinstance(held, dict) else None
    if not isinstance(reason, str) or not reason.strip():
        reason = f"halted, without a reason in {path}"
    return {"reason": reason, "timestamp": stamp if isinstance(stamp, str) else None}


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
