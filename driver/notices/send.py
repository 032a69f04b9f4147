"""Sends the notice of a wave. A failed notice changes nothing; a line says so."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from driver.backends.http.endpoint import is_loopback
from driver.backends.http.exchange import Exchange, Watch
from driver.backends.http.reply import TransportError
from driver.execution.processes import Command, Ending, Processes, child_environment
from driver.limits.admission import HALT, PARKED, GateClosedError
from driver.notices import notice
from driver.run_state.context import Wave
from driver.terminal.safe_text import without_remedy
from state_store.documents.errors import TidegateError
from state_store.redaction.installed import redacted_value
from state_store.views.wave_progress import WaveProgress, read_progress
from tools.secret_rules.known_values import scan_known_values, secrets_of
from tools.settings.load import Settings

_AFTER_A_SIGNAL_S = 2.0
_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
_HIDDEN = "left out: it holds a secret"
_WORDS = {HALT: notice.HALTED, PARKED: notice.PARKED}
Say = Callable[[str], None]


def notify(wave: Wave) -> None:
    """Tell the user's program and webhook that the wave is over."""
    limit_s, say = wave.settings.notify.timeout_s, wave.recorder.say
    try:
        facts = _facts(wave)
    except TidegateError as error:
        say(f"no notice was sent: {error}")
        return
    if wave.gates.stop.signal_number is not None:
        limit_s = min(limit_s, _AFTER_A_SIGNAL_S)
    _send(facts, wave.settings, wave.state_dir, limit_s, say)


def notify_closed(
    wave_id: str, closed: GateClosedError, settings: Settings, folder: Path, say: Say
) -> None:
    """Tell that the halt switch or a parked backend has kept a wave from beginning."""
    wanted = settings.notify.command or settings.notify.webhook
    if not wanted or closed.gate not in _WORDS:
        return
    why = without_remedy(str(closed))
    facts = notice.facts_of(WaveProgress(wave_id), _WORDS[closed.gate], why, ())
    _send(facts, settings, folder, settings.notify.timeout_s, say)


def _send(
    facts: Mapping[str, Any], settings: Settings, folder: Path, limit_s: float, say: Say
) -> None:
    """Send the notice everywhere without secrets, and say each failure."""
    facts = without_secrets(redacted_value(facts), settings.environ)
    receivers: tuple[Callable[[], str], ...] = (
        lambda: _run(facts, settings, folder, limit_s),
        lambda: _post(facts, settings, limit_s),
    )
    for problem in filter(None, (send() for send in receivers)):
        say(f"a notice was not sent: {problem}")


def without_secrets(facts: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The facts without the texts that hold a secret value of the environment."""
    secrets = secrets_of(environ)

    def holds(value: Any) -> bool:
        return bool(scan_known_values(json.dumps(value).encode(), secrets))

    if not holds(facts):
        return dict(facts)
    kept = {key: _HIDDEN if holds(value) else value for key, value in facts.items()}
    verdicts = facts["verdicts"] if kept["verdicts"] is not _HIDDEN else {}
    kept = {**kept, "verdicts": verdicts}
    return {**kept, "text": notice.text_of(kept)}


def _facts(wave: Wave) -> dict[str, Any]:
    progress = read_progress(wave.recorder.store, wave.wave_id)
    branches = dict.fromkeys(item.branch for item in progress.items.values() if item.shipped)
    cause = wave.gates.stop.cause or wave.gates.closed
    word = notice.ENDED if cause is None else notice.STOPPED
    if isinstance(cause, GateClosedError):
        word = _WORDS.get(cause.gate, word)
    reason = without_remedy(str(cause)) if cause is not None else None
    return notice.facts_of(progress, word, reason, tuple(filter(None, branches)))


def _run(facts: Mapping[str, Any], settings: Settings, folder: Path, limit_s: float) -> str:
    if not (argv := settings.notify.command):
        return ""
    names = {"TIDEGATE_EVENT": str(facts["event"]), "TIDEGATE_WAVE": str(facts["wave"])}
    env = child_environment(settings.environ, settings.notify.env, names)
    text = json.dumps(facts).encode("ascii")
    done = Processes().run(Command(argv, folder, env, limit_s, stdin=text, grace_s=0.5))
    if done.ending is Ending.EXITED and done.exit_code == 0:
        return ""
    what = f"exit {done.exit_code}" if done.ending is Ending.EXITED else done.reason
    return f"[notify] command: {what}"


def _post(facts: Mapping[str, Any], settings: Settings, limit_s: float) -> str:
    """The address may be a secret as a whole, so only its host is shown."""
    if not (address := settings.notify.webhook):
        return ""
    parts = urlsplit(address)
    host, environ = parts.hostname or "", settings.environ
    if parts.scheme != "https" and not is_loopback(host):
        return "[notify] webhook: http is for this machine only; use https"
    proxies = (environ.get(name) for name in _PROXIES)
    proxy = None if is_loopback(host) else next(filter(None, proxies), None)
    body = notice.payload(settings.notify.template, facts)
    headers = {"Content-Type": "application/json", "User-Agent": "tidegate"}
    request = urllib.request.Request(address, body, headers, method="POST")
    try:
        answer = Exchange(request, Watch(limit_s), proxy=proxy, follow=False).run()
    except (TransportError, ValueError) as error:
        why = str(error).replace(address, "...")
        return f"[notify] webhook of {host}: {why}"
    if 200 <= answer.status < 300:
        return ""
    return f"[notify] webhook of {host}: it answered with HTTP {answer.status}"
