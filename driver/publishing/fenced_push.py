"""The fenced push: never publishes an item that another state folder has published.

Two state folders share nothing but the remote, so the trailers on its wave branches and its target
decide. Between reading them and the push a fence ref guards: every publication moves it, and a push
that finds it moved publishes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from driver.backlog.publication_status import PublishedItem, by_task
from driver.git.branch_view import HEADS
from driver.git.command import run_git, text
from driver.git.private_git import PrivateGit, Remote
from driver.git.push import FENCE, Sending, forbidden, send
from driver.git.push_result import ADVANCED, FAILED, MOVED, UNFENCED, PushResult
from driver.git.remote import fetch_refs, refs_on
from driver.publishing.published_history import shipments_in
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import StoppedByPolicyError
from state_store.values.lazy_dataclass import dataclass

WAVES = ("wave/", "wave-")
_WAVES_ASKED = f"{HEADS}wave*"
# Each turn is lost to a publication of another run, finished or under way at that moment.
_TURNS = 60
_PAUSE_S = 0.05
_UNFENCED = (
    f"the remote does not take {FENCE} along with a branch: another state folder that ships the"
    " same item at the same moment would not be seen"
)
Knows = Callable[[PublishedItem], bool]


class ShippedElsewhereError(StoppedByPolicyError):
    """Another instance has published items of the batch; `found` has them by item id. Nothing was
    published by this one."""

    def __init__(self, found: Mapping[str, PublishedItem]) -> None:
        self.found = found
        super().__init__("; ".join(f"{item}: {describe(one)}" for item, one in found.items()))


def describe(one: PublishedItem) -> str:
    """A sentence about an item that another instance has published."""
    return (
        f"wave {one.wave[:8]}, of another state folder, has shipped it: commit {one.commit[:12]}"
        f" is on {one.branch}"
    )


@dataclass(frozen=True, slots=True)
class Push:
    """A push of a batch's last commit as a new `branch`, or `onto` an existing one. `knows` is True
    for publications that are no reason to hold it back."""

    context: CloneContext
    remote: Remote
    commit: str
    branch: str
    knows: Knows
    onto: bool = False

    def once(self) -> PushResult:
        """Push once, and behind the fence if the remote accepts it.

        Raises ShippedElsewhereError if the remote has an item of the batch from another wave that
        `knows` does not know.
        """
        if (no := forbidden(self.remote)) is not None:
            return no
        fenced = True
        for turn in range(_TURNS):
            answer = self._turn(fenced=fenced)
            fenced = fenced and answer.kind != UNFENCED
            if answer.ok:
                return answer if fenced else PushResult(True, _UNFENCED)
            # The commits that overtook us on the target may have an item of this batch.
            overtaken = self.onto and answer.kind == ADVANCED and turn == 0
            if answer.kind not in (MOVED, UNFENCED) and not overtaken:
                return answer
            time.sleep(_PAUSE_S * min(turn, 10))
        why = f"{self.branch} was not pushed: others ship there all the time"
        return PushResult(False, why, FAILED)

    def _turn(self, *, fenced: bool) -> PushResult:
        git, environ, ref = self.context.git, self.context.environ, f"{HEADS}{self.branch}"
        # Some waves publish directly on the target.
        target = self.context.repository.branch or self.branch
        asked = (_WAVES_ASKED, ref, f"{HEADS}{target}", FENCE)
        there = refs_on(git.path, environ, self.remote, *asked)
        if isinstance(there, PushResult):
            return there
        if there.get(ref) == self.commit:
            return PushResult(True)
        if not (got := self._check(there)).ok:
            return got
        fence = there.get(FENCE, "") if fenced else None
        expected = there.get(ref) if self.onto else None
        sending = Sending(self.commit, self.branch, expected, fence)
        return send(git.path, environ, self.remote, sending)

    def _check(self, there: Mapping[str, str]) -> PushResult:
        """Read the published items of the branches `there`; not ok if they cannot be fetched."""
        git, base = self.context.git, [self.context.base]
        heads = {ref: at for ref, at in there.items() if ref.startswith(HEADS) and at not in base}
        if not heads:
            return PushResult(True)
        if not (got := bring(git, self.remote, heads)).ok:
            return got
        mine = by_task(shipments_in(git, {"": self.commit}, without=base))
        ours = {one.wave for several in mine.values() for one in several}
        seen = by_task(shipments_in(git, heads, without=base))
        others = (one for key in mine for one in seen.get(key, ()) if one.wave not in ours)
        if found := {one.item: one for one in others if not self.knows(one)}:
            raise ShippedElsewhereError(found)
        return got


def bring(git: PrivateGit, remote: Remote, heads: Mapping[str, str]) -> PushResult:
    """Fetch the commits of `heads`, which are refs of the remote, into `git` if it lacks them."""
    asked = "".join(f"{commit}\n" for commit in heads.values()).encode()
    at = (f"--git-dir={git.path}", "cat-file", "--batch-check")
    lines = text(run_git(at, cwd=git.path, env=git.env, stdin=asked).stdout).splitlines()
    pairs = zip(heads, lines, strict=True)
    missing = [ref for ref, line in pairs if line.endswith(" missing")]
    return fetch_refs(git.path, git.environ, remote, missing)
