"""A secret of this machine is found in every disguise that programs give it."""

from __future__ import annotations

import base64
import codecs
import html
import json
import shlex
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from tests.support.secrets import noise
from tools.secret_rules.known_values import scan_known_values, secrets_of

SECRET = 'Tr0ub4dor &"<3>/+=' + noise(20)
NAME = {"API_KEY": SECRET}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def every(pattern: str) -> str:
    return "".join(pattern % byte for byte in SECRET.encode())


DISGUISES: dict[str, Callable[[], str | bytes]] = {
    "plain": lambda: SECRET,
    "in quotes": lambda: f"key = '{SECRET}'",
    "as a line": lambda: f"\n{SECRET}\r\n",
    "utf-16-le": lambda: SECRET.encode("utf-16-le"),
    "utf-16-be": lambda: SECRET.encode("utf-16-be"),
    "utf-32": lambda: SECRET.encode("utf-32"),
    "base64": lambda: b64(SECRET),
    "base64 after one": lambda: b64("x" + SECRET),
    "base64 after two": lambda: b64("xy" + SECRET),
    "base64 between": lambda: b64("user:" + SECRET + "\n"),
    "base64 basic auth": lambda: "Authorization: Basic " + b64("oauth2:" + SECRET),
    "base64 without padding": lambda: b64(SECRET).rstrip("="),
    "base64 url-safe": lambda: base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "base64 wrapped at 20": lambda: "\n".join(textwrap.wrap(b64(SECRET), 20)),
    "base64 wrapped, indented": lambda: "\n    ".join(textwrap.wrap(b64(SECRET), 16)),
    "base64 mime": lambda: codecs.encode(SECRET.encode() * 3, "base64"),
    "base64 in a URL": lambda: quote(b64(SECRET), safe=""),
    "base64 in JSON": lambda: json.dumps({"v": b64(SECRET)}),
    "base64 with escaped slashes": lambda: b64(SECRET).replace("/", "\\/"),
    "base64 of base64": lambda: b64(b64(SECRET)),
    "base64 of UTF-16": lambda: base64.b64encode(SECRET.encode("utf-16-le")),
    "base32": lambda: base64.b32encode(SECRET.encode()),
    "base85": lambda: base64.b85encode(SECRET.encode()),
    "hex": lambda: SECRET.encode().hex(),
    "hex in capitals": lambda: SECRET.encode().hex().upper(),
    "hex by colons": lambda: SECRET.encode().hex(":"),
    "hex by spaces": lambda: SECRET.encode().hex(" "),
    "hex dump by pairs": lambda: SECRET.encode().hex(" ", 2),
    "hex escapes": lambda: every("\\x%02x"),
    "hex escapes in capitals": lambda: every("\\x%02X"),
    "a C array": lambda: every("0x%02x, "),
    "a C array, tight": lambda: every("0x%02X,"),
    "a hex dump in lines": lambda: "\n".join(textwrap.wrap(SECRET.encode().hex(), 32)),
    "octal escapes": lambda: every("\\%03o"),
    "unicode escapes": lambda: every("\\u%04x"),
    "unicode escapes in capitals": lambda: every("\\u%04X"),
    "JSON": lambda: json.dumps({"key": SECRET}),
    "JSON in JSON": lambda: json.dumps(json.dumps(SECRET)[1:-1].replace("\\", ""))[1:-1],
    "repr": lambda: repr(SECRET),
    "URL": lambda: quote(SECRET),
    "URL, all of it": lambda: quote(SECRET, safe=""),
    "URL form": lambda: quote_plus(SECRET),
    "URL, every character": lambda: every("%%%02x"),
    "URL, in capitals": lambda: every("%%%02X"),
    "HTML": lambda: html.escape(SECRET),
    "HTML, every character": lambda: every("&#%d;"),
    "HTML, hex": lambda: every("&#x%x;"),
    "shell": lambda: shlex.quote(SECRET),
    "reversed": lambda: SECRET[::-1],
    "rot13": lambda: codecs.encode(SECRET, "rot13"),
    "two strings": lambda: f'"{SECRET[:15]}" "{SECRET[15:]}"'.replace(SECRET[:15], SECRET[:15]),
    "added strings": lambda: f"'{SECRET[:20]}' + '{SECRET[20:]}'",
    "strings on two lines": lambda: f"'{SECRET[:22]}'\n    '{SECRET[22:]}'",
    "an array of strings": lambda: f"['{SECRET[:20]}', '{SECRET[20:30]}', '{SECRET[30:]}']",
    "one character a line": lambda: "\n".join(SECRET),
    "one character a string": lambda: ", ".join(f'"{c}"' for c in SECRET),
    "wrapped by a backslash": lambda: SECRET[:25] + "\\\n" + SECRET[25:],
    "among other bytes": lambda: b"\0\1\2\xff" + SECRET.encode() + b"\xfe\0",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_known_value_is_found(disguise: str) -> None:
    made = DISGUISES[disguise]()
    blob = made.encode() if isinstance(made, str) else made
    around = b"some text before it\n" + blob + b"\nand some behind"
    if disguise.startswith("utf-"):
        around = blob
    assert [found.name for found in scan_known_values(around, NAME)] == ["API_KEY"]


def test_at_least_fifty_disguises_are_tried() -> None:
    assert len(DISGUISES) >= 50


@pytest.mark.parametrize(
    "text",
    [
        "",
        SECRET[:-1],
        SECRET[1:],
        b64(SECRET[:-4]),
        SECRET.lower(),
        "API_KEY",
        noise(20, 2),
        base64.b64encode(bytes(range(256))).decode(),
    ],
)
def test_what_is_not_the_value_is_not_found(text: str) -> None:
    assert scan_known_values(text.encode(), NAME) == []


def test_short_values_are_passed_over_and_bare_ones_called_by_number() -> None:
    secrets = ["short", SECRET, noise(9, 4)]
    found = scan_known_values(f"short {SECRET} {noise(9, 4)}".encode(), secrets)
    assert [one.name for one in found] == ["secret 2", "secret 3"]
    assert scan_known_values(b"short", ["short"]) == []


def test_a_finding_never_carries_the_value() -> None:
    (found,) = scan_known_values(b64(SECRET).encode(), NAME)
    assert found == ("API_KEY", "base64")
    assert SECRET not in repr(found)


def test_a_value_of_many_lines_and_one_beyond_ascii() -> None:
    many = f"line {noise(9)}\nline {noise(9, 2)}\n"
    wide = "pa\u00df\u0142ord " + noise(9)
    blob = json.dumps({"a": many}).encode() + json.dumps(wide).encode()
    assert {one.name for one in scan_known_values(blob, {"a": many, "b": wide})} == {"a", "b"}


def test_which_variables_hold_secrets() -> None:
    environ = {"A_TOKEN": noise(8), "MY_KEY": "short", "PATH": noise(20), "LOGIN": noise(9)}
    assert secrets_of(environ).keys() == {"A_TOKEN"}
    assert secrets_of(environ, ["LOGIN"]).keys() == {"A_TOKEN", "LOGIN"}


def test_a_large_blob_of_code_is_looked_through_in_a_moment() -> None:
    blob = (b"value = call(%d, '\\x00', &other)\n" * 30_000) + SECRET.encode()
    assert scan_known_values(blob, NAME)
