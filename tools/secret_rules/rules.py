"""The rules for recognising secrets in text, as data. Pure.

Rules that are not fatal match names and values in code. `search` selects the rules for a file.
`known_values` finds the values of this machine's secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from state_store.values.lazy_dataclass import dataclass
from tools.secret_rules.placeholders import is_blanked, is_placeholder, is_random_looking

ENV_ACCESS = "env_access"
ENV_ASSIGNMENT = "env_assignment"
GENERIC = "generic_secret_assignment"
CREDENTIAL_FILENAME = "credential_filename"


def _any(secret: str) -> bool:
    return bool(secret)


def _token(secret: str) -> bool:
    return not is_blanked(secret)


def _password(secret: str) -> bool:
    return not is_placeholder(secret)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: group 1 of `pattern`, or else the whole match, is a secret if `holds` accepts it.
    Every match contains one of the `cues`, which most files do not contain."""

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


def _rule(
    name: str, pattern: str, cues: str, holds: Callable[[str], bool], *, fatal: bool = True
) -> Rule:
    return Rule(name, re.compile(pattern), tuple(cues.split()), holds, fatal)


RULES = (
    # In code a closing quote follows the name. In a key file the key or the line's end follows.
    _rule(
        "pem_private_key",
        r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?=[ \t]*(?:\\+r)?(?:\\+n|\r|\n|$|[A-Za-z0-9+/]{16}))",
        "private",
        _any,
    ),
    # The same in base64, at each of the three offsets.
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
        ENV_ACCESS,
        rf"(?:environ\.get|getenv|env::var_or|ENV\.fetch|environ\.setdefault)\(\s{{0,8}}"
        rf"['\"]{_ENV_NAME}['\"]\s{{0,8}},\s{{0,8}}['\"]([^'\"\n]{{8,200}})['\"]",
        "env",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        ENV_ACCESS,
        rf"(?:process\.env\.{_ENV_NAME}|process\.env\[['\"]{_ENV_NAME}['\"]\])\s{{0,8}}"
        r"(?:\|\||\?\?)\s{0,8}['\"`]([^'\"`\n]{8,200})['\"`]",
        "process.env",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        ENV_ACCESS,
        rf"\$\{{{_ENV_NAME}:?[-=]([^}}\n]{{8,200}})\}}",
        "${",
        is_random_looking,
        fatal=False,
    ),
    _rule(
        GENERIC,
        rf"(?i)(?<![A-Za-z0-9]){_SECRET_NAME}['\"`\]]{{0,2}}(?::\s?[\w\[\], |]{{1,30}})?\s{{0,20}}"
        r"(?:=>|:=|[:=])\s{0,20}[bBrRuUfF]{0,2}['\"`]([^'\"`\s]{8,250})['\"`]",
        " ".join(_NAME_CUES),
        is_random_looking,
        fatal=False,
    ),
    _rule(
        GENERIC,
        r"(?i)authorization['\"]?\s{0,8}[:=,]\s{0,8}['\"]?(?:bearer|token|basic)\s{1,4}"
        r"([A-Za-z0-9._~+/=-]{20,400})",
        "authorization",
        is_random_looking,
        fatal=False,
    ),
    # NAME=value as shells write it, in any file.
    _rule(
        GENERIC,
        rf"(?m)^[ \t]{{0,40}}(?:export |ENV |set )?{_ENV_NAME}="
        r"([^\s'\"`$<>(){}]{12,250})[ \t]*\r?$",
        "key token secret passw pwd credential",
        is_random_looking,
        fatal=False,
    ),
)  # fmt: skip
# For files with unquoted values. In a program such a line would be an expression.
UNQUOTED = _rule(
    GENERIC,
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

SOFTENED_BY_PRAGMA = frozenset({GENERIC, ENV_ACCESS})
FATAL_RULES = frozenset(
    {CREDENTIAL_FILENAME, ENV_ASSIGNMENT, *(rule.name for rule in RULES if rule.fatal)}
)
_CREDENTIAL_FILENAME = re.compile(
    r"\.credentials.*|id_rsa(?!.*\.pub\Z).*|.*\.(?:p12|pfx)", re.DOTALL
)


def is_credential_filename(name: str) -> bool:
    """True for the name of a file that holds keys, also where its content cannot be judged."""
    return bool(_CREDENTIAL_FILENAME.fullmatch(name.lower()))
