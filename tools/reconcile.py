"""Compares the phase in STATE.md with the store's, or two stores, and resolves differences.

A comparison changes nothing. `state_store.views.phase` and `state_store.views.reconcile` decide.
"""

from __future__ import annotations

import json
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
        sys.modules[__name__] = import_module("tools.reconcile")

from state_store.documents.errors import ExitCode, InputError
from state_store.views.phase import (
    GIT,
    NOOP,
    RESOLVED,
    STORE,
    decide_resolution,
    detect_drift,
    read_git_phase,
    read_store_phase,
    resolve_drift,
    write_store_phase,
)
from tools.program import program, show

if TYPE_CHECKING:
    import argparse

__all__ = [
    "META_STREAM",
    "PHASE_EVENT_TYPE",
    "decide_resolution",
    "detect_drift",
    "main",
    "read_git_phase",
    "read_store_phase",
    "resolve_drift",
    "write_store_phase",
]

META_STREAM = "meta"
PHASE_EVENT_TYPE = "phase_set"
APART = 1  # drift that is left, or fields that both stores changed


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Exit code 0: equal, 1: different, 2: a missing or wrong file."""
    from driver.cli.flags import Parser

    parser = Parser(
        prog="reconcile.py",
        description="Compare the phase in STATE.md with the store's, or set it.",
    )
    add = parser.add_argument
    add("--state-md", metavar="FILE", default="STATE.md", help="(default: STATE.md)")
    add("--db", metavar="FILE", help="the database (default: the state folder's)")
    add("--state-dir", metavar="DIR", help="the state folder (default: that of the settings)")
    add("--resolve", action="store_true", help="write the authority's phase to the other side")
    add("--authority", choices=(GIT, STORE), default=GIT, help="side that counts (default: git)")
    add("--merge", metavar="DB", help="instead: adopt the events that only this other database has")
    return program(parser, _act, argv)


def _act(asked: argparse.Namespace) -> int:
    answer, is_together = _merged(asked) if asked.merge else _phases(asked)
    lines = [f"{k}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in answer.items()]
    if not asked.merge:
        lines[0] = "DRIFT DETECTED" if answer["drift"] else "no drift"
    show(answer, lines, as_json=asked.json)
    return ExitCode.DONE if is_together else APART


def _phases(asked: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    state_md = Path(asked.state_md).absolute()
    if not state_md.exists():
        raise InputError(
            f"{state_md} does not exist: name yours with --state-md; "
            f"a run writes one to {_db(asked).with_name('STATE.md')}"
        )
    if not asked.resolve:
        found = detect_drift(asked.state_md, _db(asked))
        return found, not found["drift"]
    done = resolve_drift(asked.state_md, _db(asked), asked.authority)
    return done, done["action"] in (NOOP, RESOLVED)


def _merged(asked: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    from state_store.api import StateAPI
    from state_store.place import has_begun
    from state_store.views.reconcile import reconcile_stores

    db, other = _db(asked), Path(asked.merge)
    for path in (db, other):
        if not (path.is_file() or has_begun(path)):
            raise InputError(f"there is no database at {path}; give the path of one")
    with StateAPI(db) as mine, StateAPI(other) as theirs:
        report = reconcile_stores(mine, theirs)
    conflicts = [str(conflict) for conflict in report.conflicts]
    return {"adopted": dict(report.adopted), "conflicts": conflicts}, not conflicts


def _db(asked: argparse.Namespace) -> Path:
    if asked.db:
        return Path(asked.db)
    from state_store.write_api import STATE_DB_FILENAME
    from tools.settings import load as settings

    return settings.resolve_store(asked.state_dir) / STATE_DB_FILENAME


if __name__ == "__main__":
    sys.exit(main())
