"""The transport to OpenAI under the names that callers of the source know.

What a server is and how it is asked is in `driver.completions.server`.
"""

from __future__ import annotations

from typing import Any

from driver.backends.http.exchange import Watch
from driver.backends.http.redirects import AuthStripRedirectHandler
from driver.backends.http.server import OPENAI_URL, Server, complete
from tools.settings.load import process_environment

_AuthStripRedirectHandler = AuthStripRedirectHandler


def default_openai_transport(
    payload: dict[str, Any], timeout_s: float = 120.0, base_url: str = OPENAI_URL
) -> dict[str, Any]:
    """One completion of OpenAI's, as its JSON document, with the key in OPENAI_API_KEY.

    Raises RuntimeError (a TransportError) when there is none.
    """
    return complete(Server(base_url), payload, process_environment(), Watch(timeout_s))
