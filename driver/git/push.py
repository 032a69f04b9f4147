"""One careful push: a commit to a branch, never by force, and seen there afterwards.

Which commit and which branch is the ship's decision; what a refusal means is `push_answer`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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

FENCE = "refs/tidegate/shipped"


@dataclass(frozen=True, slots=True)
class Sending:
    """What a push sends: `commit`, to be `branch` if that is still at `expected` (None: absent).
    `fence` is where FENCE has to be on the remote ("": absent); it moves along with the branch or
    neither does. None sends the branch alone."""

    commit: str
    branch: str
    expected: str | None
    fence: str | None = None

    @property
    def ref(self) -> str:
        """The branch's."""
        return f"refs/heads/{self.branch}"

    @property
    def args(self) -> Iterator[str]:
        """The options of `git push`."""
        yield f"--force-with-lease={self.ref}:{self.expected or ''}"
        if self.fence is not None:
            yield from ("--atomic", f"--force-with-lease={FENCE}:{self.fence}")

    @property
    def refs(self) -> tuple[str, ...]:
        """What stands after the remote there."""
        fence = () if self.fence is None else (f"{self.commit}:{FENCE}",)
        return (f"{self.commit}:{self.ref}", *fence)


def send(git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending) -> PushResult:
    """Publish the commit. What is there already is fine.

    Nothing on the remote is ever overwritten: the lease only compares, and a commit that does not
    contain what is expected there is not sent at all.
    """
    commit, branch, expected = sending.commit, sending.branch, sending.expected
    if (no := forbidden(remote)) is not None:
        return no
    env = access_environment(environ, git_dir, remote)
    if expected is not None and not is_in_history(git_dir, env, expected, commit):
        return PushResult(
            False, f"{branch} was not pushed: it would lose {expected[:12]}", ADVANCED
        )
    sent = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
            "--recurse-submodules=no", *sending.args, remote.url, *sending.refs)  # fmt: skip
    done = talk(git_dir, environ, remote, sent)
    if isinstance(done, PushResult):
        return done
    if not done.ok:
        failure = failure_of(branch, done)
        if failure.kind not in ANSWERED:
            return replace(failure, kind=UNFENCED) if _no_atomic(sending, done) else failure
        there = refs_on(git_dir, environ, remote, sending.ref, FENCE)
        return failure if isinstance(there, PushResult) else _weighed(sending, there, done, failure)
    return _verified(git_dir, environ, remote, sending)


def _weighed(
    sending: Sending, there: Mapping[str, str], done: Captured, failure: PushResult
) -> PushResult:
    """What a refusal means, seen beside what is on the remote now."""
    # Another run that finishes the same shipment may have been quicker by a moment.
    if there.get(sending.ref) == sending.commit:
        fenced = sending.fence is None or there.get(FENCE) == sending.commit
        return PushResult(True, kind="" if fenced else UNFENCED)
    return _of_fence(sending, there, done) or failure


def _no_atomic(sending: Sending, done: Captured) -> bool:
    return sending.fence is not None and b"does not support --atomic" in done.stderr


def _of_fence(sending: Sending, there: Mapping[str, str], done: Captured) -> PushResult | None:
    """The answer where it was the fence that a push failed at, not the branch."""
    if sending.fence is None or there.get(sending.ref, "") != (sending.expected or ""):
        return None
    if there.get(FENCE, "") != sending.fence:
        return PushResult(False, "others shipped at the same moment", MOVED)
    said = statuses_in(redacted(text(done.stdout)))
    if "atomic" in said.get(sending.ref, "") and "atomic" not in said.get(FENCE, "atomic"):
        busy = push_word(said[FENCE], answered=True) == ADVANCED or "update" in said[FENCE]
        return PushResult(False, said[FENCE], MOVED if busy else UNFENCED)
    both = all("atomic" in said.get(ref, "") for ref in (sending.ref, FENCE))
    return PushResult(False, "another push was at work there", MOVED) if both else None


def forbidden(remote: Remote) -> PushResult | None:
    """Why no push goes out at all: with failure points armed, it does to folders only."""
    is_folder = remote.url.startswith(("/", "file:///")) or PurePath(remote.url).is_absolute()
    if is_folder or not failpoints.active():
        return None
    return PushResult(False, "TIDEGATE_FAIL is set: pushed is to folders only", FAILED)


def _verified(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending
) -> PushResult:
    there = head_of(git_dir, environ, remote, sending.branch)
    if isinstance(there, PushResult):
        return PushResult(False, f"pushed, but not verified: {there.reason}", UNVERIFIED)
    if there == sending.commit:
        return PushResult(True)
    seen = there or "nothing"
    return PushResult(False, f"pushed, but the remote shows {seen} there", UNVERIFIED)
