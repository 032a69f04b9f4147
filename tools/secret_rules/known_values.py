"""Finds the values of this machine's secrets in bytes, plain or encoded. Pure.

The caller names the secrets. Values shorter than `SHORTEST` are skipped, because they occur
anywhere.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from state_store.redaction.spellings import ROT13, SHORTEST, base64_cores

# A variable GIT_CONFIG_KEY_n holds the name of a setting of git.
_SECRET_NAME = re.compile(
    r"(?!GIT_CONFIG_KEY_).*(KEY|TOKEN|SECRET|PASSW|CREDENTIAL)", re.IGNORECASE | re.DOTALL
)
# Characters that programs insert into a value when they split, wrap or quote it.
_GLUE = re.compile(rb"[\s'\"`+,\\&.()]+")
_HEX_GLUE = re.compile(rb"(?:\\x|0x|%|[\s:,;'\"-])+", re.IGNORECASE)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|([nrt\"'\\/]))")
_CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_ENTITY = re.compile(rb"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z]{2,10});")


class KnownSecret(NamedTuple):
    """A found secret: its name, never its value, and the `disguise` of the value."""

    name: str
    disguise: str


def secrets_of(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The secret values of an environment, by the names of variables or by `names`."""
    asked = set(names)
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= SHORTEST and (name in asked or _SECRET_NAME.match(name))
    }


def scan_known_values(blob: bytes, secrets: Mapping[str, str] | Iterable[str]) -> list[KnownSecret]:
    """Returns the secrets whose value is in `blob`, each with its first found disguise.

    `secrets` maps names to values, or lists values. Listed values are named by number.
    """
    if not isinstance(secrets, Mapping):
        secrets = {f"secret {number}": value for number, value in enumerate(secrets, start=1)}
    wanted = {name: value.encode() for name, value in secrets.items() if len(value) >= SHORTEST}
    if not wanted:
        return []
    views = list(_views(blob))
    found = (_disguise(views, secret) for secret in wanted.values())
    return [KnownSecret(n, how) for n, how in zip(wanted, found, strict=True) if how is not None]


def _disguise(views: Sequence[tuple[str, bytes]], secret: bytes) -> str | None:
    needles = list(_needles(secret))
    for view, data in views:
        for spelling, needle in needles:
            if needle in data:
                return " in ".join(filter(None, (spelling, view))) or "plain"
    raw = views[0][1]
    glued, loose = _GLUE.sub(b"", raw), _GLUE.sub(b"", secret)
    return "split up" if len(loose) >= SHORTEST and loose in glued else None


def _views(blob: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the blob unchanged, then with each kind of quoting undone."""
    yield "", blob
    if b"\0" in blob:
        yield "UTF-16", blob.replace(b"\0", b"")
    if b"%" in blob:
        yield "a URL", unquote_to_bytes(blob.replace(b"+", b" "))
        yield "a URL", unquote_to_bytes(blob)
    if b"\\" in blob:
        yield "escapes", _ESCAPE.sub(_escape, blob)
    if b"&" in blob:
        yield "HTML", _ENTITY.sub(_entity, blob)
    yield "wrapped lines", b"".join(blob.split())
    yield "split text", re.sub(rb"['\"]\s*[+.&,\\]?\s*['\"]", b"", blob)
    yield "loose hex", _HEX_GLUE.sub(b"", blob).lower()


def _needles(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields the spellings of a value, without the characters that depend on its neighbours."""
    yield "", secret
    yield "hex", secret.hex().encode()
    yield "hex", secret.hex().upper().encode()
    for spelled, how in ((secret, "base64"), (base64.b64encode(secret), "base64 of base64")):
        for core in base64_cores(spelled):
            yield how, core
            yield how, core.translate(bytes.maketrans(b"+/", b"-_"))
    wide = secret.decode("utf-8", "replace").encode("utf-16-le")
    for core in base64_cores(wide):
        yield "base64 of UTF-16", core
    yield "base32", base64.b32encode(secret).rstrip(b"=")[: len(secret) * 8 // 5]
    yield "base85", base64.b85encode(secret)[: len(secret) // 4 * 5]
    yield "reversed", secret[::-1]
    yield "rot13", secret.translate(ROT13)


def _escape(match: re.Match[bytes]) -> bytes:
    wide, byte, octal, control = match.groups()
    if control:
        return _CONTROLS.get(control, control)
    if wide:
        return chr(int(wide, 16)).encode("utf-8", "replace")
    return bytes([int(byte, 16) if byte else int(octal, 8) & 0xFF])


def _entity(match: re.Match[bytes]) -> bytes:
    return html.unescape(match[0].decode("ascii")).encode("utf-8", "replace")
