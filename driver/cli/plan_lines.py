"""Describes a dry run for people: the items with files and test, and the items left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from driver.terminal.color import BOLD, DIM, paint
from driver.terminal.safe_text import counted, safe_line

_MOST_LEFT_OUT = 20


def plan_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines for the report of a dry run: agent, items with files and test, items left out."""
    items = (report.get("manifest") or {}).get("items") or ()
    if not items:
        return
    yield safe_line(f"agent: {report.get('backend')}")
    yield f"would build {counted(len(items), 'item')}:"
    prompts = report.get("prompts") or {}
    for item in items:
        owned = item.get("ownsFiles") or ()
        test = item.get("testCmd")
        shown = " ".join(map(str, test)) if isinstance(test, list) else str(test)
        name = f"{item.get('id', '')} {item['slug']}".strip()
        yield f"  {paint(safe_line(name), BOLD)}  {safe_line(str(item.get('title') or ''))}"
        yield safe_line(f"      files: {', '.join(map(str, owned))}")
        yield safe_line(f"      test:  {shown}")
        if prompt := prompts.get(item["slug"]):
            size = f"{counted(len(prompt), 'character')}; --json shows it"
            yield paint(f"      prompt: {size}", DIM)
    skipped = report.get("items_skipped") or ()
    if skipped:
        yield "not now:"
    for one in skipped[:_MOST_LEFT_OUT]:
        yield safe_line(f"  {one['id']}: {one.get('detail') or one['reason']}")
    if len(skipped) > _MOST_LEFT_OUT:
        yield f"  and {len(skipped) - _MOST_LEFT_OUT} more"
