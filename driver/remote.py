"""Where shipped work goes: the user's remote as it was at the start, and one careful push.

Knows how to find the remote and to publish one commit to one branch, never by force. Which
commit and which branch is the ship's decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from driver.git_command import (
    NETWORK_TIMEOUT_S,
    frozen_environment,
    last_words,
    raw,
    redacted,
    run_git,
    talking,
    text,
    user_environment,
)
from driver.process import Captured, Command, Ending, Processes
from driver.repository import Repository, configured
from state_store import failpoints
from state_store.errors import InputError

_FROZEN = re.compile(r"(credential|http|ssh)\..*|core\.(sshcommand|askpass|gitproxy)", re.DOTALL)
_FETCHED = "refs/tidegate/target"
FENCE = "refs/tidegate/shipped"
MOVED, UNFENCED = "fence_moved", "unfenced"
ADVANCED, PROTECTED, HOOK = "advanced", "protected", "hook"
NO_RIGHTS, GONE, UNREACHABLE = "no_rights", "gone", "unreachable"
UNVERIFIED, INTERRUPTED, FAILED = "unverified", "interrupted", "failed"
_ANSWERED = (ADVANCED, PROTECTED, HOOK, FAILED)

# What remotes say, the first that fits. A server's own rules come before its hooks, for hosts
# tell of them through a hook; what it says of rights comes before both.
_SAID = (
    (NO_RIGHTS, r"permission|access denied|not allowed to push code to this|\b40[13]\b|denied to "
                r"|authentication failed|could not read (username|password)|read.only"
                r"|host key verification failed|unable to create temporary object"),
    (ADVANCED, r"non-fast-forward|fetch first|stale info|cannot lock ref|incorrect old value"
               r"|reference already exists|\bbut expected\b|atomic push fail"),
    (PROTECTED, r"protected|rule violations|pull request|merge request|currently checked out"
                r"|deny updating a hidden ref"),
    (HOOK, r"hook"),
    (GONE, r"does not appear to be a git repository|repository .*not found|not found: repository"
           r"|no such file or directory|\b404\b"),
)  # fmt: skip
_HOW = {
    ADVANCED: "{branch} has moved on the remote",
    PROTECTED: "the remote protects {branch}",
    HOOK: "a hook of the remote refused {branch}",
    NO_RIGHTS: "the remote does not accept the log-in, or lets it not write {branch}",
    GONE: "the remote is not there, or not shown to you",
    UNREACHABLE: "the remote cannot be reached",
    FAILED: "{branch} was not pushed",
}


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote as the user had it at the start; agents cannot redirect it afterwards.

    `url` is the literal push URL, `address` the one that is fetched from, as it is written down;
    `config` holds how to log in there. All may carry secrets and stay out of `repr`. Who talks to
    it runs in `processes`, and so ends with the wave.
    """

    name: str
    url: str = field(repr=False)
    config: tuple[tuple[str, str], ...] = field(repr=False, default=())
    processes: Processes = field(repr=False, compare=False, default_factory=Processes)
    address: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class PushResult:
    """How a push ended; `reason` is one sentence without credentials, "" when all went well.

    `kind`: "advanced" (the branch is not where it was expected), "protected" (by the remote's
    rules), "hook" (a hook there said no), "no_rights" (log-in or rights), "gone" (no repository
    there), "unreachable", "unverified" (sent, but not seen there), "interrupted" (nobody knows
    whether it arrived), "failed". Of a fenced push also MOVED (others shipped since: nothing was
    published) and UNFENCED (the remote takes no fence; where it went well, the branch alone).
    """

    ok: bool
    reason: str = ""
    kind: str = ""


def find_remote(
    repo: Repository,
    environ: Mapping[str, str],
    name: str | None = None,
    processes: Processes | None = None,
) -> Remote | None:
    """The remote to ship to: `name`, else the branch's own, `origin`, or the only one.

    Raises InputError when `name` is not configured.
    """
    env = user_environment(environ)
    at = (f"--git-dir={repo.git_dir}", f"--work-tree={repo.top}")
    settings = configured(repo, environ)
    chosen = _choose(repo, settings, name)
    if chosen is None:
        return None
    asked = (*at, "remote", "get-url", "--push", chosen)
    url = text(run_git(asked, cwd=repo.top, env=env).stdout).splitlines()[0]
    frozen = tuple((key, value) for key, value in settings if _FROZEN.fullmatch(key))
    address = dict(settings)[f"remote.{chosen}.url"]
    return Remote(chosen, _absolute(url, repo.top), frozen, processes or Processes(), address)


