"""Finds the leftovers of failed, killed and unshipped items: patches and branches. Reads only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.filesystem.safe_file_access import open_plain
from driver.git.branch_view import BranchView
from driver.git.private_git import open_repository
from driver.maintenance.past_waves import REPORT, Json, PastWave, past_waves
from driver.workspace.saved_patch import INTERRUPTED, WORK, Origin, origin_of
from state_store.database.publications import Publication
from state_store.documents import journal
from state_store.documents.errors import InputError, TidegateError
from state_store.values.lazy_dataclass import dataclass, replace
from state_store.views.publications import publications_in_journal

BRANCH = "branch"
PATCH = "patch"
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Leftover:
    """A patch, or a branch that only this repository has. `name` is `WAVE/ITEM`, or
    `WAVE/ITEM/interrupted` for the unfinished work of a killed agent. `written` is in seconds since
    the epoch. `shipped_since` is a later wave that shipped the item, "" for none."""

    name: str
    kind: str
    wave: str
    item: str
    verdict: str
    reason: str
    origin: Origin
    written: float
    size: int | None = None
    patch: Path | None = None
    branch: str | None = None
    commit: str | None = None
    shipped_since: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "kind": self.kind,
            "wave": self.wave,
            "item": self.item,
            "verdict": self.verdict or None,
            "reason": self.reason or None,
            "repo": str(self.origin.top) if self.origin.top else None,
            "base": self.origin.base or None,
            "ageS": round(max(0.0, time.time() - self.written)),
            "size": self.size,
            "patch": str(self.patch) if self.patch else None,
            "branch": self.branch,
            "commit": self.commit,
            "shippedSince": self.shipped_since or None,
        }


def leftovers(state_dir: Path, environ: Mapping[str, str]) -> list[Leftover]:
    """All leftovers, the newest first."""
    entries, _ = journal.load_entries(state_dir)
    publications = publications_in_journal(state_dir)
    found: list[Leftover] = []
    waves = list(past_waves(state_dir))
    shipped = [one for wave in waves for one in _shipped(wave)]
    for wave in waves:
        # An item's report has more than its journal entry.
        mine = (entry for entry in entries.values() if entry.get("waveId") == wave.wave_id)
        known = {
            journal.stored_slug(str(record.get("slug"))): record for record in (*mine, *wave.built)
        }
        patches = (_patch(wave, path, known.get(path.parent.name, {})) for path in wave.patches)
        found += (replace(one, shipped_since=_since(one, shipped)) for one in patches)
        announced = (one for one in publications if one.wave == wave.wave_id and one.open_slugs)
        found += _branches(wave, announced, environ)
    return sorted(found, key=lambda one: -one.written)


def find(found: Sequence[Leftover], name: str) -> Leftover:
    """The newest leftover named `name`. A unique prefix of the wave's id is enough, and so is the
    item alone. Raises InputError."""
    if "/" not in name and (of_item := [one for one in found if one.item == name]):
        return of_item[0]
    begins, _, rest = name.partition("/")
    called = [one for one in found if rest in (one.name.removeprefix(f"{one.wave}/"), one.item)]
    same = [one for one in called if one.wave == begins]
    alike = [one for one in called if begins and one.wave.startswith(begins)]
    if waves := dict.fromkeys(one.wave for one in same or alike):
        if len(waves) == 1:
            return (same or alike)[0]
        raise InputError(
            f"{name!r} may be of waves {', '.join(waves)}: write more of the wave's id"
        )
    names = ", ".join(one.name for one in found[:_SHOWN]) or "nothing"
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise InputError(f"no saved work named {name!r}; available: {names}{more}")


@dataclass(frozen=True, slots=True)
class _ShippedItem:
    """An item, by its folder's name, that a wave shipped to one of `repos`. `reported` is the time
    of its report, in seconds since the epoch."""

    item: str
    wave: str
    repos: frozenset[str]
    reported: float


def _shipped(wave: PastWave) -> Iterator[_ShippedItem]:
    slugs = wave.report.get("shipped")
    if not isinstance(slugs, list) or not slugs:
        return
    repos = frozenset(str(shipment.get("repo")) for shipment in wave.shipments)
    reported = (wave.folder / REPORT).stat().st_mtime
    for record in wave.built:
        if record.get("slug") in slugs:
            yield _ShippedItem(
                journal.stored_slug(str(record.get("slug"))), wave.folder.name, repos, reported
            )


def _since(one: Leftover, shipped: Sequence[_ShippedItem]) -> str:
    """The later wave that shipped this item in this repository; "" for none."""
    top = str(one.origin.top)
    for other in shipped:
        if other.item == one.item and other.reported > one.written and top in other.repos:
            return other.wave
    return ""


def _patch(wave: PastWave, path: Path, known: Json) -> Leftover:
    seen, interrupted = path.stat(), path.name == INTERRUPTED
    item = path.parent.name
    name, reason = f"{wave.folder.name}/{item}", known.get("ship_error") or known.get("error")
    return Leftover(
        name=f"{name}/interrupted" if interrupted else name,
        kind=PATCH,
        wave=wave.folder.name,
        item=item,
        verdict="" if interrupted else str(known.get("verdict") or ""),
        reason="its run was killed" if interrupted else str(reason or ""),
        origin=_origin(path),
        written=seen.st_mtime,
        size=seen.st_size,
        patch=path,
    )


def _branches(
    wave: PastWave, announced: Iterable[Publication], environ: Mapping[str, str]
) -> Iterator[Leftover]:
    """Branches with commits that were neither pushed nor merged."""
    unfinished = (_unfinished(wave, one) for one in announced)
    for tip in dict.fromkeys((*_reported(wave), *unfinished)):
        if _is_kept(tip, environ):
            yield Leftover(
                name=f"{wave.folder.name}/{tip.branch}",
                kind=BRANCH,
                wave=wave.folder.name,
                item=tip.branch,
                verdict="verified",
                reason=tip.why,
                origin=Origin("", Path(tip.top) if tip.top else None),
                written=wave.folder.stat().st_mtime,
                branch=tip.branch,
                commit=tip.commit,
            )


@dataclass(frozen=True, slots=True)
class _Tip:
    """A branch at `commit` in the repository at `top` ("" if unknown), and the reason why it was
    not published."""

    branch: str
    commit: str
    top: str
    why: str


def _reported(wave: PastWave) -> Iterator[_Tip]:
    """The branches that a report lists as not pushed."""
    for one in wave.shipments:
        if one.get("branch") and one.get("sha") and not one.get("pushed"):
            why = one.get("error_detail") or one.get("warning") or "not pushed"
            yield _Tip(str(one["branch"]), str(one["sha"]), str(one.get("repo") or ""), str(why))


def _unfinished(wave: PastWave, one: Publication) -> _Tip:
    """The branch that a run was about to publish when it was killed."""
    patch = wave.folder / journal.stored_slug(one.items[0].slug) / WORK
    top = one.repo or (_origin(patch).top if patch.exists() else None)
    return _Tip(one.branch, one.tip, str(top or ""), "its run was killed while it published")


def _is_kept(tip: _Tip, environ: Mapping[str, str]) -> bool:
    """True if the branch still has unmerged work, or its repository cannot be read."""
    if not tip.top:
        return True
    try:
        branches = BranchView(open_repository(Path(tip.top), environ), environ)
        return branches.tip(tip.branch) == tip.commit and not branches.is_in_head(tip.commit)
    except TidegateError:
        return True


def _origin(patch: Path) -> Origin:
    with open_plain(patch.parent, patch.name) as stream:
        return origin_of(stream.read(2**16))
