"""What secrets look like, and where a text or a blob holds one. Pure: no file, no git.

A rule that is not fatal is about names and values in code, and a file that documents patterns may
switch it off with `secretscan: allow-pattern-docs` in its first ten lines. Values of this machine's
own secrets are `known_secrets`' business.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from tools.placeholders import is_blanked, is_placeholder, is_random_looking

PRAGMA = "secretscan: allow-pattern-docs"
PRAGMA_LINES = 10
LARGE_BYTES = 1_000_000
ENV_ASSIGNMENT = "env_assignment"

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


def _any(secret: str) -> bool:
    return bool(secret)


def _token(secret: str) -> bool:
    return not is_blanked(secret)


def _password(secret: str) -> bool:
    return not is_placeholder(secret)


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern`'s group 1, or else the whole match, is the secret if it `holds`. `cue` is a short
    text that a file without a match mostly lacks, compared in lower case."""

    name: str
    pattern: re.Pattern[str]
    cues: tuple[str, ...]
    holds: Callable[[str], bool]
    fatal: bool = True


_SECRET_NAME = (
    r"[\w.-]{0,40}?(?:passw(?:or)?d|pwd|passphrase|secret|token|credential|api[_-]?key"
    r"|(?:access|auth|private|signing|encryption)[_-]?key)s?(?:[_-]?[A-Za-z0-9]{1,12}){0,2}"
)
_ENV_NAME = r"\w{0,40}(?:KEY|TOKEN|SECRET|PASSW(?:OR)?D|PWD|CREDENTIALS?)\w{0,20}"
_NAME_CUES = ("passw", "pwd", "passphrase", "secret", "token", "credential", "key")
_GENERIC = "generic_secret_assignment"


def _rule(
    name: str, pattern: str, cues: str, holds: Callable[[str], bool], *, fatal: bool = True
) -> Rule:
    return Rule(name, re.compile(pattern), tuple(cues.split()), holds, fatal)