def _choose(repo: Repository, settings: Sequence[tuple[str, str]], name: str | None) -> str | None:
    there = {key[len("remote.") : -len(".url")]: None for key, _ in settings
             if key.startswith("remote.") and key.endswith(".url")}  # fmt: skip
    if name is not None:
        if name not in there:
            known = ", ".join(there) or "none"
            raise InputError(f"{repo.top} has no remote named {name} (it has: {known})")
        return name
    last = dict(settings)
    wanted = (
        last.get(f"branch.{repo.branch}.pushremote"),
        last.get("remote.pushdefault"),
        last.get(f"branch.{repo.branch}.remote"),
        "origin",
        next(iter(there)) if len(there) == 1 else None,
    )
    return next((one for one in wanted if one in there), None)


def _absolute(url: str, top: Path) -> str:
    """A relative path means one seen from the user's checkout, which is not where we push from."""
    before_slash = url.split("/", 1)[0]
    if ":" in before_slash or url.startswith(("/", "~")):
        return url
    return str(top / url)


def push_commit(
    git_dir: Path,
    environ: Mapping[str, str],
    remote: Remote,
    commit: str,
    branch: str,
    expected: str | None,
) -> PushResult:
    """Publish `commit` as `branch` if that is still at `expected` (None: does not exist).

    Publishing what is already there is fine. Nothing on the remote is ever overwritten: the
    lease only compares, and a commit that does not contain `expected` is not sent at all.
    """
    return send(git_dir, environ, remote, Sending(commit, branch, expected))


@dataclass(frozen=True, slots=True)
class Sending:
    """What a push sends. `fence` is where FENCE has to be on the remote ("": absent); it moves
    along with the branch or neither does. None sends the branch alone."""

    commit: str
    branch: str
    expected: str | None
    fence: str | None = None

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    @property
    def args(self) -> Iterator[str]:
        """The options and, after the remote, the refs of `git push`."""
        yield f"--force-with-lease={self.ref}:{self.expected or ''}"
        if self.fence is not None:
            yield from ("--atomic", f"--force-with-lease={FENCE}:{self.fence}")

    @property
    def refs(self) -> tuple[str, ...]:
        fence = () if self.fence is None else (f"{self.commit}:{FENCE}",)
        return (f"{self.commit}:{self.ref}", *fence)


def send(git_dir: Path, environ: Mapping[str, str], remote: Remote, sending: Sending) -> PushResult:
    """`push_commit`, and the fence with it."""
    commit, branch, expected, ref = sending.commit, sending.branch, sending.expected, sending.ref
    if not may_push(remote):
        return PushResult(False, "TIDEGATE_FAIL is set: pushed is to folders only", FAILED)
    env = _push_environment(environ, git_dir, remote)
    if expected is not None and not contains(git_dir, env, commit, expected):
        return PushResult(
            False, f"{branch} was not pushed: it would lose {expected[:12]}", ADVANCED
        )
    sent = ("push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
            "--recurse-submodules=no", *sending.args, remote.url, *sending.refs)  # fmt: skip
    done = _talk(git_dir, env, remote, sent)
    if isinstance(done, PushResult):
        return done
    if not done.ok:
        failure = _failure(branch, done)
        if failure.kind not in _ANSWERED:
            return replace(failure, kind=UNFENCED) if _no_atomic(sending, done) else failure
        there = refs_on(git_dir, environ, remote, ref, FENCE)
        return failure if isinstance(there, PushResult) else _weighed(sending, there, done, failure)
    return _verified(git_dir, env, remote, commit, ref)


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
    said = _statuses(redacted(text(done.stdout)))
    if "atomic" in said.get(sending.ref, "") and "atomic" not in said.get(FENCE, "atomic"):
        busy = push_word(said[FENCE], answered=True) == ADVANCED or "update" in said[FENCE]
        return PushResult(False, said[FENCE], MOVED if busy else UNFENCED)
    both = all("atomic" in said.get(ref, "") for ref in (sending.ref, FENCE))
    return PushResult(False, "another push was at work there", MOVED) if both else None


