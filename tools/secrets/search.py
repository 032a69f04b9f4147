"""Where a text or the bytes of a file hold a secret, by the rules that fit it. Pure.

A file that documents patterns may switch off what is not fatal, with `secretscan:
allow-pattern-docs` in its first ten lines.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
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
    """Something could not be read, so nobody can say that it is clean."""


class GitScanError(ScanError):
    """Git could not tell what there is to scan."""


class Match(NamedTuple):
    """A secret in a text: 1-based line, the rule's name, the secret itself, and whether the rule
    holds everywhere."""

    line: int
    rule: str
    match: str
    is_fatal: bool


def scan_content(text: str, scan_path: str | None = None) -> list[Match]:
    """The secrets in a text, by line. `scan_path` says what kind of file it is."""
    return _found(text, _rules_for(scan_path, softened=has_pragma(text)))


def scan_blob(label: str, data: bytes) -> list[Match]:
    """The secrets in the bytes of a file called `label`; of a binary one by fatal rules only."""
    if not is_binary(data) and _marked_encoding(data) is None:
        return scan_content(decoded(data), label)
    # A mark may be a lie, so what calls itself UTF-16 is also read as bytes.
    fatal = tuple(rule for rule in RULES if rule.fatal)
    texts = {data.decode("latin-1"), data.replace(b"\0", b"").decode("latin-1")}
    found = {match for text in texts for match in _found(text, fatal)}
    read = [] if is_binary(data) else scan_content(decoded(data), label)
    known = {match.match for match in read}
    return sorted([*read, *(match for match in found if match.match not in known)])


def has_pragma(text: str) -> bool:
    """Whether a text says in its first lines that it shows patterns on purpose."""
    head = text[:_SNIFFED].split("\n", PRAGMA_LINES)[:PRAGMA_LINES]
    return any(PRAGMA in line for line in head)


def is_binary(data: bytes) -> bool:
    """Whether these are not the bytes of a text; UTF-16 and UTF-32 with their mark are one."""
    return b"\0" in data[:_SNIFFED] and _marked_encoding(data) is None


def decoded(data: bytes) -> str:
    """The text in some bytes, whatever is wrong with it."""
    encoding = _marked_encoding(data)
    return data.decode(encoding or "utf-8", "replace")


def is_env_file(path: str) -> bool:
    """`.env`, `.env.production`, `prod.env`; not `.env.example` and its like."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    parts = name.split(".")
    return ("env" in parts[1:] and not _SAMPLES.intersection(parts)) or name == ".envrc"


def should_skip_file(path: str) -> bool:
    """Whether a walk over a folder passes over a file: caches, and what git keeps for itself.

    What is staged or committed is never passed over.
    """
    return not _SKIPPED_FOLDERS.isdisjoint(path.replace("\\", "/").split("/"))


def is_large(data: bytes) -> bool:
    """Whether people should know how much was looked through."""
    return len(data) > LARGE_BYTES


def _marked_encoding(data: bytes) -> str | None:
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return None


def _rules_for(path: str | None, *, softened: bool) -> tuple[Rule, ...]:
    rules = tuple(rule for rule in RULES if rule.fatal or not softened)
    if path is None:
        return rules
    if is_env_file(path):
        return (IN_ENV_FILE, *(rule for rule in rules if rule.name != GENERIC))
    return (*rules, UNQUOTED) if _has_plain_values(path) and not softened else rules


def _has_plain_values(path: str) -> bool:
    pure = PurePosixPath(path.replace("\\", "/").lower())
    return pure.suffix in _PLAIN_VALUES or pure.name in _PLAIN_VALUES or pure.stem == "dockerfile"


def _found(text: str, rules: tuple[Rule, ...]) -> list[Match]:
    """By line; a secret that several rules know is told once, by the first of them."""
    lower = text.lower()
    starts: list[int] = []
    found: dict[tuple[int, str], Match] = {}
    for rule in rules:
        if not any(cue in lower for cue in rule.cues):
            continue
        for at, secret in _secrets(rule, text):
            starts = starts or [0, *(m.end() for m in re.finditer("\n", text))]
            line = bisect.bisect_right(starts, at)
            found.setdefault((line, secret), Match(line, rule.name, secret, rule.fatal))
    return sorted(found.values())


def _secrets(rule: Rule, text: str) -> Iterator[tuple[int, str]]:
    group = 1 if rule.pattern.groups else 0
    for match in rule.pattern.finditer(text):
        if rule.holds(match[group]):
            yield match.start(group), match[group]
