"""The outputs and the change of an item, as text that is safe to show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.filesystem.safe_file_access import read_plain_end
from driver.live.outputs import outputs
from driver.live_page.feed import Feed
from driver.reports.diffs import diffs
from driver.terminal.safe_text import safe_text
from driver.workspace.saved_patch import WORK
from state_store.documents.journal import stored_slug
from state_store.views.item_progress import ItemProgress

_MOST_BYTES = 65_536
_MOST_FILES = 200
_SIDE_RUNS = ("canary", "baseline")


def output(feed: Feed, item: ItemProgress, wanted: str) -> dict[str, Any]:
    """The end of one output of the item, and the names of all. `wanted` is one of these names;
    without it the newest output is shown."""
    folder = feed.run_dir / stored_slug(item.slug)
    found = _files(folder)
    name = wanted if wanted in found else next(iter(found), "")
    text, before = read_plain_end(folder, name, _MOST_BYTES) if name else (b"", 0)
    shown = safe_text(text.decode("utf-8", "replace"))
    return {"names": found, "name": name, "text": shown, "cut": before > 0}


def change(feed: Feed, item: ItemProgress, environ: Mapping[str, str]) -> dict[str, Any]:
    """The diff of the item's work: of its commit, else of its saved patch."""
    patch = feed.run_dir / stored_slug(item.slug) / WORK
    record = {"slug": item.slug, "commit": item.commit, "savedWork": "", "error": item.reason}
    if patch.is_file():
        record["savedWork"] = str(patch)
    rows = feed.store.publications() if item.commit else ()
    repos = {one.repo for one in rows if any(c.commit == item.commit for c in one.items)}
    report = {"built": [record], "shipped_repos": [{"repo": repo} for repo in sorted(repos)]}
    found = diffs(report, environ).get(item.slug)
    if found is None:
        return {"text": "", "why": "there is no saved work yet"}
    return {"text": safe_text(found.text), "why": found.why_not}


def _files(folder: Path) -> list[str]:
    """The outputs below the item's folder, the newest first, and those of tests that have to fail
    last."""
    found = {name: seen.st_mtime for name, seen in outputs(folder) if seen.st_size}
    newest = sorted(found, key=lambda name: (name.startswith(_SIDE_RUNS), -found[name]))
    return newest[:_MOST_FILES]
