"""The demo: a small repository with a backlog, and the recorded answers of agents to it.

Owns what lies in `demo_files` and how a folder is made from it. The wave that then runs is an
ordinary one: nothing in the engine knows that it is a demo.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.backends.recorded import Recorded, RecordedFile
from driver.backends.recording import RecordingWriter
from driver.domain.prompts import build_prompt
from driver.domain.results import BUILD, MODE_FILE, REPAIR
from driver.domain.work_item import check_item
from driver.git.command import private_environment, run_git
from driver.terminal.safe_text import typed
from state_store.documents.errors import CannotRunError, InputError
from tools.settings.load import process_environment

# What is text here becomes code there: with a suffix of its own no linter, type checker or test
# run of this project takes the recorded mistakes for its own.
_FILES = Path(__file__).with_name("demo_files")
_SUFFIX = ".txt"
_PROGRAM = Path(__file__).parents[1] / "wave_scheduler.py"
_REPOSITORY = "repo"
_REMOTE = "remote.git"
_STATE = "state"
_CONFIG = "tidegate.toml"
_TRACKER = "tracker.json"
_RECORDING = "recording.jsonl"
_BRANCH = "main"
_WRITTEN_BY = {
    "GIT_AUTHOR_NAME": "Harbour Office",
    "GIT_AUTHOR_EMAIL": "harbour@example.org",
    "GIT_AUTHOR_DATE": "2024-03-01T08:00:00+0000",
    "GIT_COMMITTER_NAME": "Harbour Office",
    "GIT_COMMITTER_EMAIL": "harbour@example.org",
    "GIT_COMMITTER_DATE": "2024-03-01T08:00:00+0000",
}


def make(folder: Path | None) -> Path:
    """Fill `folder`, or a new temporary one, and return where it is.

    Raises InputError when `folder` exists and is not empty or cannot be made, CannotRunError when
    there is no git or no room.
    """
    home = _empty_folder(folder)
    environ = process_environment()
    try:
        _make_repository(home, environ)
        backlog = _backlog(environ)
        (home / _STATE).mkdir()
        _write(home / _STATE / _TRACKER, json.dumps(backlog, indent=2) + "\n")
        _write(home / _CONFIG, _read(_FILES / _CONFIG))
        _record(home / _RECORDING, backlog["items"])
    except OSError as error:
        raise CannotRunError(f"the demo cannot be made in {home}: {error}") from error
    return home


def arguments(args: argparse.Namespace, folder: Path) -> argparse.Namespace:
    """The scheduler's arguments for the demo in `folder`; flags that name no place are kept."""
    tracker = folder / _STATE / _TRACKER
    count = len(json.loads(_read(tracker))["items"])
    places = {
        "repo": str(folder / _REPOSITORY),
        "config": str(folder / _CONFIG),
        "state_dir": str(folder / _STATE),
        "tracker": str(tracker),
        # Said as a flag, or a backend named in the environment would be stronger than the config.
        "driver": args.driver or "replay",
        "execute": getattr(args, "execute", False),
        # The whole of it, whatever a person's own backlog would be cut down to.
        **dict.fromkeys(("only", "label", "lane")),
        "max_items": max(count, getattr(args, "max_items", 0)),
    }
    return argparse.Namespace(**{**vars(args), **places})


def farewell(folder: Path, report: Mapping[str, Any]) -> tuple[str, ...]:
    """Three lines for a newcomer: what was shipped, where to look, how to go on."""
    python = Path(sys.executable).name
    run = typed(python, _PROGRAM)
    return (
        _shipped(report),
        f"look: {_where_to_look(folder, report)}",
        f"your own: describe your agent and backlog as in {typed(folder / _CONFIG)} and"
        f" {typed(folder / _STATE / _TRACKER)}, then"
        f" {run} --execute --repo YOUR_REPOSITORY --tracker YOUR_TRACKER",
    )


def _shipped(report: Mapping[str, Any]) -> str:
    if report.get("dry_run"):
        return "demo: nothing was run, this was a dry run; add --execute to run it"
    asked, shipped = len(report.get("items_selected") or ()), len(report.get("items_shipped") or ())
    line = f"demo: {shipped} of {asked} items shipped"
    if report.get("branch"):
        line += f" to branch {report['branch']}, each commit proven by its own test"
    rounds = (report.get("wave") or {}).get("repairsUsed")
    return line + (f" (repair rounds: {rounds})" if rounds else "")


def _where_to_look(folder: Path, report: Mapping[str, Any]) -> str:
    shown = f"{_BRANCH}..{report['branch']}" if report.get("branch") else _BRANCH
    return typed("git", "-C", folder / _REPOSITORY, "log", "--stat", shown)


def _empty_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InputError(f"--demo {folder}: cannot be made: {error.strerror}") from error
    if taken:
        raise InputError(f"--demo {folder}: is not empty; name a new folder")
    return folder


def _make_repository(home: Path, environ: Mapping[str, str]) -> None:
    """A repository with one commit, as if cloned from the bare one beside it."""
    env = private_environment(environ, home) | _WRITTEN_BY
    repo, remote = home / _REPOSITORY, home / _REMOTE
    for options in (("--bare", str(remote)), (str(repo),)):
        # No template: the machine's own hooks have no business in a demo.
        run_git(("init", "-q", "--template=", "-b", _BRANCH, *options), cwd=home, env=env)
    for path, text in _stored(_FILES / "repo"):
        _write(repo / path, text)
    for command in (
        ("add", "--all"),
        ("commit", "-q", "-m", "Tide tables: read, rounded, summarised, printed"),
        ("remote", "add", "origin", str(remote)),
        ("push", "-q", "-u", "origin", _BRANCH),
    ):
        run_git(command, cwd=repo, env=env)


def _backlog(environ: Mapping[str, str]) -> dict[str, Any]:
    """The tracker, its test commands with a Python that this machine has."""
    backlog: dict[str, Any] = json.loads(_read(_FILES / _TRACKER))
    python = _python(environ)
    for item in backlog["items"]:
        item["testCmd"] = [python, *item["testCmd"][1:]]
    return backlog


def _python(environ: Mapping[str, str]) -> str:
    # On Windows python3 may be a stub that only opens the store.
    found = os.name != "nt" and shutil.which("python3", path=environ.get("PATH"))
    return "python3" if found else sys.executable


def _record(path: Path, items: list[dict[str, Any]]) -> None:
    recording = RecordingWriter(path)
    for item in items:
        work_item = check_item(item)[0]
        if work_item is None:
            raise AssertionError(f"{item['slug']} is no valid item")
        answers = _FILES / "answers" / work_item.slug
        for number, answer in enumerate(sorted(answers.iterdir()), start=1):
            files = (RecordedFile(name, MODE_FILE, text.encode()) for name, text in _stored(answer))
            recording.write(
                Recorded(
                    item=work_item.slug,
                    phase=BUILD if number == 1 else REPAIR,
                    number=number,
                    prompt=build_prompt(work_item, with_rules=True),
                    ok=True,
                    files=tuple(files),
                )
            )


def _stored(folder: Path) -> Iterator[tuple[str, str]]:
    """Repo-relative path and text of the files kept below `folder`."""
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        yield path.relative_to(folder).as_posix().removesuffix(_SUFFIX), _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