RULES = (
    # A name in code is followed by its closing quote; a key goes on, or ends its line.
    _rule(
        "pem_private_key",
        r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?=[ \t]*(?:\\+r)?(?:\\+n|\r|\n|$|[A-Za-z0-9+/]{16}))",
        "private",
        _any,
    ),
    # The same in base64, at each of the three places where it can begin.
    _rule(
        "pem_private_key",
        r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)"
        r"[A-Za-z0-9+/=]{8,}",
        "ls0tls1crudjti",
        _any,
    ),
    _rule(
        "aws_access_key",
        r"(?<![A-Za-z0-9])((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?![A-Za-z0-9])",
        "akia asia abia acca",
        _token,
    ),
    _rule(
        "aws_secret_pattern",
        r"(?i)aws[\w.-]{0,20}(?:secret|sk\b)[\w.\s'\"-]{0,30}[:=]\s{0,4}['\"]?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        "aws",
        _token,
    ),
    _rule(
        "github_token",
        r"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _token,
    ),
    _rule(
        "slack_token",
        r"(?<![A-Za-z0-9])(xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-\d-[A-Za-z0-9-]{10,250}"
        r"|hooks\.slack\.com/(?:services|workflows)/[A-Z0-9]{5,20}/[A-Z0-9]{5,20}/[A-Za-z0-9]{16,40})",
        "xox xapp- hooks.slack.com",
        _token,
    ),
    _rule(
        "openai_anthropic_key",
        r"(?<![A-Za-z0-9_-])(sk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{20,300}"
        r"|sk-[A-Za-z0-9]{20,200})(?![A-Za-z0-9])",
        "sk-",
        _token,
    ),
    _rule(
        "provider_token",
        r"(?<![A-Za-z0-9_-])(AIza[A-Za-z0-9_-]{35}|glpat-[A-Za-z0-9_-]{20,80}|npm_[A-Za-z0-9]{36}"
        r"|pypi-AgE[A-Za-z0-9_-]{50,250}|hf_[A-Za-z0-9]{34}|[sr]k_live_[A-Za-z0-9]{16,120}"
        r"|SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}|dop_v1_[a-f0-9]{64}"
        r"|ya29\.[A-Za-z0-9_-]{20,250}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|gsk_[A-Za-z0-9]{40,80}"
        r"|xai-[A-Za-z0-9]{40,100})(?![A-Za-z0-9])",
        "aiza glpat- npm_ pypi-age hf_ k_live_ sg. dop_v1_ ya29. shp gsk_ xai-",
        _token,
    ),
    _rule(
        "provider_token",
        r"(?<![A-Za-z])AccountKey=([A-Za-z0-9+/]{60,90}={0,2})",
        "accountkey=",
        _token,
    ),
    _rule(
        "connection_string",
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@'\"<>`|\\]{0,100}"
        r":([^\s@/'\"<>`|\\]{3,200})@[\w\[.-]",
        "://",
        _password,
    ),
    _rule(
        "connection_string",
        r"(?i)(?:server|data source|host|addr)=[^;\n]{1,200};[^\n]{0,200}?(?:password|pwd)="
        r"([^;'\"\s]{6,200})",
        "password= pwd=",
        _password,
    ),
    _rule(
        "env_access",
        rf"(?:environ\.get|getenv|env::var_or|ENV\.fetch|environ\.setdefault)\(\s{{0,8}}"
        rf"['\"]{_ENV_NAME}['\"]\s{{0,8}},\s{{0,8}}['\"]([^'\"\n]{{8,200}})['\"]",
        "env",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        "env_access",
        rf"(?:process\.env\.{_ENV_NAME}|process\.env\[['\"]{_ENV_NAME}['\"]\])\s{{0,8}}"
        r"(?:\|\||\?\?)\s{0,8}['\"`]([^'\"`\n]{8,200})['\"`]",
        "process.env",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        "env_access",
        rf"\$\{{{_ENV_NAME}:?[-=]([^}}\n]{{8,200}})\}}",
        "${",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        _GENERIC,
        rf"(?i)(?<![A-Za-z0-9]){_SECRET_NAME}['\"`\]]{{0,2}}(?::\s?[\w\[\], |]{{1,30}})?\s{{0,20}}"
        r"(?:=>|:=|[:=])\s{0,20}[bBrRuUfF]{0,2}['\"`]([^'\"`\s]{8,250})['\"`]",
        " ".join(_NAME_CUES),
        is_random_looking,
        fatal=False,
    ),
    _rule(
        _GENERIC,
        r"(?i)authorization['\"]?\s{0,8}[:=,]\s{0,8}['\"]?(?:bearer|token|basic)\s{1,4}"
        r"([A-Za-z0-9._~+/=-]{20,400})",
        "authorization",
        is_random_looking,
        fatal=False,
    ),
    # NAME=value as shells write it, in any file.
    _rule(
        _GENERIC,
        rf"(?m)^[ \t]{{0,40}}(?:export |ENV |set )?{_ENV_NAME}="
        r"([^\s'\"`$<>(){}]{12,250})[ \t]*\r?$",
        "key token secret passw pwd credential",
        is_random_looking,
        fatal=False,
    ),
)  # fmt: skip
# Where values stand without quotes; in a program such a line would be an expression.
UNQUOTED = _rule(
    _GENERIC,
    rf"(?im)^[ \t-]{{0,40}}(?:export |env )?{_SECRET_NAME}[ \t]{{0,20}}[:=][ \t]{{0,20}}"
    r"([^\s'\"`$<>(){}#]{8,250})[ \t]*(?:#[^\n]{0,200})?\r?$",
    " ".join(_NAME_CUES),
    is_random_looking,
    fatal=False,
)
IN_ENV_FILE = _rule(
    ENV_ASSIGNMENT,
    rf"(?im)^[ \t]{{0,40}}(?:export[ \t]{{1,8}})?{_SECRET_NAME}[ \t]*=[ \t]*['\"]?"
    r"([^\s'\"#$<>]{6,2000})",
    " ".join(_NAME_CUES),
    _password,
)


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
        return (IN_ENV_FILE, *(rule for rule in rules if rule.name != _GENERIC))
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
