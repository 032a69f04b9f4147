"""The values that the settings of a run hide."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, MissingFileError, read_bytes
from state_store.redaction.installed import hide
from tools.secret_rules.hidden_values import hidden_values
from tools.settings.load import Settings, load

_MAX_BYTES = 2**20


def secret_values(settings: Settings) -> dict[str, str]:
    """The values to hide in a run: of the environment, and of the files that `[secrets]` lists.
    Raises InputError for a file that cannot be read."""
    backends = filter(None, (settings.backend, settings.review_backend))
    keys = [backend.api_key_env for backend in backends if backend.api_key_env]
    environ = dict(settings.environ)
    if settings.notify.webhook:
        environ["[notify] webhook"] = settings.notify.webhook
    if password := _password_of(settings.state.url):
        environ["the password in [state] url"] = password
    texts = {path.name: _text(path) for path in settings.secrets.files}
    return hidden_values(environ, [*keys, *settings.secrets.variables], texts)


def _password_of(url: str | None) -> str:
    """The password in a url as it is written there and meant."""
    login = (url or "").partition("://")[2].partition("/")[0].rpartition("@")[0]
    return unquote(login.partition(":")[2])


def _text(path: Path) -> str:
    try:
        return read_bytes(path, _MAX_BYTES).decode("utf-8", "replace")
    except MissingFileError:
        return ""
    except BadFileError as error:
        remedy = "allow it to be read, or take it out of the list"
        raise InputError(f"[secrets] files: {error}; {remedy}") from error


def hide_configured() -> None:
    """Hides the values that the settings of the current folder add, in a program that needs no
    other setting. Faults of the settings are for other programs."""
    with suppress(InputError):
        hide(secret_values(load()))
