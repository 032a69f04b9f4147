"""Finds the user's remote as it was at the start, lists its refs, and fetches from it.

A remote that does not answer gives a PushResult, without credentials. `push` sends commits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from driver.execution.processes import Captured, Command, Ending, Processes
from driver.git.command import (
    NETWORK_TIMEOUT_S,
    frozen_environment,
    last_words,
    raw,
    redacted,
    run_git,
    talking,
    text,
)
from driver.git.push_result import INTERRUPTED, UNREACHABLE, PushResult, failure_of
from driver.git.repository import Repository, configured, git_in
from state_store.documents.errors import InputError
from state_store.values.lazy_dataclass import dataclass, field

_FROZEN = re.compile(r"(credential|http|ssh)\..*|core\.(sshcommand|askpass|gitproxy)", re.DOTALL)
_FETCHED = "refs/tidegate/target"


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote as configured at the start. Agents cannot redirect it afterwards.

    `url` is the literal push URL, `address` the configured fetch URL, `config` the settings for
    logging in. All may contain secrets and stay out of `repr`. Programs that talk to the remote run
    in `processes`, and so end with the wave.
    """

    name: str
    url: str = field(repr=False)
    config: tuple[tuple[str, str], ...] = field(repr=False, default=())
    processes: Processes = field(repr=False, compare=False, default_factory=Processes)
    address: str = field(repr=False, default="")


def find_remote(
    repo: Repository,
    environ: Mapping[str, str],
    name: str | None = None,
    processes: Processes | None = None,
    settings: Sequence[tuple[str, str]] = (),
) -> Remote | None:
    """The remote to ship to: `name`, else the branch's remote, `origin`, or the only remote.
    `settings` are those that are `configured`, if they were just read.

    Raises InputError if `name` is not configured.
    """
    settings = settings or configured(repo, environ)
    last = dict(settings)
    there = {key[len("remote.") : -len(".url")]: None for key, _ in settings
             if key.startswith("remote.") and key.endswith(".url")}  # fmt: skip
    if name is not None and name not in there:
        known = ", ".join(there) or "none"
        raise InputError(f"{repo.top} has no remote named {name} (it has: {known})")
    wanted = (
        name,
        last.get(f"branch.{repo.branch}.pushremote"),
        last.get("remote.pushdefault"),
        last.get(f"branch.{repo.branch}.remote"),
        "origin",
        next(iter(there)) if len(there) == 1 else None,
    )
    chosen = next((one for one in wanted if one in there), None)
    if chosen is None:
        return None
    url = _push_url(settings, chosen)
    if not url:
        asked = git_in(repo, environ, "remote", "get-url", "--push", chosen).stdout
        url = text(asked).splitlines()[0]
    if ":" not in url.split("/", 1)[0] and not url.startswith(("/", "~")):
        url = str(repo.top / url)  # relative to the user's checkout
    frozen = tuple((key, value) for key, value in settings if _FROZEN.fullmatch(key))
    address = last[f"remote.{chosen}.url"]
    return Remote(chosen, url, frozen, processes or Processes(), address)


def _push_url(settings: Sequence[tuple[str, str]], name: str) -> str:
    """The URL to which git pushes to a remote; "" if git has to be asked."""
    if any(key.endswith(("insteadof", ".vcs")) for key, _ in settings):
        return ""
    urls = [value for key, value in settings if key == f"remote.{name}.url"]
    push_urls = [value for key, value in settings if key == f"remote.{name}.pushurl"]
    return "" if not all(urls + push_urls) else (push_urls or urls)[0]


def refs_on(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, *patterns: str
) -> dict[str, str] | PushResult:
    """The remote's refs that match `patterns`, with their commits."""
    return _listed(git_dir, environ, remote, remote.name, patterns)


def head_of(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, branch: str
) -> str | PushResult:
    """The commit of `branch` on the remote; "" if there is no such branch."""
    ref = f"refs/heads/{branch}"
    there = _listed(git_dir, environ, remote, branch, (ref,))
    return there if isinstance(there, PushResult) else there.get(ref, "")


def heads_on(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, timeout_s: float
) -> dict[str, str] | PushResult:
    """The remote's branches with their commits."""
    seen = talk(git_dir, environ, remote, ("ls-remote", "--heads", remote.url), timeout_s)
    if isinstance(seen, PushResult):
        return seen
    if not seen.ok:
        return PushResult(False, last_words(redacted(text(seen.stderr))), UNREACHABLE)
    return {ref.removeprefix("refs/heads/"): commit for ref, commit in _refs_in(seen).items()}


