"""The spellings of a secret value, as bytes without the characters that programs insert. Pure.

A view is a text without such characters: white space, quotes, backslashes and the like. A secret is
searched without them too, so it is found however a program wraps, quotes, joins or escapes it.
"""

from __future__ import annotations

import base64
import html
import itertools
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST = 8

# Characters that programs insert into a value when they split, wrap or quote it.
GLUE = b" \t\r\n\v\f\0'\"`+,\\&.()"
HEX_GLUE = GLUE + b"x%:-;{}#u"
# Escapes of white space, as blanks of the same length.
_ESCAPES = ((b"\\n", b"  "), (b"\\r", b"  "), (b"\\t", b"  "))
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_TURNED = _LETTERS[13:] + _LETTERS[:13]
ROT13 = bytes.maketrans(_LETTERS + _LETTERS.upper(), _TURNED + _TURNED.upper())
_IN_JSON = ("", "&<>", "&<>'", "&<>'+=")  # the signs that writers of JSON escape too
_LONGEST = 2048


def blanked(data: bytes) -> bytes:
    """The data with escaped white space as blanks; every byte keeps its place."""
    if b"\\" in data:
        for escape, blanks in _ESCAPES:
            data = data.replace(escape, blanks)
    return data


def plain_view(blank: bytes) -> bytes:
    """The view for all spellings but hex, of data that is `blanked`."""
    return blank.translate(None, GLUE)


def hex_view(blank: bytes) -> bytes:
    """The view for hex digits, of data that is `blanked`."""
    return blank.lower().translate(None, HEX_GLUE)


def pieces_of(value: str) -> Iterator[str]:
    """The parts of a value that are secrets of their own: it, its long lines, and the pieces of a
    very long one."""
    lines = [line.strip() for line in value.splitlines()]
    parts = [value, *(line for line in lines if len(line) >= 2 * SHORTEST and line != value)]
    for part in parts:
        if part.startswith("-----") and "\n" not in part:
            continue  # a frame of PEM, which is in every key file
        for start in range(0, len(part), _LONGEST):
            piece = part[start : start + _LONGEST]
            if len(piece) >= SHORTEST:
                yield piece


def plain_needles(value: str) -> Iterator[bytes]:
    """The spellings of a value in the plain view."""
    secret = value.encode("utf-8", "surrogatepass")
    yield from (plain_view(blanked(text)) for text in _quoted(value, secret))
    for spelled in (secret, base64.b64encode(secret)):
        for core in base64_cores(spelled):
            yield from _base64_spellings(core)
    wide = value.encode("utf-16-le", "surrogatepass")
    for core in base64_cores(wide):
        yield from _base64_spellings(core)
    yield base64.b32encode(secret).rstrip(b"=")[: len(secret) * 8 // 5]
    turned = value[::-1].encode("utf-8", "surrogatepass"), secret.translate(ROT13)
    for text in (base64.b85encode(secret)[: len(secret) // 4 * 5], *turned):
        yield plain_view(blanked(text))


def hex_needles(value: str) -> Iterator[bytes]:
    """The spellings of a value in the view of hex digits: of bytes, and of escapes with zeros."""
    digits = value.encode("utf-8", "surrogatepass").hex()
    pairs = [digits[at : at + 2] for at in range(0, len(digits), 2)]
    for zeros in ("", "0", "00"):
        yield "".join(zeros + pair for pair in pairs).encode()


def _quoted(value: str, secret: bytes) -> Iterator[bytes]:
    yield secret
    for only_ascii, chars in itertools.product((True, False), _IN_JSON):
        in_json = json.dumps(value, ensure_ascii=only_ascii)[1:-1]
        for char in chars:
            in_json = in_json.replace(char, f"\\u{ord(char):04x}")
        yield from _both_cases(in_json)
    escaped = html.escape(value)
    for text in (escaped, escaped.replace("&#x27;", "&#39;"), html.escape(value, quote=False)):
        yield text.encode("utf-8", "surrogatepass")
    for how in (quote, quote_plus, _quoted_wholly):
        yield from _both_cases(how(value, errors="surrogatepass"))


def _quoted_wholly(value: str, errors: str) -> str:
    return quote(value, safe="", errors=errors)


def _both_cases(escaped: str) -> Iterator[bytes]:
    """An escaped text as it is, and with lower case hex digits after `%` and upper case after
    `\\u`."""
    yield escaped.encode("utf-8", "surrogatepass")
    for mark, length, change in (("%", 2, str.lower), ("\\u", 4, str.upper)):
        head, *rest = escaped.split(mark)
        changed = [change(one[:length]) + one[length:] for one in rest]
        if rest:
            yield mark.join([head, *changed]).encode("utf-8", "surrogatepass")


def base64_cores(secret: bytes) -> Iterator[bytes]:
    """The base64 of a value at each of the three offsets, without the first and last characters,
    which depend on its neighbours."""
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + secret)
        last = (before + len(secret)) * 8 // 6
        yield coded[-(-before * 8 // 6) : last]


def _base64_spellings(core: bytes) -> Iterator[bytes]:
    yield plain_view(core)
    yield core.translate(bytes.maketrans(b"+/", b"-_"))
    yield core.replace(b"+", b"%2B").replace(b"/", b"%2F")
