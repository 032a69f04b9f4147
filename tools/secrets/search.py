"""Searches a text or the bytes of a file for secrets, by the rules for its kind. Pure.

A file that documents patterns can switch off rules that are not fatal, with `secretscan:
allow-pattern-docs` in its first ten lines.
"""

from __future__ import annotations

import bisect
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from tools.secrets.rules import GENERIC, IN_ENV_FILE, RULES, UNQUOTED, Rule

PRAGMA = "secretscan: allow-pattern-docs"
PRAGMA_LINES = 10
LARGE_BYTES = 1_000_000

_SNIFFED = 8_192
_SAMPLES = frozenset({"example", "sample", "template", "dist", "tpl", "tmpl"})
_PLAIN_VALUES = frozenset(
    {".yaml", ".yml", ".ini", ".cfg", ".conf", ".properties", ".toml", ".sh", ".bash", ".zsh",
     ".env", ".envrc", ".tfvars", ".npmrc", ".pypirc", ".netrc", ".dockerfile"}
)  # fmt: skip
_SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
     ".ruff_cache", ".pytest_cache"}
)  # fmt: skip


class ScanError(Exception):
    """Content cannot be read, so it may contain secrets."""


class GitScanError(ScanError):
    """Git cannot list or read the content to scan."""


class Match(NamedTuple):
    """A secret in a text: the line (from 1), the rule's name, the secret, and True for a fatal
    rule."""

    line: int
    rule: str
    match: str
    is_fatal: bool


def scan_content(text: str, scan_path: str | None = None) -> list[Match]:
    """Returns the secrets in a text, by line. `scan_path` selects the rules."""
    softened = has_pragma(text)
    rules = tuple(rule for rule in RULES if rule.fatal or not softened)
    if scan_path is not None and is_env_file(scan_path):
        rules = (IN_ENV_FILE, *(rule for rule in rules if rule.name != GENERIC))
    elif scan_path is not None and not softened:
        pure = PurePosixPath(scan_path.replace("\\", "/").lower())
        if {pure.suffix, pure.name} & _PLAIN_VALUES or pure.stem == "dockerfile":
            rules = (*rules, UNQUOTED)
    return _found(text, rules)


def scan_blob(label: str, data: bytes) -> list[Match]:
    """Returns the secrets in a file named `label`. Only fatal rules apply to a binary file."""
    if not is_binary(data) and _marked_encoding(data) is None:
        return scan_content(decoded(data), label)
    # A byte order mark may be forged, so such content is also searched as bytes.
    fatal = tuple(rule for rule in RULES if rule.fatal)
    texts = {data.decode("latin-1"), data.replace(b"\0", b"").decode("latin-1")}
    found = {match for text in texts for match in _found(text, fatal)}
    read = [] if is_binary(data) else scan_content(decoded(data), label)
    known = {match.match for match in read}
    return sorted([*read, *(match for match in found if match.match not in known)])


def has_pragma(text: str) -> bool:
    """Returns True if the first lines contain the marker for documented patterns."""
    head = text[:_SNIFFED].split("\n", PRAGMA_LINES)[:PRAGMA_LINES]
    return any(PRAGMA in line for line in head)


def is_binary(data: bytes) -> bool:
    """Returns True for bytes that are not a text. UTF-16 and UTF-32 with their mark are texts."""
    return b"\0" in data[:_SNIFFED] and _marked_encoding(data) is None


def decoded(data: bytes) -> str:
    """Decodes bytes, and replaces invalid bytes."""
    encoding = _marked_encoding(data)
    return data.decode(encoding or "utf-8", "replace")


def is_env_file(path: str) -> bool:
    """True for `.env`, `.env.production`, `prod.env`; False for samples such as `.env.example`."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    parts = name.split(".")
    return ("env" in parts[1:] and not _SAMPLES.intersection(parts)) or name == ".envrc"


def should_skip_file(path: str) -> bool:
    """Returns True for files in caches and in `.git`, which a walk over a folder skips.

    Staged and committed files are never skipped.
    """
    return not _SKIPPED_FOLDERS.isdisjoint(path.replace("\\", "/").split("/"))


def is_large(data: bytes) -> bool:
    """Returns True for content so long that the report gives its size."""
    return len(data) > LARGE_BYTES


def _marked_encoding(data: bytes) -> str | None:
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return None


def _found(text: str, rules: tuple[Rule, ...]) -> list[Match]:
    """Returns the matches by line, each secret only for its first rule."""
    lower = text.lower()
    starts: list[int] = []
    found: dict[tuple[int, str], Match] = {}
    for rule in rules:
        if not any(cue in lower for cue in rule.cues):
            continue
        group = 1 if rule.pattern.groups else 0
        for match in rule.pattern.finditer(text):
            secret = match[group]
            if not rule.holds(secret):
                continue
            starts = starts or [0, *(m.end() for m in re.finditer("\n", text))]
            line = bisect.bisect_right(starts, match.start(group))
            found.setdefault((line, secret), Match(line, rule.name, secret, rule.fatal))
    return sorted(found.values())
