"""Searches a text or the bytes of a file for secrets, by the rules for its kind. Pure.

A file that documents patterns can soften the rules that are not fatal, with `secretscan:
allow-pattern-docs` in its first ten lines. Their matches are still found, but block nothing.
"""

from __future__ import annotations

import bisect
import re
from pathlib import PurePath, PurePosixPath
from typing import NamedTuple

from tools.secret_rules.rules import (
    CREDENTIAL_FILENAME,
    GENERIC,
    IN_ENV_FILE,
    RULES,
    SOFTENED_BY_PRAGMA,
    UNQUOTED,
    Rule,
    is_credential_filename,
)

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
    """A secret: its line (from 1; 0 for the file's name), the rule's name, the secret itself, and
    True if it blocks. False means that the file's pragma has softened the rule."""

    line: int
    rule: str
    match: str
    is_fatal: bool


def scan_content(content: str, scan_path: str | PurePath | None = None) -> list[Match]:
    """Returns the secrets in a text, by line. `scan_path` selects the rules."""
    rules: tuple[Rule, ...] = RULES
    if scan_path is not None and is_env_file(scan_path):
        rules = (IN_ENV_FILE, *(rule for rule in rules if rule.name != GENERIC))
    elif scan_path is not None:
        pure = PurePosixPath(_slashed(scan_path).lower())
        if {pure.suffix, pure.name} & _PLAIN_VALUES or pure.stem == "dockerfile":
            rules = (*rules, UNQUOTED)
    found = _found(content, rules)
    if not holds_pragma(content):
        return found
    return [match._replace(is_fatal=match.rule not in SOFTENED_BY_PRAGMA) for match in found]


def scan_blob(label: str | PurePath, content_bytes: bytes) -> list[Match]:
    """Returns the secrets in a file named `label`. Only fatal rules apply to a binary file."""
    name = PurePosixPath(_slashed(label)).name
    named = [Match(0, CREDENTIAL_FILENAME, name, True)] if is_credential_filename(name) else []
    if not is_binary(content_bytes) and _marked_encoding(content_bytes) is None:
        return named + scan_content(decoded(content_bytes), label)
    # A byte order mark may be forged, so such content is also searched as bytes.
    fatal = tuple(rule for rule in RULES if rule.fatal)
    texts = {content_bytes.decode("latin-1"), content_bytes.replace(b"\0", b"").decode("latin-1")}
    found = {match for text in texts for match in _found(text, fatal)}
    read = [] if is_binary(content_bytes) else scan_content(decoded(content_bytes), label)
    known = {match.match for match in read if match.is_fatal}
    return named + sorted([*read, *(match for match in found if match.match not in known)])


def holds_pragma(text: str) -> bool:
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


def is_env_file(filepath: str | PurePath) -> bool:
    """True for `.env`, `.env.production`, `prod.env`; False for samples such as `.env.example`."""
    name = PurePosixPath(_slashed(filepath)).name.lower()
    parts = name.split(".")
    return ("env" in parts[1:] and not _SAMPLES.intersection(parts)) or name == ".envrc"


def should_skip_file(filepath: str | PurePath) -> bool:
    """Returns True for files in caches and in `.git`, and for compiled Python, which a walk over a
    folder skips.

    Staged and committed files are never skipped.
    """
    path = _slashed(filepath)
    return path.endswith((".pyc", ".pyo")) or not _SKIPPED_FOLDERS.isdisjoint(path.split("/"))


def is_large(data: bytes) -> bool:
    """Returns True for content so long that the report gives its size."""
    return len(data) > LARGE_BYTES


def _slashed(path: str | PurePath) -> str:
    return str(path).replace("\\", "/")


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
            found.setdefault((line, secret), Match(line, rule.name, secret, True))
    return sorted(found.values())
