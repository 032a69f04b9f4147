"""What a model server's list of models says of address, key and model.

The list costs nothing and is asked of the configured address alone. `judge_models` is pure.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping

from driver.completions.endpoint import endpoint
from driver.completions.http_exchange import Exchange, Watch
from driver.completions.provider_reply import HttpAnswer, TransportError
from driver.completions.server import LOCAL_KEY, Server, request_of
from driver.terminal.check_result import Check, failed, failed_as, passed, warned

_NO_LIST = (404, 405, 501)
_SHOWN_MODELS = 3
_TIMEOUT_S = 10.0


def examine_server(
    server: Server, environ: Mapping[str, str], models: Collection[str]
) -> tuple[Check, ...]:
    """Whether the server can be asked, answers, takes the key and knows `models`."""
    if (problem := server.problem(environ)) is not None:
        return (failed_as("key" if _can_be_asked(server) else "endpoint", problem),)
    try:
        answer = _models_of(server, environ)
    except TransportError as error:
        remedy = "see that the server runs and [backend] base_url is its address"
        return (failed("endpoint", str(error), remedy),)
    shown = endpoint(server.base_url).shown
    return tuple(judge_models(shown, answer.status, answer.body, models))


def _can_be_asked(server: Server) -> bool:
    try:
        endpoint(server.base_url)
    except ValueError:
        return False
    return True


def _models_of(server: Server, environ: Mapping[str, str]) -> HttpAnswer:
    request = request_of(server, "models", server.key(environ) or LOCAL_KEY)
    proxy = server.proxy(environ)
    return Exchange(request, Watch(_TIMEOUT_S), proxy=proxy, follow=False).run()


def judge_models(shown: str, status: int, body: bytes, models: Collection[str]) -> list[Check]:
    """The checks of a server called `shown` that answered so when asked for its models."""
    if status in (401, 403):
        remedy = "set the variable of [backend] api_key_env to a key of this server"
        return [passed("endpoint", shown), failed("key", f"refused with {status}", remedy)]
    if status in _NO_LIST:
        remedy = "see that base_url is what the server's documents say; it often ends in /v1"
        return [warned("endpoint", f"{shown} does not list its models ({status})", remedy)]
    if status == 429 or status >= 500:
        remedy = "try again later; a wave would wait for it"
        return [warned("endpoint", f"{shown} answers, but with {status}", remedy)]
    if status != 200:
        remedy = "correct [backend] base_url"
        return [failed("endpoint", f"{shown} answers with {status}", remedy)]
    listed = _listed(body)
    if listed is None:
        remedy = "see that base_url leads to the server's API; it often ends in /v1"
        return [warned("endpoint", f"{shown} answers with no list of models", remedy)]
    return [passed("endpoint", shown), *_of_models(models, listed)]


def _of_models(models: Collection[str], listed: Collection[str]) -> Iterator[Check]:
    for model in dict.fromkeys(models):
        if model in listed:
            yield passed("model", model)
            continue
        near = difflib.get_close_matches(model, listed, n=_SHOWN_MODELS, cutoff=0.4)
        some = ", ".join(near or sorted(listed)[:_SHOWN_MODELS]) or "none"
        remedy = f"see that it is spelled as the server wants it; it lists {some}"
        yield warned("model", f"the server does not list {model}", remedy)


def _listed(body: bytes) -> set[str] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    entries = document.get("data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return None
    names = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return {name for name in names if isinstance(name, str)}
