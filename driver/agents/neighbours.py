"""Files that the agent of another item wrote into an item's workspace, by their absolute paths.

Without walls between agents Tidegate cannot prevent this. It is no fault of the item that finds
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from driver.domain.ownership import covers
from driver.domain.results import MODE_NESTED, Change
from driver.filesystem.safe_file_access import regular_bytes
from driver.run_state.context import ItemRun
from driver.workspace.repository_context import Observed


def observed(item: ItemRun) -> Observed:
    """The item's work. A foreign file is left out and named if it is as in the work of another item
    at work, which owns it: nobody else has that content."""
    seen = item.workspace.observe()
    theirs = {path: slug for path, slug in _of_others(item, seen) if slug}
    if not theirs or seen.tree is None:
        return seen
    kept = tuple(change for change in seen.changes if change.path not in theirs)
    return replace(
        seen,
        changes=kept,
        tree=item.workspace.base_with(kept),
        links_outside=tuple(path for path in seen.links_outside if path not in theirs),
        unfiltered=tuple(path for path in seen.unfiltered if path not in theirs),
        of_others=tuple(f"{path} (of {slug})" for path, slug in theirs.items()),
    )


def _of_others(item: ItemRun, seen: Observed) -> Iterator[tuple[str, str]]:
    """Each foreign path, and the slug of the item whose work it is; "" if it is nobody's."""
    foreign = [one for one in seen.changes if not covers(item.planned.owned, one.path)]
    if not foreign:
        return
    others = [o for o in item.wave.items if o is not item and o.context is item.context]
    for change in foreign:
        owners = (one for one in others if covers(one.planned.owned, change.path))
        yield change.path, next((o.slug for o in owners if _has_it(o, item, change)), "")


def _has_it(owner: ItemRun, item: ItemRun, change: Change) -> bool:
    """True if the file is the same in the owner's work, or in its workspace at this time."""
    done = [known for attempt in owner.attempts for known in attempt.changes]
    if any((known.path, known.blob) == (change.path, change.blob) for known in done):
        return True
    workspace = owner.open_workspace
    if workspace is None or change.deleted or change.mode == MODE_NESTED:
        return False
    try:
        content = regular_bytes(workspace.top / change.path)
    except OSError:
        return False
    return content == item.workspace.contents(change)