def why_unreachable(
    remote: Remote, repo: Repository, environ: Mapping[str, str], timeout_s: float
) -> str:
    """The reason why the remote does not answer, without credentials, or "". Never prompts."""
    seen = heads_on(repo.git_dir, environ, remote, timeout_s)
    return seen.reason if isinstance(seen, PushResult) else ""


def fetch_refs(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, refs: Iterable[str]
) -> PushResult:
    """Fetch refs of the remote into `git_dir`, as refs of ours."""
    wanted = [f"+{ref}:refs/tidegate/seen/{ref.removeprefix('refs/')}" for ref in refs]
    if not wanted:
        return PushResult(True)
    return _fetched(git_dir, environ, remote, remote.name, wanted)


def fetch_head(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, branch: str, known: str
) -> str | PushResult:
    """The commit of `branch` on the remote; "" if there is no such branch. Fetches it into
    `git_dir` unless it is `known`."""
    there = head_of(git_dir, environ, remote, branch)
    if isinstance(there, PushResult) or there in ("", known):
        return there
    done = _fetched(git_dir, environ, remote, branch, [f"+refs/heads/{branch}:{_FETCHED}"])
    if not done.ok:
        return done
    asked = (f"--git-dir={git_dir}", "rev-parse", "--verify", "-q", _FETCHED)
    env = access_environment(environ, git_dir, remote)
    return text(run_git(asked, cwd=git_dir, env=env).stdout).strip()


def access_environment(environ: Mapping[str, str], git_dir: Path, remote: Remote) -> dict[str, str]:
    """The environment for talking to the remote, in which no program may prompt."""
    env = frozen_environment(environ, git_dir, remote.config)
    command = env.get("GIT_SSH_COMMAND") or dict(remote.config).get("core.sshcommand") or "ssh"
    if PurePath(command.split()[0]).stem == "ssh" and "GIT_SSH" not in env:
        env["GIT_SSH_COMMAND"] = f"{command} -oBatchMode=yes"
    return env


def default_branch(git_dir: Path, environ: Mapping[str, str], remote: Remote) -> str:
    """The default branch of the remote; "" if unknown."""
    seen = talk(git_dir, environ, remote, ("ls-remote", "--symref", remote.url, "HEAD"))
    if isinstance(seen, PushResult) or not seen.ok:
        return ""
    found = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", text(seen.stdout), re.MULTILINE)
    return found[1] if found else ""


def talk(
    git_dir: Path,
    environ: Mapping[str, str],
    remote: Remote,
    args: Sequence[str],
    timeout_s: float = NETWORK_TIMEOUT_S,
    point: str = "",
) -> Captured | PushResult:
    """Run a git command that talks to the remote. A PushResult if it did not end by itself. `point`
    names its failure points."""
    # Supervised like an agent: a push that outlived us could arrive during the next run.
    argv, env = ("git", f"--git-dir={git_dir}", *args), access_environment(environ, git_dir, remote)
    with talking(argv, point):
        done = remote.processes.run(Command(argv, git_dir, env, timeout_s))
    if done.ending is Ending.CANCELLED:
        why = f"git {args[0]} was interrupted: it may have reached the remote"
        return PushResult(False, why, INTERRUPTED)
    if done.exit_code is None:
        return PushResult(False, f"git {args[0]}: {redacted(done.reason)}", UNREACHABLE)
    return Captured(argv, done.exit_code, raw(done.stdout), raw(done.stderr))


def _listed(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, about: str, patterns: Iterable[str]
) -> dict[str, str] | PushResult:
    """The refs that match `patterns`. A refusal names the branch or remote `about`."""
    seen = talk(git_dir, environ, remote, ("ls-remote", remote.url, *patterns))
    if isinstance(seen, PushResult):
        return seen
    return _refs_in(seen) if seen.ok else failure_of(about, seen)


def _refs_in(listed: Captured) -> dict[str, str]:
    lines = (line.partition("\t") for line in text(listed.stdout).splitlines())
    return {ref: commit for commit, _, ref in lines}


def _fetched(
    git_dir: Path, environ: Mapping[str, str], remote: Remote, about: str, wanted: Sequence[str]
) -> PushResult:
    args = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
            "--no-auto-gc", remote.url, *wanted)  # fmt: skip
    done = talk(git_dir, environ, remote, args)
    if isinstance(done, PushResult):
        return done
    return PushResult(True) if done.ok else failure_of(about, done)
