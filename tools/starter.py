"""Writes the first files of a project, and never overwrites a file."""

from __future__ import annotations

if not __package__ and __name__ == "__main__":
    import sys

    sys.stderr.write("tools/starter.py is no program; the program is tools/init.py\n")
    raise SystemExit(2)

import json
from collections.abc import Iterator
from pathlib import Path

from state_store.documents.errors import CannotRunError
from state_store.documents.files import read_bytes
from state_store.values.lazy_dataclass import dataclass
from tools.first_settings import config_text

_ROOT = Path(__file__).resolve().parents[1]
CI_TEMPLATES = _ROOT / "tools" / "ci_templates"
SKILLS = CI_TEMPLATES.with_name("claude_commands")
TRACKER_SCHEMA = Path(__file__).resolve().parent / "schemas" / "tracker.json"
SCHEMA_NAME = "tracker.schema.json"
# The files of a workflow go into the repository, or next to the state for a machine's workflow.
REPOSITORY, STATE = "repository", "state"
WORKFLOWS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "github": (("github.yml", REPOSITORY, ".github/workflows/tidegate.yml"),),
    "github-matrix": (("github-matrix.yml", REPOSITORY, ".github/workflows/tidegate-matrix.yml"),),
    "gitlab": (("gitlab.yml", REPOSITORY, ".gitlab/tidegate.yml"),),
    "cron": (("crontab", STATE, "tidegate.crontab"),),
    "systemd": (
        ("tidegate.service", STATE, "tidegate.service"),
        ("tidegate.timer", STATE, "tidegate.timer"),
    ),
    "kubernetes": (("kubernetes.yml", STATE, "tidegate-kubernetes.yml"),),
    "compose": (("compose.yml", STATE, "compose.yml"),),
}
_NOTES = {
    "cron": "paste its lines into crontab -e",
    "systemd": "set its paths, then install it",
    "kubernetes": "set its image and repository, then kubectl apply -f",
    "compose": "its first lines say how to start it",
}
GITLAB_MAIN = ".gitlab-ci.yml"
GITLAB_INCLUDE = "include:\n  - local: .gitlab/tidegate.yml\n"

CONFIG = config_text()

_EXAMPLE = {
    "id": "EXAMPLE-1",
    "slug": "example",
    "title": "An example; nothing runs it before its status is todo",
    "status": "proposed",
    "priority": "P3",
    "prompt": "Write hello.py, which prints: hello",
    "ownsFiles": ["hello.py"],
    "testCmd": ["python3", "-c", "import subprocess, sys; sys.exit(subprocess.check_output("
                "[sys.executable, 'hello.py']) != b'hello\\n')"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """A file that was created, or kept because it existed."""

    path: Path
    made: bool
    note: str = ""

    def __str__(self) -> str:
        word = "made" if self.made else "kept, it was there"
        return f"{word}: {self.path}" + (f"  ({self.note})" if self.note else "")


def tracker_text() -> str:
    """Returns a tracker with one item that no wave takes."""
    return json.dumps({"$schema": SCHEMA_NAME, "version": 1, "items": [_EXAMPLE]}, indent=2) + "\n"


def backlog(state_dir: Path) -> Iterator[Step]:
    """Writes the tracker, and beside it the schema that it names, for editors."""
    yield place(state_dir / "tracker.json", tracker_text())
    schema = TRACKER_SCHEMA.read_text(encoding="utf-8")
    yield place(state_dir / SCHEMA_NAME, schema, "an editor completes and checks with it")


def skills(top: Path, command: str) -> Iterator[Step]:
    """Writes the commands /power and /buildsystem of Claude Code, which call `command`."""
    for template in sorted(SKILLS.glob("*.md")):
        text = template.read_text(encoding="utf-8").replace("{tidegate}", command)
        yield place(top / ".claude" / "commands" / template.name, text)


def place(path: Path, text: str, note: str = "") -> Step:
    """Writes a file if nothing is at its path, not even a broken link.

    Raises CannotRunError if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        return Step(path, made=False, note=note)
    except OSError as error:
        raise CannotRunError(f"{path} cannot be written: {error.strerror or error}") from error
    return Step(path, made=True, note=note)


def workflow(kind: str, top: Path, state_dir: Path) -> Iterator[Step]:
    """Writes the files of a workflow."""
    for template, where, name in WORKFLOWS[kind]:
        text = (CI_TEMPLATES / template).read_text(encoding="utf-8")
        folder = top
        if where == STATE:  # a file of this machine, with its paths
            folder = state_dir
            for word, path in (("PROJECT", top), ("STATE", state_dir), ("TIDEGATE", _ROOT)):
                text = text.replace(f"{{{word}}}", str(path))
        yield place(folder / name, text, _NOTES.get(kind, ""))
    if kind == "gitlab":
        step = place(top / GITLAB_MAIN, GITLAB_INCLUDE)
        included = b".gitlab/tidegate.yml" in read_bytes(top / GITLAB_MAIN)
        note = "" if included else "add to it: include: [{local: .gitlab/tidegate.yml}]"
        yield Step(step.path, step.made, note)


def ignore(path: Path, pattern: str) -> Step:
    """Adds a line to a `.gitignore` unless it is there; other lines stay as they are.

    Raises CannotRunError if it cannot be written.
    """
    try:
        before = read_bytes(path) if path.exists() else b""
        if pattern.encode() in before.splitlines():
            return Step(path, made=False, note=pattern)
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        with path.open("ab") as stream:
            stream.write(gap + pattern.encode() + b"\n")
    except OSError as error:
        raise CannotRunError(f"{path} cannot be written: {error.strerror or error}") from error
    return Step(path, made=True, note=f"line {pattern}")
