"""The results of a wave as JUnit XML: a test case for each item. Pure."""

from __future__ import annotations

from collections import Counter

from driver.reports.overview import FAULTS, Item, Overview
from driver.terminal.safe_text import xml_text

_FAILED = FAULTS | {"no change"}
_NOT_TRIED = frozenset(
    {"halted", "over budget", "leased elsewhere", "shipped elsewhere", "withdrawn", "already green"}
)


def junit(view: Overview) -> str:
    """The document. An item fails if its work is at fault, is skipped if it was not tried, and is
    an error if it could not be decided or shipped."""
    kinds = Counter(_kind(item) for item in view.items)
    sums = (
        f'tests="{len(view.items)}" failures="{kinds["failure"]}" errors="{kinds["error"]}"'
        f' skipped="{kinds["skipped"]}" time="{view.duration_s or 0:.3f}"'
    )
    name = xml_text(view.wave_id)
    stamp = f' timestamp="{xml_text(view.ended_at[:19])}"' if view.ended_at else ""
    cases = "".join(map(_case, view.items))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="tidegate" {sums}>\n'
        f'<testsuite name="{name}" {sums}{stamp}>\n{cases}</testsuite>\n</testsuites>\n'
    )


def _kind(item: Item) -> str:
    """The element of an item that is not done; "" for a proven one, unless its ship failed."""
    if item.is_good and not (item.record.get("ship_error") and not item.is_shipped):
        return ""
    if item.outcome in _FAILED:
        return "failure"
    return "skipped" if item.outcome in _NOT_TRIED else "error"


def _case(item: Item) -> str:
    """A test case; its text is the reason with the remedy."""
    head = (
        f'<testcase classname="tidegate" name="{xml_text(item.slug)}"'
        f' time="{item.duration_s or 0:.3f}"'
    )
    kind = _kind(item)
    if not kind:
        return f"{head}/>\n"
    remedy = f"\nWhat to do: {item.remedy}" if item.remedy else ""
    type_of = "" if kind == "skipped" else f' type="{xml_text(item.outcome)}"'
    return (
        f'{head}>\n<{kind} message="{xml_text(item.reason or item.outcome)}"{type_of}>'
        f"{xml_text(item.reason + remedy)}</{kind}>\n</testcase>\n"
    )