def _statuses(porcelain: str) -> dict[str, str]:
    """What `git push --porcelain` says of each ref that was refused."""
    found = re.findall(r"^!\t[^:\s]*:(\S+)\t(.*)$", porcelain, re.MULTILINE)
    return dict(found)


def refs_on(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, *patterns: str
) -> dict[str, str] | PushResult:
    """The refs of the remote that fit one of `patterns`, and where they are."""
    env = _push_environment(environ, git_dir, remote)
    seen = _talk(git_dir, env, remote, ("ls-remote", remote.url, *patterns))
    if isinstance(seen, PushResult):
        return seen
    if not seen.ok:
        return _failure(remote.name, seen)
    lines = (line.partition("\t") for line in text(seen.stdout).splitlines())
    return {ref: commit for commit, _, ref in lines}


def fetch_refs(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, refs: Iterable[str]
) -> PushResult:
    """Bring what refs of the remote hold into `git_dir`, below refs of our own."""
    env = _push_environment(environ, git_dir, remote)
    wanted = [f"+{ref}:refs/tidegate/seen/{ref.removeprefix('refs/')}" for ref in refs]
    if not wanted:
        return PushResult(True)
    args = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
            "--no-auto-gc", remote.url, *wanted)  # fmt: skip
    done = _talk(git_dir, env, remote, args)
    if isinstance(done, PushResult):
        return done
    return PushResult(True) if done.ok else _failure(remote.name, done)


def why_unreachable(
    remote: Remote, repo: Repository, environ: Mapping[str, str], timeout_s: float
) -> str:
    """Why the remote does not answer, without credentials; "" when it does. Nobody is asked."""
    seen = heads_on(repo.git_dir, environ, remote, timeout_s)
    return seen.reason if isinstance(seen, PushResult) else ""


def may_push(remote: Remote) -> bool:
    """Whether a push goes out at all: with failure points armed, to folders only."""
    url = remote.url
    return (
        not failpoints.active() or url.startswith(("/", "file:///")) or PurePath(url).is_absolute()
    )


def _push_environment(environ: Mapping[str, str], git_dir: Path, remote: Remote) -> dict[str, str]:
    env = frozen_environment(environ, git_dir, remote.config)
    command = env.get("GIT_SSH_COMMAND") or dict(remote.config).get("core.sshcommand") or "ssh"
    if PurePath(command.split()[0]).stem == "ssh" and "GIT_SSH" not in env:
        env["GIT_SSH_COMMAND"] = f"{command} -oBatchMode=yes"
    return env


def fetch_head(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, branch: str, known: str
) -> str | PushResult:
    """The commit that `branch` is at on the remote, with its objects in `git_dir` afterwards; ""
    when there is no such branch. Nothing is fetched when it is at `known`."""
    env, ref = _push_environment(environ, git_dir, remote), f"refs/heads/{branch}"
    there = _head_there(git_dir, env, remote, ref)
    if isinstance(there, PushResult) or there in ("", known):
        return there
    wanted = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
              "--no-auto-gc", remote.url, f"+{ref}:{_FETCHED}")  # fmt: skip
    done = _talk(git_dir, env, remote, wanted)
    if isinstance(done, PushResult):
        return done
    if not done.ok:
        return _failure(branch, done)
    asked = (f"--git-dir={git_dir}", "rev-parse", "--verify", "-q", _FETCHED)
    return text(run_git(asked, cwd=git_dir, env=env).stdout).strip()


def head_on(git_dir: Path, environ: Mapping[str, str], remote: Remote, branch: str) -> str:
    """The commit that `branch` is at on the remote, "" when it is not there or cannot be asked."""
    there = head_of(git_dir, environ, remote, branch)
    return "" if isinstance(there, PushResult) else there


def head_of(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, branch: str
) -> str | PushResult:
    """The same, but why it cannot be asked."""
    env = _push_environment(environ, git_dir, remote)
    return _head_there(git_dir, env, remote, f"refs/heads/{branch}")


