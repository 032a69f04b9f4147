"""An OpenAI-compatible server: its address, its key, one completion and its list of models.

The key is read from its variable at each call. It never appears in a message, because it is masked
in answers.
"""

from __future__ import annotations

import difflib
import json
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.http.endpoint import below, endpoint
from driver.backends.http.exchange import AuthStripRedirectHandler, Exchange, Watch
from driver.backends.http.reply import HttpAnswer, TransportError, read_reply
from driver.terminal.check_result import CheckResult, failed, failed_as, passed, warned
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass, replace
from tools.settings.load import process_environment

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"
LOCAL_KEY = "local-only"
_SHORTEST_SECRET = 8
_HIDDEN = "[key]"
_AuthStripRedirectHandler = AuthStripRedirectHandler  # the original project's name
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


@dataclass(frozen=True, slots=True)
class Server:
    """A model server. `key_name` is the variable with the key, `proxies` are the variables that may
    name a proxy."""

    base_url: str = OPENAI_URL
    key_name: str = OPENAI_KEY
    proxies: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        """True if the address is on this machine. Raises ValueError for an invalid address."""
        return endpoint(self.base_url).loopback

    def key(self, environ: Mapping[str, str]) -> str | None:
        """The key in the environment. Servers on this machine may need none.

        Raises ValueError for an address to which none may be sent.
        """
        loopback = self.loopback
        found = environ.get(self.key_name, "").strip() if self.key_name else ""
        if found and not (found.isascii() and found.isprintable()):
            return None
        return found or (LOCAL_KEY if loopback else None)

    def proxy(self, environ: Mapping[str, str]) -> str | None:
        """The user's proxy; None for a server on this machine."""
        allowed = (environ.get(name) for name in _PROXIES if name in self.proxies)
        return None if self.loopback else next(filter(None, allowed), None)

    def problem(self, environ: Mapping[str, str]) -> str | None:
        """The reason why this server is not usable, with its remedy, or None."""
        try:
            key = self.key(environ)
        except ValueError as error:
            return f"[backend] base_url cannot be used: {error}"
        if key is not None:
            return None
        if not self.key_name:
            return "this server needs a key; name its variable in [backend] api_key_env"
        return f"{self.key_name} is not set or holds no key; set it to this server's key"


def usual_key_name(base_url: str) -> str:
    """The default key variable: OpenAI's. Empty for servers on this machine, which must not get a
    key meant for OpenAI."""
    try:
        return "" if endpoint(base_url).loopback else OPENAI_KEY
    except ValueError:
        return OPENAI_KEY


def complete(
    server: Server, payload: Mapping[str, Any], environ: Mapping[str, str], watch: Watch
) -> dict[str, Any]:
    """Ask for a completion and return its JSON document. Raises TransportError."""
    if (problem := server.problem(environ)) is not None:
        raise TransportError(ProviderFault(FaultKind.BAD_KEY, problem))
    key = server.key(environ) or LOCAL_KEY
    request = request_of(server, "chat/completions", key, json.dumps(payload).encode("ascii"))
    answer = Exchange(request, watch, proxy=server.proxy(environ)).run()
    return read_reply(_without(key, answer), time.time())


def default_openai_transport(
    payload: dict[str, Any], timeout_s: float = 120.0, base_url: str = OPENAI_URL
) -> dict[str, Any]:
    """Ask OpenAI for a completion with the key in OPENAI_API_KEY and return its JSON document.

    Raises RuntimeError (a TransportError) if the request fails.
    """
    return complete(Server(base_url), payload, process_environment(), Watch(timeout_s))


def request_of(
    server: Server, path: str, key: str, body: bytes | None = None
) -> urllib.request.Request:
    """A request below the server's address: a POST if it has a JSON body, else a GET."""
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json",
        "User-Agent": "tidegate",
        **({} if body is None else {"Content-Type": "application/json"}),
    }
    return urllib.request.Request(below(server.base_url, path), data=body, headers=headers)


def _without(key: str, answer: HttpAnswer) -> HttpAnswer:
    if len(key) < _SHORTEST_SECRET or key == LOCAL_KEY:
        return answer
    return replace(
        answer,
        reason=answer.reason.replace(key, _HIDDEN),
        headers={name: value.replace(key, _HIDDEN) for name, value in answer.headers.items()},
        body=answer.body.replace(key.encode("ascii"), _HIDDEN.encode("ascii")),
    )


_NO_LIST = (404, 405, 501)
_SHOWN_MODELS = 3
_TIMEOUT_S = 10.0


def examine_server(
    server: Server, environ: Mapping[str, str], models: Collection[str]
) -> tuple[CheckResult, ...]:
    """Check the address, the answer, the key and each of the `models`."""
    problem = server.problem(environ)
    try:
        shown = endpoint(server.base_url).shown
    except ValueError:
        return (failed_as("endpoint", str(problem)),)
    if problem is not None:
        return (failed_as("key", problem),)
    request = request_of(server, "models", server.key(environ) or LOCAL_KEY)
    try:
        watch, proxy = Watch(_TIMEOUT_S), server.proxy(environ)
        answer = Exchange(request, watch, proxy=proxy, follow=False).run()
    except TransportError as error:
        remedy = "start the server, or correct [backend] base_url"
        return (failed("endpoint", str(error), remedy),)
    return tuple(judge_models(shown, answer.status, answer.body, models))


def judge_models(
    shown: str, status: int, body: bytes, models: Collection[str]
) -> list[CheckResult]:
    """The checks for the answer of the server `shown` to the request for its models."""
    if status in (401, 403):
        remedy = "set the variable of [backend] api_key_env to a key of this server"
        return [passed("endpoint", shown), failed("key", f"refused with {status}", remedy)]
    if status in _NO_LIST:
        remedy = "compare base_url with the server's documentation; it often ends in /v1"
        return [warned("endpoint", f"{shown} does not list its models ({status})", remedy)]
    if status == 429 or status >= 500:
        remedy = "try again later; a wave would wait for it"
        return [warned("endpoint", f"{shown} answers, but with {status}", remedy)]
    if status != 200:
        remedy = "correct [backend] base_url"
        return [failed("endpoint", f"{shown} answers with {status}", remedy)]
    listed = _listed(body)
    if listed is None:
        remedy = "check that base_url is the server's API; it often ends in /v1"
        return [warned("endpoint", f"{shown} answers with no list of models", remedy)]
    return [passed("endpoint", shown), *_of_models(models, listed)]


def _of_models(models: Collection[str], listed: Collection[str]) -> Iterator[CheckResult]:
    for model in dict.fromkeys(models):
        if model in listed:
            yield passed("model", model)
            continue
        near = difflib.get_close_matches(model, listed, n=_SHOWN_MODELS, cutoff=0.4)
        some = ", ".join(near or sorted(listed)[:_SHOWN_MODELS]) or "none"
        remedy = f"check its spelling; it lists {some}"
        yield warned("model", f"the server does not list {model}", remedy)


def _listed(body: bytes) -> set[str] | None:
    try:
        document = parse_foreign(body)
    except ValueError:
        return None
    entries = document.get("data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return None
    names = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return {name for name in names if isinstance(name, str)}
