"""The command lines that the pages show, and the lists of those that tests run or leave out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.documents.schemas import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# The changelog tells what was; a command of old need not run.
NO_GUIDES = {"changelog.md"}
SHELLS = {"", "sh", "bash", "shell", "console"}
PROGRAMS = {
    *("tidegate", "python", "python3", "pip", "pipx", "uv", "git", "gh", "glab", "ruff", "mypy"),
    *("pytest", "cd", "cp", "mkdir", "curl", "docker", "npm", "systemctl", "crontab", "sudo"),
    *("claude", "codex", "opencode", "gemini", "aider", "echo"),
}
# Commands in running text: ours, and those that set a machine up.
INLINE = re.compile(
    r"tidegate [a-z]|(python3? )?(driver|tools)/\w+\.py\b. ?|python3? (-m (driver|pytest|venv|pip "
    r"install /)|tests/)|(uv tool|pipx) "
)


@dataclass(frozen=True)
class Shown:
    """A command line, and the page that shows it."""

    page: str
    text: str


def shown() -> list[Shown]:
    """Every command line of the pages, each once for a page."""
    found = [
        Shown(page.name, text)
        for page in PAGES
        if page.name not in NO_GUIDES
        for text in _commands(page.read_text(encoding="utf-8"))
    ]
    return list(dict.fromkeys(found))


def _commands(page: str) -> Iterator[str]:
    for line in _block_lines(page.replace("\\\n", "")):
        words = line.split()
        first = next((word for word in words if not re.match(r"[A-Z_]+=", word)), "")
        if first in PROGRAMS:
            yield _bare(line)
    prose = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", prose):
        text = " ".join(span.split()).replace(r"\|", "|")
        if INLINE.match(text):
            yield _bare(text)


def _block_lines(page: str) -> Iterator[str]:
    """The lines of fenced blocks for a shell, and indented lines."""
    language: str | None = None
    for line in page.splitlines():
        if fence := re.match(r" *```(\w*)", line):
            language = fence[1] if language is None else None
        elif language in SHELLS or (language is None and line.startswith("    ")):
            yield line.strip().removeprefix("$ ")


def _bare(line: str) -> str:
    """A command line without its comment, from a checkout or an installed copy alike."""
    return re.sub(r"\s+#\s.*$", "", line).replace("/path/to/tidegate/", "").strip()


@dataclass(frozen=True)
class Left:
    """The reason why no test here runs a command. `runs_it` is a test that does, or ""."""

    reason: str
    runs_it: str = ""


def paths_in(command: str) -> list[Path]:
    """The files of the project that a command names."""
    if command.startswith("tidegate"):
        return []  # its files are those of the user's project
    names = re.findall(r"(?:^|[\s\"'])((?:tests|driver|tools)/[\w./]+)", command)
    return [ROOT / name for name in names]
