"""Commit what is verified, one commit an item, and put it where it was meant to go.

The commits are built from proven trees in a git dir of our own; the user's checkout, index and
config are compared with what they were before and are never written. Nothing is forced and
nothing is merged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from driver.git import Commit, CommitSpec, GitError, PushResult, Repository, fast_forward
from driver.ground import RepositoryGround
from driver.own_files import is_own
from driver.phases.integrate import Entry, Integration, Line
from driver.prompts import command_text
from driver.remote import push_forward
from driver.text import safe_line
from driver.wave_context import Planned, Wave

FILE = "file "  # how a fingerprint names what is not a part of git's own
MAX_SUBJECT_CHARS = 72
_MAX_BRANCH_TRIES = 20


@dataclass(frozen=True, slots=True)
class Shipment:
    """What became of one repository's verified items.

    `commits` holds (slug, commit) of all shipped items; `error` is a word of the report's
    vocabulary with `detail` as its sentence, and then nothing of this repository counts as shipped;
    `kept` is the commit that `branch` then holds in this repository only.
    """

    repo: str
    branch: str | None = None
    commits: tuple[tuple[str, str], ...] = ()
    committed: bool = False
    pushed: bool = False
    files_count: int = 0
    error: str | None = None
    detail: str = ""
    warning: str | None = None
    kept: str | None = None
    left_out: tuple[Entry, ...] = ()

    @property
    def tip(self) -> str | None:
        """The last commit of the line."""
        return self.commits[-1][1] if self.commits else None


def ship(ground: RepositoryGround, entries: Sequence[Entry], wave: Wave) -> Shipment:
    """Integrate, commit and publish the verified `entries` of one repository.

    Raises GateClosedError or InterruptedWaveError while nothing has been published yet.
    """
    line = Integration(ground, wave).line_up(entries)
    shipment = Shipment(str(ground.repository.top), left_out=line.left_out)
    if not line.entries:
        return dataclasses.replace(shipment, error="nothing_green_together", detail="no item left")
    wave.gates.check()
    if touched := _touched_by_others(ground, wave):
        return _touched(shipment, touched)
    commits = ground.git.import_commits(ground.base, _specs(line, wave))
    if tuple(commit.tree for commit in commits) != line.trees:
        raise AssertionError("a commit's tree is not the tree that was proven")
    shipment = dataclasses.replace(shipment, files_count=_count_files(line.entries))
    try:
        if wave.shipping.mode == "current":
            return _to_current_branch(shipment, ground, line, commits, wave)
        return _to_wave_branch(shipment, ground, line, commits, wave)
    except GitError as error:
        return dataclasses.replace(shipment, error="git_commit_failed", detail=str(error))


def strays(ground: RepositoryGround, wave: Wave) -> Shipment | None:
    """Where there is nothing to ship: what was changed in the user's checkout all the same."""
    touched = _touched_by_others(ground, wave)
    return _touched(Shipment(str(ground.repository.top)), touched) if touched else None


def _touched_by_others(ground: RepositoryGround, wave: Wave) -> tuple[str, ...]:
    """What differs in the user's checkout, but for files that this wave writes itself."""
    recording = wave.options.recording
    places = [
        *([wave.gates.state_dir] if wave.gates.state_dir else []),
        *([recording.path] if recording else []),
    ]
    top = ground.repository.top
    return tuple(
        name
        for name in ground.touched_checkout()
        if not (name.startswith(FILE) and is_own(top / name.removeprefix(FILE), places))
    )


def _touched(shipment: Shipment, touched: Sequence[str]) -> Shipment:
    return dataclasses.replace(
        shipment,
        error="checkout_changed",
        detail="your own checkout changed while agents were running, so nothing was shipped: "
        + ", ".join(touched),
    )


def _specs(line: Line, wave: Wave) -> list[CommitSpec]:
    date = f"{int(time.time())} +0000"
    ship_settings = wave.settings.ship
    return [
        CommitSpec(
            commit_message(planned, wave.wave_id, tree),
            outcome.changes,
            ship_settings.bot_name,
            ship_settings.bot_email,
            date,
        )
        for (planned, outcome), tree in zip(line.entries, line.trees, strict=True)
    ]


def commit_message(planned: Planned, wave_id: str, proved_tree: str) -> str:
    """Subject from the title or slug, then the trailers that later runs find items by."""
    item = planned.item
    trailers = {
        "Wave-Id": wave_id,
        "Item-Id": item.item_id or item.slug,
        "Item-Slug": item.slug,
        "Test-Command": command_text(item.test_command),
        "Proved-Tree": proved_tree,
    }
    lines = [f"{name}: {safe_line(value)}" for name, value in trailers.items()]
    return "\n".join([_subject(item.title or item.slug), "", *lines]) + "\n"


def _subject(text: str) -> str:
    line = safe_line(" ".join(text.split()))
    return line if len(line) <= MAX_SUBJECT_CHARS else line[: MAX_SUBJECT_CHARS - 3] + "..."


