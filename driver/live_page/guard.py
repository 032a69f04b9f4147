"""Decides which requests the live page answers. Pure.

Only a page that came from this very server gets anything. The name and the port in `Host` keep out
names of other sites that point to this machine; `Origin` and `Sec-Fetch-Site` keep out their pages.
Names of headers have no case.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

TOKEN_HEADER = "X-Tidegate-Token"
MOST_BODY_BYTES = 1024
_NAMES = ("127.0.0.1", "localhost")
_USUAL_PORT = 80  # browsers leave it out
_ONCE = ("host", "origin", "sec-fetch-site", "content-length")
_OWN_SITE = ("same-origin", "none")  # `none`: typed or bookmarked by the user


def refusal(headers: Mapping[str, str], port: int, *, changes: bool) -> str:
    """The reason why a request is refused, or "". One that `changes` something has to name its
    origin."""
    headers = {name.lower(): value for name, value in headers.items()}
    hosts = [f"{name}:{port}" for name in _NAMES]
    hosts += _NAMES if port == _USUAL_PORT else ()
    if headers.get("host", "") not in hosts:
        return "this server answers only to its own name and port"
    origin = headers.get("origin")
    if origin is None and changes:
        return "a request that changes something has to name its origin"
    if origin is not None and origin != f"http://{headers['host']}":
        return "requests of other pages are not answered"
    if headers.get("sec-fetch-site", "none") not in _OWN_SITE:
        return "requests of other sites are not answered"
    return ""


def is_ambiguous(names: Iterable[str]) -> bool:
    """True if a header that decides is there twice."""
    lower = [name.lower() for name in names]
    return any(lower.count(name) > 1 for name in _ONCE)


def is_token(given: str | None, token: str) -> bool:
    """True for the token, compared in constant time."""
    return hmac.compare_digest((given or "").encode("utf-8", "replace"), token.encode())


def security_headers(nonce: str) -> dict[str, str]:
    """The headers of every answer. Only the page's own script and style run, and no other page may
    frame or read it."""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
