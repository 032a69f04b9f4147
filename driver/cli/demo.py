"""Makes the demo: a small repository with a backlog and recorded answers of agents.

The files come from `demo_files`. The demo then runs an ordinary wave.
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
from driver.terminal.commands import program_command
from driver.terminal.safe_text import typed
from state_store.documents.errors import CannotRunError, InputError
from tools.settings.load import process_environment

# The suffix keeps linters, type checkers and tests of this project from reading the demo's files.
_FILES = Path(__file__).with_name("demo_files")
_SUFFIX = ".txt"
_PROGRAM = Path(__file__).parents[1] / "tidegate.py"
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
    """Fills `folder`, or a new temporary one, and returns its path.

    Raises InputError if `folder` is not empty or cannot be created, CannotRunError if git or disk
    space is missing.
    """
    home = _empty_folder(folder)
    environ = process_environment()
    try:
        _make_repository(home, environ)
        backlog: dict[str, Any] = json.loads(_read(_FILES / _TRACKER))
        # On Windows python3 may be a stub that opens the Microsoft Store.
        found = os.name != "nt" and shutil.which("python3", path=environ.get("PATH"))
        for item in backlog["items"]:
            item["testCmd"] = ["python3" if found else sys.executable, *item["testCmd"][1:]]
        (home / _STATE).mkdir()
        _write(home / _STATE / _TRACKER, json.dumps(backlog, indent=2) + "\n")
        _write(home / _CONFIG, _read(_FILES / _CONFIG))
        _record(home / _RECORDING, backlog["items"])
    except OSError as error:
        raise CannotRunError(f"the demo cannot be made in {home}: {error}") from error
    return home


def arguments(args: argparse.Namespace, folder: Path) -> argparse.Namespace:
    """Returns the scheduler's arguments for the demo in `folder`. Other flags are kept."""
    tracker = folder / _STATE / _TRACKER
    count = len(json.loads(_read(tracker))["items"])
    places = {
        "repo": str(folder / _REPOSITORY),
        "config": str(folder / _CONFIG),
        "state_dir": str(folder / _STATE),
        "tracker": str(tracker),
        # As a flag, because a backend named in the environment would override the config.
        "driver": args.driver or "replay",
        "execute": getattr(args, "execute", False),
        # All items of the demo, without the user's filters.
        **dict.fromkeys(("only", "label", "lane")),
        "max_items": max(count, getattr(args, "max_items", 0)),
    }
    return argparse.Namespace(**{**vars(args), **places})


def farewell(folder: Path, report: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns three lines for a newcomer: the result, the files to look at, the next step."""
    program = program_command("", _PROGRAM).strip()
    shown = f"{_BRANCH}..{report['branch']}" if report.get("branch") else _BRANCH
    return (
        _shipped(report),
        "look: " + typed("git", "-C", folder / _REPOSITORY, "log", "--stat", shown),
        f"next, your own work: {program} init, in the top folder of your repository; the demo's"
        f" settings and backlog, to compare: {typed(folder / _CONFIG, folder / _STATE / _TRACKER)}",
    )


def _shipped(report: Mapping[str, Any]) -> str:
    if report.get("dry_run"):
        return "demo: this was a dry run, which runs nothing; add --execute to run the wave"
    asked, shipped = len(report.get("items_selected") or ()), len(report.get("items_shipped") or ())
    line = f"demo: {shipped} of {asked} items shipped"
    if report.get("branch"):
        line += f" to branch {report['branch']}, each commit proven by its own test"
    rounds = (report.get("wave") or {}).get("repairsUsed")
    return line + (f" (repair rounds: {rounds})" if rounds else "")


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
    """Makes a repository with one commit, and its bare remote."""
    env = private_environment(environ, home) | _WRITTEN_BY
    repo, remote = home / _REPOSITORY, home / _REMOTE
    for options in (("--bare", str(remote)), (str(repo),)):
        # No template, because it could contain the machine's hooks.
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
    """Yields the repository path and the text of each file below `folder`."""
    for path in sorted(folder.rglob(f"*{_SUFFIX}")):
        yield path.relative_to(folder).as_posix().removesuffix(_SUFFIX), _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