def heads_on(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, timeout_s: float
) -> dict[str, str] | PushResult:
    """Every branch of the remote, and the commit it is at."""
    env = _push_environment(environ, git_dir, remote)
    seen = _talk(git_dir, env, remote, ("ls-remote", "--heads", remote.url), timeout_s)
    if isinstance(seen, PushResult):
        return seen
    if not seen.ok:
        return PushResult(False, last_words(redacted(text(seen.stderr))), UNREACHABLE)
    lines = (line.partition("\t") for line in text(seen.stdout).splitlines())
    return {ref.removeprefix("refs/heads/"): commit for commit, _, ref in lines}


def default_branch(git_dir: Path, environ: Mapping[str, str], remote: Remote) -> str:
    """The branch that a clone of the remote would check out; "" when it does not say."""
    env = _push_environment(environ, git_dir, remote)
    seen = _talk(git_dir, env, remote, ("ls-remote", "--symref", remote.url, "HEAD"))
    if isinstance(seen, PushResult) or not seen.ok:
        return ""
    found = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", text(seen.stdout), re.MULTILINE)
    return found[1] if found else ""


def contains(git_dir: Path, env: Mapping[str, str], commit: str, expected: str) -> bool:
    """Whether the history of `commit` has `expected` in it."""
    asked = (f"--git-dir={git_dir}", "merge-base", "--is-ancestor", expected, commit)
    return run_git(asked, cwd=git_dir, env=env, accept=(0, 1, 128)).ok


def _talk(
    git_dir: Path,
    env: Mapping[str, str],
    remote: Remote,
    args: Sequence[str],
    timeout_s: float = NETWORK_TIMEOUT_S,
) -> Captured | PushResult:
    # Supervised like an agent: a push that outlived us would arrive after the next run has begun.
    argv = ("git", f"--git-dir={git_dir}", *args)
    with talking(argv):
        done = remote.processes.run(Command(argv, git_dir, env, timeout_s))
    if done.ending is Ending.CANCELLED:
        why = f"git {args[0]} was interrupted: whether the remote got it is not known"
        return PushResult(False, why, INTERRUPTED)
    if done.exit_code is None:
        return PushResult(False, f"git {args[0]}: {redacted(done.reason)}", UNREACHABLE)
    return Captured(argv, done.exit_code, raw(done.stdout), raw(done.stderr))


def _failure(branch: str, done: Captured) -> PushResult:
    """A refusal told apart by what git and the remote say: about the branch, else in general."""
    said = redacted(text(done.stdout) + "\n" + text(done.stderr))
    refused = _statuses(said)
    mine = refused.get(f"refs/heads/{branch}")
    # Where all refs or none are moved, only the one that was in the way says what it was.
    others = (why for why in refused.values() if "atomic" not in why)
    status = next(others, mine) if mine is None or "atomic" in mine else mine
    told = last_words(redacted(text(done.stderr)))
    told = f"{status}: {told}" if status else told
    kind = push_word(told, answered=status is not None)
    return PushResult(False, f"{_HOW[kind].format(branch=branch)}: {told}", kind)


def push_word(told: str, *, answered: bool) -> str:
    """The word for what a remote said; `answered` where it came as far as the branch."""
    words = re.sub(r"'[^']*'", "''", told.lower())  # names and addresses may read like anything
    found = (word for word, said in _SAID if re.search(said, words))
    if answered:
        return next((word for word in found if word != GONE), FAILED)
    return next((word for word in found if word in (NO_RIGHTS, GONE)), UNREACHABLE)


def _verified(
    git_dir: Path, env: Mapping[str, str], remote: Remote, commit: str, ref: str
) -> PushResult:
    there = _head_there(git_dir, env, remote, ref)
    if isinstance(there, PushResult):
        return PushResult(False, f"pushed, but not verified: {there.reason}", UNVERIFIED)
    if there == commit:
        return PushResult(True)
    seen = there or "nothing"
    return PushResult(False, f"pushed, but the remote shows {seen} there", UNVERIFIED)


def _head_there(
    git_dir: Path, env: Mapping[str, str], remote: Remote, ref: str
) -> str | PushResult:
    """The commit that `ref` is at on the remote, "" when it is not there."""
    seen = _talk(git_dir, env, remote, ("ls-remote", remote.url, ref))
    if isinstance(seen, PushResult):
        return seen
    if not seen.ok:
        return _failure(ref.removeprefix("refs/heads/"), seen)
    lines = (line.partition("\t") for line in text(seen.stdout).splitlines())
    return next((commit for commit, _, name in lines if name == ref), "")
