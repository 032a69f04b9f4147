"""The text and the facts of a notice. Pure.

A notice has no text of an agent or a test: names of items, verdicts, sums, and why a wave stopped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from driver.terminal.amounts import duration, known_cost, tokens
from driver.terminal.safe_text import counted, safe_line
from state_store.documents.strict_json import parse
from state_store.views.wave_progress import WaveProgress

ENDED, HALTED, PARKED, STOPPED = "ended", "halted", "parked", "stopped"
_MOST_NAMED = 10
_MOST_OF_A_REASON = 300
# The signs with which chat programs begin a link or a call to everybody.
_CALLS = str.maketrans({"<": "(", ">": ")", "&": "+", "@": "(at)"})
_PLACE = re.compile(r"\{([a-z_]+)\}")


def facts_of(
    progress: WaveProgress, event: str, reason: str | None, branches: tuple[str, ...]
) -> dict[str, Any]:
    """The facts of a wave that is over, with its text for people."""
    items = progress.items.values()
    began, ended = progress.started or 0.0, progress.finished or progress.started or 0.0
    facts: dict[str, Any] = {
        "schema": "tidegate/notice/1",
        "event": event,
        "wave": progress.wave_id,
        "reason": plain(reason or "")[:_MOST_OF_A_REASON],
        "items": len(items),
        "shipped": sum(item.shipped for item in items),
        "cost_usd": progress.cost_usd,
        "tokens": progress.tokens,
        "lower_bound": progress.is_lower_bound,
        "duration_s": round(ended - began, 1),
        "branch": ", ".join(map(plain, branches)),
        "verdicts": {plain(item.slug): item.phase for item in items},
    }
    return {**facts, "text": text_of(facts)}


def text_of(facts: Mapping[str, Any]) -> str:
    """The notice in a few sentences."""
    reason = f": {facts['reason']}" if facts["reason"] else ""
    parts = [f"tidegate: wave {facts['wave'][:8]} {facts['event']}{reason}"]
    parts.append(f"shipped {facts['shipped']} of {counted(facts['items'], 'item')}")
    if facts["branch"]:
        parts.append(f"branch {facts['branch']}")
    left = [f"{slug} {word}" for slug, word in facts["verdicts"].items() if word != "shipped"]
    if left:
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        parts.append(f"not shipped: {', '.join(left[:_MOST_NAMED])}{more}")
    return "; ".join([*parts, _use(facts), duration(facts["duration_s"])])


def _use(facts: Mapping[str, Any]) -> str:
    """Cost and tokens; an unknown amount is never zero."""
    is_least, used = facts["lower_bound"], facts["tokens"]
    count = f"{'at least ' if is_least else ''}{tokens(used)} tokens"
    count = "tokens unknown" if is_least and not used else count
    return f"{known_cost(facts['cost_usd'], is_least=is_least)}, {count}"


def payload(template: str, facts: Mapping[str, Any]) -> bytes:
    """The JSON of the template, with `{name}` in its texts replaced by the fact of this name."""
    return json.dumps(_filled(parse(template), facts)).encode("ascii")


def plain(text: str) -> str:
    """The text without control characters and without calls and links of chat programs."""
    return safe_line(text).translate(_CALLS)


def _filled(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, facts) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, facts) for one in value]
    if not isinstance(value, str):
        return value
    return _PLACE.sub(lambda found: str(facts.get(found.group(1), found.group())), value)
