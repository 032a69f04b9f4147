"""Shipments of the same items by others: looked for on a remote, and never made a second time.

Two state folders share nothing but the remote, so what is on it has the last word: the trailers of
what is on its wave branches and its target. Between that look and the push a ref of ours stands
guard: it moves with every shipment, and a push that finds it moved publishes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driver.backlog.publication_status import PublishedItem, by_task
from driver.git.command import run_git, text
from driver.git.private_git import PrivateGit, Remote
from driver.git.push import FENCE, Sending, forbidden, send
from driver.git.push_result import ADVANCED, FAILED, MOVED, UNFENCED, PushResult
from driver.git.remote import fetch_refs, refs_on
from driver.publishing.published_history import sighted
from driver.publishing.wave_branches import HEADS
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import StoppedByPolicyError

WAVES = ("wave/", "wave-")
_WAVES_ASKED = f"{HEADS}wave*"
# Each turn is lost to a shipment of somebody else's, or to one at work at that moment.
_TURNS = 60
_PAUSE_S = 0.05
_UNFENCED = (
    f"the remote does not take {FENCE} along with a branch: another state folder that ships the"
    " same item at the same moment would not be seen"
)
Knows = Callable[[PublishedItem], bool]


class ShippedElsewhereError(StoppedByPolicyError):
    """Others have shipped items of a line; `found` has them by item id. Nothing was published."""

    def __init__(self, found: Mapping[str, PublishedItem]) -> None:
        self.found = found
        super().__init__("; ".join(f"{item}: {told(one)}" for item, one in found.items()))


def told(one: PublishedItem) -> str:
    """The sentence about a shipment of somebody else's."""
    return (
        f"wave {one.wave[:8]}, of another state folder, has shipped it: commit {one.commit[:12]}"
        f" is on {one.branch}"
    )


@dataclass(frozen=True, slots=True)
class Push:
    """A line whose last commit is to become `branch`, which is not there yet, or `onto` which it
    goes on. `knows` tells the shipments that are no reason to hold it back."""

    ground: CloneContext
    remote: Remote
    commit: str
    branch: str
    knows: Knows
    onto: bool = False

    def once(self) -> PushResult:
        """Publish it, unless the remote has an item of the line from a wave that is not its own and
        that `knows` does not know: then raises ShippedElsewhereError. A remote that does not take
        the fence is only looked at."""
        if (no := forbidden(self.remote)) is not None:
            return no
        fenced = True
        for turn in range(_TURNS):
            answer = self._turn(fenced=fenced)
            fenced = fenced and answer.kind != UNFENCED
            if answer.ok:
                return answer if fenced else PushResult(True, _UNFENCED)
            # What overtook us on the target may be an item of this line.
            overtaken = self.onto and answer.kind == ADVANCED and turn == 0
            if answer.kind not in (MOVED, UNFENCED) and not overtaken:
                return answer
            time.sleep(_PAUSE_S * min(turn, 10))
        why = f"{self.branch} was not pushed: others ship there all the time"
        return PushResult(False, why, FAILED)

    def _turn(self, *, fenced: bool) -> PushResult:
        git, environ, ref = self.ground.git, self.ground.environ, f"{HEADS}{self.branch}"
        # Some waves go on to the target themselves.
        target = self.ground.repository.branch or self.branch
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
        """Whether it could be seen that nobody else has shipped an item of the line."""
        git, base = self.ground.git, [self.ground.base]
        heads = {ref: at for ref, at in there.items() if ref.startswith(HEADS)}
        if not (got := bring(git, self.remote, heads)).ok:
            return got
        mine = by_task(sighted(git, {"": self.commit}, without=base))
        ours = {one.wave for several in mine.values() for one in several}
        seen = by_task(sighted(git, heads, without=base))
        others = (one for key in mine for one in seen.get(key, ()) if one.wave not in ours)
        if found := {one.item: one for one in others if not self.knows(one)}:
            raise ShippedElsewhereError(found)
        return got


def bring(git: PrivateGit, remote: Remote, heads: Mapping[str, str]) -> PushResult:
    """Have the commits of `heads`, which are refs of the remote, in `git`."""
    asked = "".join(f"{commit}\n" for commit in heads.values()).encode()
    at = (f"--git-dir={git.path}", "cat-file", "--batch-check")
    said = text(run_git(at, cwd=git.path, env=git.env, stdin=asked).stdout).splitlines()
    pairs = zip(heads, said, strict=True)
    missing = [ref for ref, line in pairs if line.endswith(" missing")]
    return fetch_refs(git.path, git.environ, remote, missing)
