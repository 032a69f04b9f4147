"""Decides by its name if a variable holds a secret. Every program loads this, so it is small."""

from __future__ import annotations

_WORDS = (
    *("KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "DSN", "COOKIE", "WEBHOOK"),
    *("AUTH", "_PWD"),
)
# Of the first the value is the name of a setting of git, of the second that of a person.
_NOT = ("GIT_CONFIG_KEY_", "GIT_AUTHOR_")


def is_secret_name(name: str) -> bool:
    """True for the name of a variable or a setting that may hold a secret."""
    upper = name.upper()
    return any(word in upper for word in _WORDS) and not upper.startswith(_NOT)


def may_be_secret(name: str, value: str) -> bool:
    """True for such a name, for an address with a password and for the header of a login."""
    return is_secret_name(name) or ("://" in value and "@" in value) or "uthorization" in value
