"""Audit rules: findings about past waves that the user should know of. Pure.

Input are views of the store and the report of the newest wave. Two findings are the same one if
they have the same kind and subject.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

from driver.domain.results import RunKind, Verdict
from driver.terminal.safe_text import bounded, counted, safe_line
from state_store.documents.item_id import id_of
from state_store.documents.item_status import BLOCKED, CLAIMED, PROPOSED, TODO
from state_store.values.lazy_dataclass import dataclass
from state_store.views.findings import PREFIX

View = Mapping[str, Any]

FLAKY_TEST = "flaky_test"
FAILING_ITEM = "failing_item"
REFUSED_CHANGE = "refused_change"
SLOW_BACKEND = "slow_backend"
UNMETERED_BACKEND = "unmetered_backend"
RED_BASELINE = "red_baseline"
STALE_CLAIM = "stale_claim"


_UNDONE = (TODO, CLAIMED, BLOCKED)
_TOO_OFTEN = 3
_SLOWER, _SLOWER_S = 2.0, 30.0
_FEW_NOW, _FEW_BEFORE = 2, 4  # dispatches of which a median means something
_NO_ANSWER = (RunKind.TIMED_OUT, RunKind.KILLED, RunKind.COULD_NOT_RUN)
# Verdicts of dispatches that used nothing, or were cut off before they could report their usage.
_NO_BILL = (Verdict.HALTED, Verdict.OVER_BUDGET, Verdict.UNDECIDED, Verdict.LEASED_ELSEWHERE)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Past:
    """The input of an audit: views of the newest waves, the last one last, the traces of their
    agents, the tracker's items with attempts, resources of expired leases, and commands that were
    red without any item's work. `find` gives the tracker's items with a slug."""

    waves: Sequence[View] = ()
    traces: Sequence[View] = ()
    items: Sequence[View] = ()
    lapsed: Sequence[str] = ()
    red_alone: Sequence[str] = ()
    find: Callable[[str], Iterable[View]] = lambda _: ()

    @property
    def newest(self) -> str:
        """The id of the last wave, "" when there was none."""
        return str(self.waves[-1]["wave_id"]) if self.waves else ""

    def id_of(self, slug: str) -> str:
        """The item's id in the tracker, else its slug."""
        known = (item for item in self.items if item.get("slug") == slug)
        named = (id_of(item) for item in chain(known, self.find(slug)))
        return next((name for name in named if name is not None), slug)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact that the user should know of; `text` is a sentence on one line."""

    kind: str
    subject: str
    text: str

    @property
    def id(self) -> str:
        """A name from kind and subject alone, so a later audit names the same finding alike."""
        key = f"{self.kind}\0{self.subject}".encode("utf-8", "surrogateescape")
        return f"{PREFIX}{hashlib.sha256(key).hexdigest()[:10]}"

    def to_json(self, wave_id: str) -> dict[str, str]:
        """The shape in events and reports; `wave_id` is the wave it was seen after."""
        subject, text = _line(self.subject), _line(self.text)
        return {"id": self.id, "kind": self.kind, "subject": subject, "text": text, "wave": wave_id}

    def as_item(self, created: str) -> dict[str, Any]:
        """The tracker item that proposes a repair; no wave runs it as it is."""
        return {
            "id": self.id,
            "slug": self.id,
            "title": _line(_TITLES[self.kind].format(_line(self.subject))),
            "status": PROPOSED,
            "priority": "P3",
            "createdAt": created,
            "source": "audit",
            "notes": _line(self.text),
        }


_TITLES = {
    FLAKY_TEST: "Make a test give one answer: {}",
    FAILING_ITEM: "Decide what to do with an item that keeps failing: {}",
    REFUSED_CHANGE: "Look at why the work of an item was refused: {}",
    SLOW_BACKEND: "Find out why a backend became slow: {}",
    UNMETERED_BACKEND: "Have a backend tell what it uses: {}",
    RED_BASELINE: "Make a test usable on the base: {}",
    STALE_CLAIM: "Look after a run that never gave its item back: {}",
}


def audit(past: Past) -> dict[str, Finding]:
    """All findings by id; of the same kind and subject the first."""
    found: dict[str, Finding] = {}
    for look in _LOOKS:
        for finding in look(past):
            found.setdefault(finding.id, finding)
    return found


def red_alone(report: View) -> tuple[str, ...]:
    """The commands that were red without the work of any item of the wave."""
    records = (record for record in report.get("built") or () if isinstance(record, Mapping))
    undecided = (r for r in records if r.get("verdict") == Verdict.UNDECIDED)
    runs = (run for record in undecided for run in record.get("together") or ())
    return tuple(dict.fromkeys(str(r["command"]) for r in runs if r.get("kind") == RunKind.RED))


def _flaky_tests(past: Past) -> Iterator[Finding]:
    for wave, item in _newest_first(past):
        attempts = [a for a in item["attempts"] if (a.get("evidence") or {}).get("flaky")]
        if attempts or _verdict(item) == Verdict.FLAKY:
            test = _command(item)
            named = f"the test `{test}`" if test else "the test"
            yield Finding(
                FLAKY_TEST,
                test or past.id_of(item["slug"]),
                f"{named} of {past.id_of(item['slug'])} gave different answers for one tree"
                f" in wave {wave['wave_id']}{_why(item)}",
            )


def _failing_items(past: Past) -> Iterator[Finding]:
    for item in past.items:
        attempts, why = item.get("attempts"), item.get("lastError")
        if item.get("status") not in _UNDONE or not isinstance(attempts, int) or not why:
            continue
        if attempts >= _TOO_OFTEN and (name := id_of(item)) is not None:
            text = f"item {name} failed in {counted(attempts, 'wave')} and is not done: {why}"
            yield Finding(FAILING_ITEM, name, text)


def _refused_changes(past: Past) -> Iterator[Finding]:
    seen: set[str] = set()
    for wave, item in _newest_first(past):
        is_newest = item["slug"] not in seen and _verdict(item) is not None
        seen.add(item["slug"] if is_newest else "")
        if is_newest and _verdict(item) == Verdict.REFUSED:
            name = past.id_of(item["slug"])
            text = f"the work on {name} was refused in wave {wave['wave_id']}{_why(item)}"
            yield Finding(REFUSED_CHANGE, name, text)


def _slow_backends(past: Past) -> Iterator[Finding]:
    for backend, traces in _by_backend(past).items():
        now = [t["duration_s"] for t in traces if t["wave"] == past.newest]
        before = [t["duration_s"] for t in traces if t["wave"] != past.newest]
        if len(now) < _FEW_NOW or len(before) < _FEW_BEFORE:
            continue
        new, old = median(now), median(before)
        if new >= _SLOWER * old and new - old >= _SLOWER_S:
            text = f"{backend} took {new:.0f} s for a dispatch in wave {past.newest}, {old:.0f} s"
            yield Finding(SLOW_BACKEND, backend, f"{text} in those before it (medians)")


def _unmetered_backends(past: Past) -> Iterator[Finding]:
    for backend, traces in _by_backend(past).items():
        waves = [trace["wave"] for trace in traces]
        last = [trace for trace in traces if trace["wave"] == waves[-1]]
        silent = sum(trace["tokens"] is None for trace in last)
        if silent:
            text = f"{backend} did not tell the tokens of {silent} of its {len(last)} dispatches"
            text += f" in wave {last[-1]['wave']}: ceilings count what was reserved for them"
            yield Finding(UNMETERED_BACKEND, backend, text)


def _red_baselines(past: Past) -> Iterator[Finding]:
    for command in past.red_alone:
        text = f"`{command}` is red beside no item: nothing that it has to pass can ship"
        yield Finding(RED_BASELINE, command, text)
    if past.waves:
        yield from _unusable_bases(past.waves[-1])


def _unusable_bases(wave: View) -> Iterator[Finding]:
    """Tests of the newest wave with no result on the base, or red there for several items, so that
    it cannot be the fault that each of them is to repair."""
    red: dict[str, list[str]] = {}
    for item in wave["items"]:
        command, kind = _command(item), _evidence(item).get("baseline")
        if command and kind in _NO_ANSWER:
            text = f"the test `{command}` has no answer on the base: {str(kind).replace('_', ' ')}"
            yield Finding(RED_BASELINE, command, text)
        elif command and kind == RunKind.RED:
            red.setdefault(command, []).append(item["slug"])
    for command, slugs in red.items():
        if len(slugs) > 1:
            text = f"the test `{command}` is red on the base for each of {', '.join(slugs)}"
            yield Finding(RED_BASELINE, command, text)


def _stale_claims(past: Past) -> Iterator[Finding]:
    for resource in past.lapsed:
        text = f"the lease on {resource} ran out, and the run that held it never gave it back"
        yield Finding(STALE_CLAIM, resource, text)


_LOOKS: tuple[Callable[[Past], Iterable[Finding]], ...] = (
    _flaky_tests,
    _failing_items,
    _refused_changes,
    _slow_backends,
    _unmetered_backends,
    _red_baselines,
    _stale_claims,
)


def _newest_first(past: Past) -> Iterator[tuple[View, View]]:
    return ((wave, item) for wave in reversed(past.waves) for item in wave["items"])


def _by_backend(past: Past) -> dict[str, list[View]]:
    """The dispatches that ended by themselves, of each backend and model."""
    found: dict[str, list[View]] = {}
    for trace in past.traces:
        ended = trace["ended"] is not None and trace["duration_s"] is not None
        if ended and trace["backend"] and trace["verdict"] not in _NO_BILL:
            model = f" ({trace['model']})" if trace["model"] else ""
            found.setdefault(f"{trace['backend']}{model}", []).append(trace)
    return found


def _verdict(item: View) -> Any:
    """The final verdict of an item; a shipped one counts as verified."""
    if item["phase"] == "shipped":
        return Verdict.VERIFIED
    judged = [attempt["verdict"] for attempt in item["attempts"] if attempt.get("verdict")]
    return item["verdict"] or (judged[-1] if judged else None)


def _why(item: View) -> str:
    reasons = [item["reason"], *(a.get("reason") for a in reversed(item["attempts"]))]
    why = next(filter(None, reasons), None)
    return f": {why}" if why else ""


def _evidence(item: View) -> View:
    found = [a["evidence"] for a in item["attempts"] if isinstance(a.get("evidence"), Mapping)]
    return found[-1] if found else {}


def _command(item: View) -> str:
    receipts = _evidence(item).get("receipts") or ()
    return next((str(r["command"]) for r in receipts if r.get("command")), "")


def _line(text: str) -> str:
    return bounded(safe_line(" ".join(text.split())), _LONGEST).replace("\n", " ")