def branch_name(wave_id: str, date: str) -> str:
    """`wave/<date>-<id>`: a name git accepts, short for the long ids that waves give themselves."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", wave_id).strip("-") or "wave"
    return f"wave/{date}-{safe[:8] if re.fullmatch(r'[0-9a-f-]{32,36}', safe) else safe[:60]}"


def _to_wave_branch(
    shipment: Shipment,
    ground: RepositoryGround,
    line: Line,
    commits: Sequence[Commit],
    wave: Wave,
) -> Shipment:
    shipment = _kept(shipment, ground, commits, wave)
    notes = [describe_detached(ground.repository)]
    if ground.remote is None:
        notes.append("no remote: the branch is in this repository only")
    elif shipment.branch is not None:
        tip = commits[-1].commit
        answer = ground.git.push(ground.remote, tip, shipment.branch, expected=None)
        shipment = _pushed(shipment, answer)
    if shipment.error:
        return _saying_where(shipment)
    return _done(shipment, line, commits, "; ".join(filter(None, notes)) or None)


def describe_detached(repository: Repository) -> str:
    """A sentence when the wave's base is on no branch, else ""."""
    return "" if repository.branch else f"started from a detached HEAD at {repository.head[:12]}"


def _kept(
    shipment: Shipment, ground: RepositoryGround, commits: Sequence[Commit], wave: Wave
) -> Shipment:
    """The commits on a wave branch of the user's repository, where nothing can lose them."""
    wanted = branch_name(wave.wave_id, time.strftime("%Y-%m-%d"))
    tip = commits[-1].commit
    branch = _keep_on_free_branch(ground, tip, wanted)
    return dataclasses.replace(shipment, branch=branch, committed=True, kept=tip)


def _keep_on_free_branch(ground: RepositoryGround, tip: str, wanted: str) -> str:
    further = [f"{wanted}-{number}" for number in range(2, _MAX_BRANCH_TRIES)]
    # No name below `wave/` is free where a branch is called `wave`.
    last = wanted.replace("/", "-")
    for branch in (wanted, *further):
        with contextlib.suppress(GitError):
            ground.git.keep(ground.repository, tip, f"refs/heads/{branch}")
            return branch
    ground.git.keep(ground.repository, tip, f"refs/heads/{last}")
    return last


def _to_current_branch(
    shipment: Shipment,
    ground: RepositoryGround,
    line: Line,
    commits: Sequence[Commit],
    wave: Wave,
) -> Shipment:
    """Push, then move the checkout ahead; a refusal of either leaves the commits on a branch."""
    tip, current = commits[-1].commit, ground.repository.branch
    if current is None:
        detail = "HEAD is detached, so there is no checked-out branch to commit to"
        shipment = dataclasses.replace(shipment, error="git_commit_failed", detail=detail)
    elif ground.remote is not None:
        answer = push_forward(ground.git.path, ground.environ, ground.remote, tip, current)
        shipment = _pushed(shipment, answer)
    if not shipment.error:
        shipment = _move_checkout(shipment, ground, tip)
    if not shipment.error:
        shipment = dataclasses.replace(shipment, branch=current)
        return _done(shipment, line, commits, shipment.warning)
    return _saying_where(_kept(shipment, ground, commits, wave))


def _saying_where(shipment: Shipment) -> Shipment:
    where = f"{shipment.detail} (kept on branch {shipment.branch} here)"
    return dataclasses.replace(shipment, detail=where)


def _pushed(shipment: Shipment, answer: PushResult) -> Shipment:
    if answer.ok:
        return dataclasses.replace(shipment, pushed=True)
    return dataclasses.replace(shipment, error="git_push_failed", detail=answer.reason)


def _move_checkout(shipment: Shipment, ground: RepositoryGround, tip: str) -> Shipment:
    on_the_way = f"refs/tidegate/{tip}"
    ground.git.keep(ground.repository, tip, on_the_way)
    refusal = fast_forward(ground.repository, tip, ground.environ)
    if not refusal:
        ground.git.forget(ground.repository, tip, on_the_way)
    if refusal and not shipment.pushed:
        return dataclasses.replace(shipment, error="git_commit_failed", detail=refusal)
    if refusal:
        warning = f"pushed, but not checked out here: {refusal}"
    else:
        warning = "" if shipment.pushed else "no remote: committed in this repository only"
    return dataclasses.replace(shipment, warning=warning or None)


def _done(
    shipment: Shipment, line: Line, commits: Sequence[Commit], warning: str | None
) -> Shipment:
    pairs = tuple(
        (planned.slug, commit.commit)
        for (planned, _), commit in zip(line.entries, commits, strict=True)
    )
    return dataclasses.replace(shipment, commits=pairs, committed=True, warning=warning)


def _count_files(entries: Sequence[Entry]) -> int:
    return sum(len(outcome.changes) for _, outcome in entries)
