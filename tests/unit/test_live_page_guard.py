"""The live page answers only its own page, on its own name."""

from __future__ import annotations

import re

import pytest

from driver.live_page.guard import is_ambiguous, is_token, refusal, security_headers
from driver.live_page.page import page

PORT = 8765
HOST = {"Host": f"127.0.0.1:{PORT}"}
OWN = {**HOST, "Origin": f"http://127.0.0.1:{PORT}"}


@pytest.mark.parametrize(
    ("headers", "changes"),
    [
        (HOST, False),
        ({"Host": f"localhost:{PORT}"}, False),
        (OWN, False),
        (OWN, True),
        ({"Host": f"localhost:{PORT}", "Origin": f"http://localhost:{PORT}"}, True),
        ({**OWN, "Sec-Fetch-Site": "same-origin"}, True),
        ({**HOST, "Sec-Fetch-Site": "none"}, False),
    ],
)
def test_the_own_page_is_answered(headers: dict[str, str], changes: bool) -> None:
    assert refusal(headers, PORT, changes=changes) == ""


@pytest.mark.parametrize(
    ("headers", "changes"),
    [
        ({}, False),
        ({"Host": "127.0.0.1"}, False),
        ({"Host": f"127.0.0.1:{PORT + 1}"}, False),
        ({"Host": f"rebound.example.org:{PORT}"}, False),
        ({"Host": f"127.0.0.1:{PORT}.example.org"}, False),
        ({"Host": f"localhost.:{PORT}"}, False),
        ({"Host": f"0.0.0.0:{PORT}"}, False),
        (HOST, True),
        ({**HOST, "Origin": "null"}, False),
        ({**HOST, "origin": "null"}, False),
        ({**HOST, "Origin": "https://example.org"}, False),
        ({**HOST, "Origin": f"https://127.0.0.1:{PORT}"}, False),
        ({**HOST, "Origin": f"http://localhost:{PORT}"}, True),
        ({**HOST, "Origin": f"http://127.0.0.1:{PORT + 1}"}, True),
        ({**OWN, "Sec-Fetch-Site": "cross-site"}, False),
        ({**OWN, "Sec-Fetch-Site": "same-site"}, True),
    ],
)
def test_names_and_pages_of_others_get_nothing(headers: dict[str, str], changes: bool) -> None:
    assert refusal(headers, PORT, changes=changes) != ""


def test_a_browser_leaves_out_the_usual_port() -> None:
    own = {"Host": "localhost", "Origin": "http://localhost"}
    assert refusal(own, 80, changes=True) == ""
    assert refusal(own, PORT, changes=True) != ""


def test_a_header_that_decides_is_there_once() -> None:
    assert not is_ambiguous(["Host", "Origin", "Cookie", "Cookie"])
    for name in ("host", "ORIGIN", "Content-length", "Sec-Fetch-Site"):
        assert is_ambiguous(["Host", "Origin", "Content-Length", "Sec-Fetch-Site", name])


def test_only_the_token_is_the_token() -> None:
    assert is_token("abc", "abc")
    for given in (None, "", "ab", "abcd", "ABC", "\udcff"):
        assert not is_token(given, "abc")


def test_only_scripts_and_styles_with_the_nonce_may_run() -> None:
    policy = security_headers("N0")["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    text = page("N0")
    assert re.findall(r"<(script|style)([^>]*)>", text) == [
        ("style", ' nonce="N0"'),
        ("script", ' nonce="N0"'),
    ]
    assert not re.search(
        r"\son[a-z]+=|\sstyle=|javascript:|https?://(?!www\.w3\.org/2000/svg)", text
    )


def test_the_page_puts_no_text_into_the_page_as_html() -> None:
    text = page("N0")
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "srcdoc",
    ):
        assert way not in text
