"""Where a redirect may lead a request; the key and a body go to no other server than the first."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import IO

from driver.backends.http.endpoint import endpoint

_SECRET_HEADERS = frozenset(
    {"authorization", "api-key", "x-api-key", "proxy-authorization", "cookie"}
)
_REPEATED = (307, 308)  # these keep method and body, the others turn a POST into a GET


class AuthStripRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Follows redirects; whoever is at another scheme, host or port gets no key and no body."""

    max_redirections = 3

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The request to go on with. Raises HTTPError where none may go."""
        try:
            same = endpoint(newurl).origin == endpoint(req.full_url).origin
        except ValueError as error:
            why = f"redirected to where nothing may be sent: {error}"
            raise urllib.error.HTTPError(req.full_url, code, why, headers, fp) from error
        if refusal := self._refusal(req, newurl, same=same):
            raise urllib.error.HTTPError(req.full_url, code, refusal, headers, fp)
        if code in _REPEATED:
            new: urllib.request.Request | None = _again(req, newurl)
        else:
            new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and not same:
            _strip(new)
        if fp is not None:
            fp.close()  # or urllib reads this answer's body to an end that may never come
        return new

    def _refusal(self, req: urllib.request.Request, newurl: str, *, same: bool) -> str | None:
        # Without the request another server knows nothing to answer, and what it says to a bare
        # GET, perhaps on this machine, is nobody's work.
        if req.data is not None and not same:
            return "redirected to another server, which is not sent the request"
        passed = getattr(req, "redirect_dict", {})  # urllib's own count of where it has been
        if newurl in passed or len(passed) >= self.max_redirections:
            return "redirected in a circle or too often"
        return None


def _again(request: urllib.request.Request, url: str) -> urllib.request.Request:
    return urllib.request.Request(
        url, data=request.data, headers=dict(request.headers), method=request.get_method()
    )


def _strip(request: urllib.request.Request) -> None:
    for name in [name for name in request.headers if name.lower() in _SECRET_HEADERS]:
        request.remove_header(name)
