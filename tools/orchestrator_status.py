"""Writes the orchestrator's activity to `<state>/orchestrator-status.json`.

For people and scripts that drive waves by hand. `ReadAPI` checks if the file is fresh. The
scheduler's phases are events in the store instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.orchestrator_status")

from state_store.documents.errors import ExitCode, InputError
from tools.program import program, show

if TYPE_CHECKING:
    import argparse

STATUS_FILE = "orchestrator-status.json"


def set_status(
    activity: str,
    phase: str,
    id: str | None = None,  # noqa: A002 - the name callers of the source use
    role: str | None = None,
    state_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Write the status and return it: id, role, parent_id, activity, phase, updated_at.

    Raises InputError for an empty activity or phase, CannotRunError if it cannot be written.
    """
    from datetime import UTC, datetime

    from state_store.documents.files import write_json_atomic

    for name, text in (("activity", activity), ("phase", phase)):
        if not text.strip():
            raise InputError(f"the {name} is empty; say in a word or two what is being done")
    status = {
        "id": id or "main",
        "role": role or "orchestrator",
        "parent_id": None,
        "activity": activity,
        "phase": phase,
        "updated_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    write_json_atomic(_path(state_dir), status)
    return status


def clear_status(state_dir: str | Path | None = None) -> bool:
    """Remove the status; False if there was none. Raises CannotRunError if that fails."""
    from state_store.documents.files import remove_file

    return remove_file(_path(state_dir))


def main(argv: Sequence[str] | None = None) -> int:
    from driver.cli.flags import Parser

    parser = Parser(
        prog="orchestrator_status.py", description="Record the orchestrator's activity."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    setting = actions.add_parser("set", help="write the status")
    setting.add_argument("--activity", required=True, help="the present activity")
    setting.add_argument("--phase", required=True, help="the phase it belongs to")
    setting.add_argument("--id", default="main", help="whose status it is (default: main)")
    setting.add_argument("--role", default="orchestrator", help="(default: orchestrator)")
    clearing = actions.add_parser("clear", help="remove the status")
    actions.metavar = f"{{{','.join(actions.choices)}}}"  # named if it is missing
    for action in (setting, clearing):
        action.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _act, argv)


def _act(asked: argparse.Namespace) -> int:
    answer = (
        {"cleared": clear_status(asked.state_dir)}
        if asked.action == "clear"
        else set_status(asked.activity, asked.phase, asked.id, asked.role, asked.state_dir)
    )
    show(answer, (), as_json=True)
    return ExitCode.DONE


def _path(state_dir: str | Path | None) -> Path:
    from tools.settings import load as settings

    return settings.resolve_state_dir(state_dir) / STATUS_FILE


if __name__ == "__main__":
    sys.exit(main())
