"""The summary of a run for its user: shipped items, branches and saved work.

Pure: all facts come from the JSON report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.backlog.selection import NOT_ASKED_FOR, PATIENT, WAITS_FOR_ITS_TIME
from driver.domain.refusals import last_remedy
from driver.domain.wall_hints import hint_in
from driver.filesystem.kept_output import file_to_read
from driver.reports import words
from driver.reports.documents import wave_of
from driver.reports.overview import overview
from driver.reports.table import table_lines
from driver.scheduler.report import INTAKE
from driver.terminal.commands import program_command
from driver.terminal.safe_text import counted, describe_verdict, typed, without_remedy
from state_store.documents.errors import ExitCode
from state_store.documents.item_status import BLOCKED

Json = Mapping[str, Any]
PAGE = "report.html"
_MOST_NAMED = 10
_RECOVER = Path(__file__).parents[2] / "tools" / "recover.py"


def summary_lines(report: Json) -> tuple[str, ...]:
    """Returns the lines for the report of a wave or a cycle. Empty if there was nothing to do."""
    wave = wave_of(report)
    built: Sequence[Json] = wave.get("built") or ()
    requests = [
        f"pull request of {one['branch']}: {made['url'] or 'made'} ({made['state']})"
        if (made := one["pr"]) is not None
        else f"no pull request of {one['branch'] or 'earlier shipments'}: {one['prError']}"
        for one in wave.get("pull_requests") or ()
    ]
    if not built:
        return (*left_out(report), *requests, *_dry(report), *_idle(report))
    shipped = wave.get("shipped")
    open_items = [record for record in built if record["slug"] not in (shipped or ())]
    items = counted(len(built), "item")
    count = f"shipped {len(shipped or ())} of {items}"
    if shipped is None:
        verified = sum(bool(record["verified"]) for record in built)
        count = f"verified {verified} of {items}; nothing ships without --git or with mode none"
    return (
        count,
        *_walls(wave),
        *_unshipped(open_items),
        *left_out(report),
        *_evidence(wave),
        *_risks(report),
        *_warnings(report),
        *(line for repo in wave.get("shipped_repos") or () for line in _shipment(repo)),
        *requests,
        *_next(wave),
    )


def _walls(wave: Json) -> Iterator[str]:
    """Yields the level that the wave had, and the network in it."""
    if told := words.sandbox(wave.get("sandbox")):
        yield f"sandbox {told}; network: {words.networks(wave['sandbox'])}"


def _dry(report: Json) -> Iterator[str]:
    """Yields the lines of a dry run. Other runs without work print nothing."""
    if not report.get("dry_run") or "items_selected" not in report or report.get("error"):
        return
    selected = [str(one) for one in report["items_selected"]]
    if selected:
        yield f"dry run: --execute would build {', '.join(selected)}"
    else:
        yield "dry run: nothing to do now; a wave takes items with the status todo"


def _idle(report: Json) -> Iterator[str]:
    """Yields the reason why a cycle took no item, if its skipped items do not tell it: what the
    tracker has instead of open items, and how to open them."""
    counts = report.get("items_skipped_counts") or {}
    if set(counts) == {NOT_ASKED_FOR} and not report.get("items_selected"):
        yield f"nothing to do: none of {counted(counts[NOT_ASKED_FOR], 'open item')} was asked for"
    if "tracker_statuses" not in report or report.get("error"):
        return
    named: Mapping[str, int] = report["tracker_statuses"]
    there = ", ".join(f"{count} {status}" for status, count in named.items()) or "none"
    yield f"nothing to do: no item of the tracker has the status todo (there are: {there})"
    if named.get(BLOCKED):
        yield "a blocked item says in its notes why; to try it again, set its status to todo"


def _warnings(report: Json) -> Iterator[str]:
    """Yields errors of records, which do not change the exit code."""
    wave = wave_of(report)
    if trouble := wave.get("journal_error"):
        yield f"a record of this run is incomplete: {trouble}"
    warnings = (report.get("audit_warning"), (report.get("checkpoint") or {}).get("warning"))
    yield from filter(None, warnings)


def _unshipped(records: Sequence[Json]) -> Iterator[str]:
    """Yields a line for each item that did not ship, and one for all with the same reason."""
    alike: dict[str, list[Json]] = {}
    for record in records:
        alike.setdefault(_why_not(record), []).append(record)
    for why, found in alike.items():
        yield f"{_named([one['slug'] for one in found])}: {why}{_kept_work(found)}"


def _why_not(record: Json) -> str:
    reasons = (record.get(key) for key in ("ship_error", "error", "ship_warning"))
    line = describe_verdict(record["verdict"], without_remedy(next(filter(None, reasons), "")))
    test: Json = ((record.get("attempts") or [{}])[-1] or {}).get("test") or {}
    if record["verdict"] == "failed" and test.get("kind") == "red" and test.get("outputFile"):
        line += f"; its output: {file_to_read(test['outputFile'])}"
        line += f"; {hint}" if (hint := hint_in(record.get("remedy"))) else ""
    elif remedy := last_remedy(record.get("remedy"), record.get("ship_error")):
        line += f"; to do: {remedy}"
    return line


def _kept_work(records: Sequence[Json]) -> str:
    """The place of the work that did not ship; of several items that of the first."""
    saved = [str(record["savedWork"]) for record in records if record.get("savedWork")]
    if saved and len(records) > 1:
        return f"; work of {len(saved)} of them is kept, the first: {saved[0]}"
    if saved:
        return f"; its work: {saved[0]}"
    in_place = any(
        one.get("isolation") == "in_place" and one.get("filesWritten") for one in records
    )
    return f"; {'their' if len(records) > 1 else 'its'} work is in place" if in_place else ""


def _named(slugs: Sequence[str]) -> str:
    """The slugs, the first ones if they are many."""
    rest = len(slugs) - _MOST_NAMED
    return ", ".join(slugs[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _evidence(wave: Json) -> Iterator[str]:
    """Yields the items to read first, those with the same reason in one line, and each doubt that
    belongs to the project."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in wave.get("read_first") or ():
        alike.setdefault((one["grade"], "; ".join(one["why"])), []).append(one["slug"])
    for (grade, why), slugs in alike.items():
        yield f"read first: {_named(slugs)} (grade {grade}): {why}"
    for doubt in wave.get("project_doubts") or ():
        items, several = counted(len(doubt["items"]), "item"), len(doubt["items"]) > 1
        whose = f"{items}, no fault of {'their' if several else 'its'} own"
        remedy = f": {doubt['remedy']}" if doubt["remedy"] else ""
        yield f"on the base as well ({whose}): {doubt['reason']}{remedy}"


