"""Distinguishes real secrets from placeholders. Pure.

A real secret mistaken for a placeholder would be published, so only obvious placeholders count.
"""

from __future__ import annotations

import math
import re

SHORTEST = 8

_STANDS_IN = re.compile(
    r"""(?ix) ^ (?:
        [<\[({%$@] .* [>\])}%]? | .* (?: \$\{ | \{\{ | %\( | <[a-z_ -]+> | \{[a-z_.]*\} ) .*
      | (?: x{3,} | \*{3,} | \.{3,} | -{3,} | _{3,} | 0{3,} ) .*
      | (?: your | my | some | this | the | an? | no | new | old ) [-_ ] .*
      | (?: example | sample | dummy | fake | mock | placeholder | change | replace | insert | enter
          | redacted | removed | hidden | masked | todo | fixme | tbd | none | null | undefined ) .*
      | (?: test | testing | foo | bar | baz | demo | default | passw(?:or)?d | pass | pwd? | pw
          | secret | token | username | user | admin | root | guest | anonymous | postgres | mysql
          | api[-_]?key ) \W* [0-9]{0,3}
      | (?: test | foo | demo | unit ) [-_ ] .*
      | .* (?: example | placeholder | changeme | redacted | not[-_]?a[-_]?real | [-_]here )
          [-_.]? \w{0,3}
    ) $"""
)
_WORDS = re.compile(r"[A-Za-z]+(?:[-_./: ][A-Za-z]+)*[-_.:]?")
_BLANKED = re.compile(r"[xX*.#0_-]*")
_DOCUMENTED = re.compile(r"(?i)example(?:key)?$")
_PATH_OR_CALL = re.compile(r"^(?:[./~]|[a-z]+://)|[()\[\];]|\\[nrtbdws]|^\w+(?:\.\w+)+$|^\^|\$$")


def is_placeholder(value: str) -> bool:
    """True for a plain placeholder of a secret: `your-key-here`, `<token>`, `xxxx`."""
    value = value.strip()
    return len(set(value)) < 3 or _STANDS_IN.match(value) is not None


def is_blanked(token: str, prefix: int = 4) -> bool:
    """True for a token that is only filler after `prefix` characters, or ends in EXAMPLE, as in the
    providers' documents."""
    return bool(_BLANKED.fullmatch(token[prefix:]) or _DOCUMENTED.search(token))


def is_random_looking(value: str) -> bool:
    """True for a value that looks random, not like a name, a word or an expression."""
    if len(value) < SHORTEST or is_placeholder(value) or _PATH_OR_CALL.search(value):
        return False
    if _WORDS.fullmatch(value):
        return len(value) >= 20 and _WORDS.fullmatch(value.strip("_")) is None
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and entropy(value) >= 2.5


def entropy(value: str) -> float:
    """The entropy in bits per character."""
    counts = [value.count(char) / len(value) for char in set(value)]
    return -sum(share * math.log2(share) for share in counts)


def mask_secret(secret_str: str) -> str:
    """Returns a prefix of a secret, too short to use it, long enough to find it."""
    flat = " ".join(secret_str.split())
    shown = flat[:4] if len(flat) >= 20 else ""
    return f"{shown}*** {len(secret_str)} characters"
