"""Pushes a commit to a branch, never by force, and checks that it arrived.

The caller chooses commit and branch. `push_result` classifies refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from driver.execution.processes import Captured
from driver.git.ancestry import is_in_history
from driver.git.command import redacted, text
from driver.git.push_result import (
    ADVANCED,
    ANSWERED,
    FAILED,
    MOVED,
    UNFENCED,
    UNVERIFIED,
    PushResult,
    failure_of,
    push_word,
    statuses_in,
)
from driver.git.remote import Remote, access_environment, head_of, refs_on, talk
from state_store.documents import failpoints
from state_store.values.lazy_dataclass import dataclass, replace

FENCE = "refs/tidegate/shipped"


@dataclass(frozen=True, slots=True)
class Sending:
    """A commit to push as `branch`, if the remote branch is still at `expected` (None: absent).

    `fence` is the expected commit of FENCE on the remote ("": absent). FENCE and the branch move
    together or not at all. None pushes the branch alone.
    """

    commit: str
    branch: str
    expected: str | None
    fence: str | None = None

    @property
    def ref(self) -> str:
        """The full name of the branch."""
        return f"refs/heads/{self.branch}"


def send(git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending) -> PushResult:
    """Push the commit. If the branch contains it already, this is a success.

    Nothing on the remote is ever overwritten: the lease only compares, and a commit that does not
    contain the expected commit is not sent.
    """
    commit, branch, expected, ref = sending.commit, sending.branch, sending.expected, sending.ref
    if (no := forbidden(remote)) is not None:
        return no
    env = access_environment(environ, git_dir, remote)
    if expected is not None and not is_in_history(git_dir, env, expected, commit):
        lost = f"{branch} was not pushed: it would lose {expected[:12]}"
        return PushResult(False, lost, ADVANCED)
    leases, refs = [f"--force-with-lease={ref}:{expected or ''}"], [f"{commit}:{ref}"]
    if sending.fence is not None:
        leases += ["--atomic", f"--force-with-lease={FENCE}:{sending.fence}"]
        refs.append(f"{commit}:{FENCE}")
    command = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
               "--recurse-submodules=no", *leases, remote.url, *refs)  # fmt: skip
    done = talk(git_dir, environ, remote, command)
    if isinstance(done, PushResult):
        return done
    if not done.ok:
        return _after_refusal(git_dir, environ, remote, sending, done)
    return _verified(git_dir, environ, remote, sending)


def _verified(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending
) -> PushResult:
    """The result of a push that git reports as done, checked on the remote."""
    there = head_of(git_dir, environ, remote, sending.branch)
    if isinstance(there, PushResult):
        return PushResult(False, f"pushed, but not verified: {there.reason}", UNVERIFIED)
    if there == sending.commit:
        return PushResult(True)
    seen = there or "nothing"
    return PushResult(False, f"pushed, but the remote branch is at {seen}", UNVERIFIED)


def _after_refusal(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending, done: Captured
) -> PushResult:
    """The result of a push that git reports as failed, checked on the remote."""
    failure = failure_of(sending.branch, done)
    if failure.kind not in ANSWERED:
        no_atomic = sending.fence is not None and b"does not support --atomic" in done.stderr
        return replace(failure, kind=UNFENCED) if no_atomic else failure
    there = refs_on(git_dir, environ, remote, sending.ref, FENCE)
    if isinstance(there, PushResult):
        return failure
    # Another run may just have pushed the same commit.
    if there.get(sending.ref) == sending.commit:
        fenced = sending.fence is None or there.get(FENCE) == sending.commit
        return PushResult(True, kind="" if fenced else UNFENCED)
    return _of_fence(sending, there, done) or failure


def _of_fence(sending: Sending, there: Mapping[str, str], done: Captured) -> PushResult | None:
    """The result if the push failed because of the fence, else None."""
    if sending.fence is None or there.get(sending.ref, "") != (sending.expected or ""):
        return None
    if there.get(FENCE, "") != sending.fence:
        return PushResult(False, "another run shipped at the same moment", MOVED)
    status = statuses_in(redacted(text(done.stdout)))
    if "atomic" in status.get(sending.ref, "") and "atomic" not in status.get(FENCE, "atomic"):
        busy = push_word(status[FENCE], answered=True) == ADVANCED or "update" in status[FENCE]
        return PushResult(False, status[FENCE], MOVED if busy else UNFENCED)
    both = all("atomic" in status.get(ref, "") for ref in (sending.ref, FENCE))
    return PushResult(False, "another push was in progress", MOVED) if both else None


def forbidden(remote: Remote) -> PushResult | None:
    """Refuses a push over the network while failure points are armed."""
    is_folder = remote.url.startswith(("/", "file:///")) or PurePath(remote.url).is_absolute()
    if is_folder or not failpoints.active():
        return None
    return PushResult(False, "TIDEGATE_FAIL is set, which allows pushes to folders only", FAILED)