def _risks(report: Json) -> Iterator[str]:
    """Yields the items to read first for another reason than their grade."""
    told = {one["slug"] for one in wave_of(report).get("read_first") or ()}
    risky = [pair for pair in overview(report).to_read_first() if pair[0].slug not in told]
    for item, why in risky[:_MOST_NAMED]:
        yield f"read first: {item.slug}: {'; '.join(why)}"
    if more := len(risky) - _MOST_NAMED:
        yield from [f"read first: {counted(more, 'more item')}"] if more > 0 else []


def table(report: Json, width: int | None = None) -> Iterator[tuple[str, str]]:
    """Yields the lines of the table of a wave's items, each with its color."""
    yield from table_lines(overview(report), width)


def page_line(report: Json) -> Iterator[str]:
    """Yields the place of the page with everything."""
    if folder := run_folder(wave_of(report)):
        yield f"report: {folder / PAGE}"


def run_folder(wave: Json) -> Path | None:
    """The folder of a wave, as its items' lines name it."""
    details = next((one["details"] for one in wave.get("built") or () if one.get("details")), None)
    return Path(details).parents[1] if details else None


def next_command(wave: Json) -> str:
    """The command that shows the shipped branch, else the first saved work; "" if there is none."""
    for repo in wave.get("shipped_repos") or ():
        if repo.get("branch") and repo.get("sha"):
            return _look(repo)
    folder = run_folder(wave)
    kept = next((one["slug"] for one in wave.get("built") or () if one.get("savedWork")), None)
    if folder is None or kept is None or wave.get("aborted"):
        return ""
    state = ("--state-dir", folder.parents[1])
    words = typed("show", f"{wave['wave_id']}/{kept}", *state)
    return f"{program_command('recover', _RECOVER)} {words}"


def _next(wave: Json) -> Iterator[str]:
    """Yields the command that shows saved work, if no branch is shown."""
    shown = any(repo.get("branch") and repo.get("sha") for repo in wave.get("shipped_repos") or ())
    if not shown and (command := next_command(wave)):
        yield f"next: {command}"


def left_out(report: Json) -> Iterator[str]:
    """Yields each invalid item, and the number of waiting items."""
    skipped: Sequence[Json] = report.get("items_skipped") or ()
    skipped = [one for one in skipped if one["reason"] != NOT_ASKED_FOR]
    broken = [one for one in skipped if one["reason"] not in PATIENT]
    in_backoff = [one for one in skipped if one["reason"] == WAITS_FOR_ITS_TIME]
    counts = report.get("items_skipped_counts") or Counter(one["reason"] for one in skipped)
    if report.get("phase") == INTAKE and report.get("exit_code") == ExitCode.BAD_INPUT:
        return  # all are broken, and `error` says so
    for one in broken:
        yield f"item {one['id']} is left out: {one.get('detail') or one['reason']}"
    if more := sum(n for why, n in counts.items() if why not in PATIENT) - len(broken):
        yield f"left out for the same reasons: {counted(more, 'more item')}"
    if in_backoff:
        first = min(in_backoff, key=lambda one: str(one.get("detail")))
        number = counts[WAITS_FOR_ITS_TIME]
        yield f"waiting for another attempt: {number}; {first['id']} {first['detail']}"
    not_now = PATIENT - {NOT_ASKED_FOR, WAITS_FOR_ITS_TIME}
    if waiting := sum(n for why, n in counts.items() if why in not_now):
        yield f"left for a later wave: {waiting}"


def _shipment(repo: Json) -> Iterator[str]:
    branch, warning = repo.get("branch"), repo.get("warning")
    if not branch or not repo.get("sha"):
        return
    parts = ["pushed" if repo.get("pushed") else "", warning or ""]
    state = "; ".join(filter(None, parts)) or "in this repository only"
    if repo.get("error"):
        state = "kept, not shipped"
    yield f"branch {branch}: {state}"
    yield f"look: {_look(repo)}"


def _look(repo: Json) -> str:
    # Not HEAD: the checkout may be moved ahead, or be on another branch than the target.
    since = (repo.get("onto") or "HEAD")[:12]
    return typed("git", "-C", repo["repo"], "log", "--stat", f"{since}..{repo['branch']}")
