"""The user's repository: its folder, branches and configuration.

This module writes only one line in `info/exclude`, and fast-forwards a branch if the user asked to
ship onto it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from driver.execution.processes import Captured
from driver.filesystem.safe_file_access import regular_bytes
from driver.git.command import (
    BULK_TIMEOUT_S,
    LOCAL_TIMEOUT_S,
    GitError,
    c_quoted,
    c_unquoted,
    raw,
    records,
    run_git,
    text,
    user_environment,
    with_config,
)
from driver.terminal.safe_text import counted
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.files import is_folder
from state_store.values.lazy_dataclass import dataclass, replace

_NO_WORK_TREE = (b"must be run in a work tree", b"bare repository")
_FACTS = 5  # that git tells of a repository, a line each, before its commit
_ELSEWHERE = "refs/heads/.invalid"  # in the HEAD of a repository that keeps its refs in a table
_OLDEST_GIT = (2, 32)  # the first with GIT_CONFIG_GLOBAL and GIT_CONFIG_COUNT, which isolate git

# No dots: those of a name that ends in ".lock", or of "a..b", are for git.
_PLAIN_REF = re.compile(r"refs/(heads|tidegate)(/[\w-]+)+", re.ASCII)
_REF_FILE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n")

_VERSIONS: dict[str, str] = {}  # by the path of the program: it is asked once


@dataclass(frozen=True, slots=True)
class Repository:
    """A checkout of the user. `branch` is None on a detached HEAD. All paths are absolute."""

    top: Path
    git_dir: Path
    common_dir: Path
    head: str
    branch: str | None
    object_format: str
    shallow: bool
    objects: Path


def open_repository(path: Path, environ: Mapping[str, str]) -> Repository:
    """Open the checkout that contains `path`.

    Raises InputError if there is no checkout, or no commit yet; CannotRunError if git is missing or
    too old, or refuses because another user owns the repository.
    """
    if not path.is_dir():
        raise InputError(f"{path} is not a folder: name a folder inside a git repository")
    git_version(path, environ)
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir",
             "--git-common-dir", "--show-object-format", "--is-shallow-repository",
             "HEAD^{commit}")  # fmt: skip
    done = run_git(asked, cwd=path, env=user_environment(environ), accept=(0, 128))
    lines = text(done.stdout).splitlines()
    if not done.ok and len(lines) < _FACTS:
        raise _refusal(path, done.argv, done.stderr)
    if not done.ok and len(lines) in (_FACTS, _FACTS + 1):  # git repeats what it cannot resolve
        raise InputError(f"{lines[0]} has no commit yet: make a commit first")
    if len(lines) != _FACTS + 1:
        raise InputError(f"the path of the repository at {path} has a line break: rename it")
    top, git_dir, common_dir = (Path(line) for line in lines[:3])
    *_, object_format, shallow, head = lines
    objects, is_shallow = common_dir / "objects", shallow == "true"
    found = Repository(top, git_dir, common_dir, head, None, object_format, is_shallow, objects)
    return replace(found, branch=_branch_of(found, environ))


def opened_again(repo: Repository, environ: Mapping[str, str]) -> Repository:
    """Read again which commit and branch a checkout shows. Raises as `open_repository` does, which
    is asked unless the files of git name the commit for certain."""
    with suppress(OSError):
        branch = _branch_of(repo, environ)
        head = _commit_in_files(repo, f"refs/heads/{branch}") if branch else None
        if head and os.path.lexists(repo.common_dir / "shallow") == repo.shallow:
            return replace(repo, head=head, branch=branch)
    return open_repository(repo.top, environ)


def _branch_of(repo: Repository, environ: Mapping[str, str]) -> str | None:
    """The branch that is checked out; None on a detached HEAD."""
    path = repo.git_dir / "HEAD"
    ref = "" if path.is_symlink() else text(regular_bytes(path)).strip()
    if ref == f"ref: {_ELSEWHERE}" or not ref:
        found = git_in(repo, environ, "symbolic-ref", "-q", "HEAD", accept=(0, 1))
        ref = f"ref: {text(found.stdout)}".strip()
    if not ref.startswith("ref: "):
        return None
    return ref.removeprefix("ref: ").removeprefix("refs/heads/") or None


def git_in(
    repo: Repository,
    environ: Mapping[str, str],
    *args: str,
    accept: Sequence[int] = (0,),
    timeout_s: float = LOCAL_TIMEOUT_S,
) -> Captured:
    """Run git in the user's checkout, with their configuration; see `run_git`."""
    argv = (f"--git-dir={repo.git_dir}", f"--work-tree={repo.top}", *args)
    env = user_environment(environ)
    return run_git(argv, cwd=repo.top, env=env, accept=accept, timeout_s=timeout_s)


def configured(repo: Repository, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """The user's git configuration in the checkout, in order. The last value of a key counts."""
    listed = records(git_in(repo, environ, "config", "-z", "--list").stdout)
    pairs = (record.partition("\n") for record in listed)
    # A key without "=" is a true boolean. The environment needs a value.
    return [(key, value if gap else "true") for key, gap, value in pairs]


def check_usable(repo: Repository, environ: Mapping[str, str]) -> None:
    """Raise CannotRunError for a repository that a wave cannot use or guard."""
    _check_refs(repo, environ)
    _check_complete(repo, environ)


def _check_refs(repo: Repository, environ: Mapping[str, str]) -> None:
    """Refuses a reftable, because the checkout guard reads refs as files."""
    try:
        config = regular_bytes(repo.common_dir / "config").lower()
    except OSError:
        return
    if b"refstorage" not in config:  # the usual case, which saves a process
        return
    kept_as = dict(configured(repo, environ)).get("extensions.refstorage", "files")
    if kept_as.partition(":")[0].lower() != "files":
        raise CannotRunError(
            f"{repo.top} keeps its refs as a {kept_as}, which cannot be watched yet: convert them"
            f" to files with git -C {shlex.quote(str(repo.top))} refs migrate --ref-format=files"
        )


def _check_complete(repo: Repository, environ: Mapping[str, str]) -> None:
    """Refuses a partial clone that lacks objects of its commit. Only the user's git fetches
    them."""
    if not any((repo.objects / "pack").glob("*.promisor")):
        return
    asked = ("rev-list", "--objects", "--missing=print", f"{repo.head}^{{tree}}")
    listed = git_in(repo, environ, *asked, timeout_s=BULK_TIMEOUT_S).stdout
    if missing := sum(line.startswith(b"?") for line in listed.splitlines()):
        nothing = text(git_in(repo, environ, "hash-object", "-t", "tree", "--stdin").stdout).strip()
        raise CannotRunError(
            f"{repo.top} is a partial clone that lacks {counted(missing, 'object')} of its commit:"
            f" get them with git -C {shlex.quote(str(repo.top))} diff --shortstat {nothing} HEAD"
        )


def git_version(cwd: Path, environ: Mapping[str, str]) -> str:
    """The output of `git version`. Raises CannotRunError if git is missing or too old."""
    env = user_environment(environ)
    program = shutil.which("git", path=env.get("PATH")) or ""
    if program not in _VERSIONS:
        _VERSIONS[program] = text(run_git(("version",), cwd=cwd, env=env).stdout).strip()
    version = _VERSIONS[program]
    found = re.search(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < _OLDEST_GIT:
        raise CannotRunError(f"{version} is too old: install git 2.32 or newer")
    return version


def _refusal(path: Path, argv: Sequence[str], stderr: bytes) -> Exception:
    if b"dubious ownership" in stderr or b"unsafe repository" in stderr:
        return CannotRunError(
            f"git does not trust the repository at {path} because another user owns it: "
            f"run git config --global --add safe.directory '{path}'"
        )
    if b"not a git repository" in stderr:
        return InputError(
            f"{path} is not inside a git repository: run git init, or name one by --repo"
        )
    if any(words in stderr for words in _NO_WORK_TREE):
        return InputError(f"{path} has no checkout (a bare repository or a git dir): name one")
    return GitError(argv, 128, stderr)


def toplevel_of(path: Path, environ: Mapping[str, str]) -> Path | None:
    """The top of the checkout that contains `path`, which may not exist yet; None outside any."""
    nearest = path.absolute()
    while not is_folder(nearest):
        nearest = nearest.parent
    if not may_be_in_repository(nearest):
        return None
    # A checkout of another user counts too. This command runs no program of the repository.
    env = with_config(user_environment(environ), (("safe.directory", "*"),))
    asked = ("rev-parse", "--path-format=absolute", "--show-toplevel")
    done = run_git(asked, cwd=nearest, env=env, accept=(0, 128))
    return Path(text(done.stdout).removesuffix("\n")) if done.ok else None


def may_be_in_repository(folder: Path) -> bool:
    """False if git cannot find a repository from a folder: none above it has a `.git`, or is a git
    dir itself."""
    real = Path(os.path.realpath(folder))
    return any(
        os.path.lexists(one / ".git") or (os.path.lexists(one / "HEAD") and (one / "refs").is_dir())
        for one in (real, *real.parents)
    )


def is_git_dir(path: Path, environ: Mapping[str, str]) -> bool:
    """True if a folder outside any checkout is in a git dir or bare repository."""
    env = with_config(user_environment(environ), (("safe.directory", "*"),))
    done = run_git(("rev-parse", "--show-toplevel"), cwd=path, env=env, accept=(0, 128))
    return any(words in done.stderr for words in _NO_WORK_TREE)


def exclude_from_status(repo: Repository, pattern: str) -> None:
    """Add `pattern` to the user's `info/exclude`, once."""
    path = Path(os.path.realpath(repo.common_dir / "info" / "exclude"))
    before = regular_bytes(path) if path.exists() else b""
    if raw(pattern) in before.splitlines():
        return
    path.parent.mkdir(exist_ok=True)
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    fresh = path.with_name(f"exclude.{os.getpid()}")
    fresh.write_bytes(before + gap + raw(pattern) + b"\n")
    fresh.replace(path)


def fast_forward(repo: Repository, commit: str, environ: Mapping[str, str]) -> str:
    """Fast-forward the user's checkout to `commit`. Returns "" or the reason of git's refusal.

    Git itself protects uncommitted work. The user's filters apply, because the files are theirs. No
    hook runs.
    """
    merge = ("merge", "--ff-only", "--no-autostash", "--no-stat", "--quiet", commit)
    env, accepted = user_environment(environ), (0, 1, 2, 128)
    done = run_git(merge, cwd=repo.top, env=env, timeout_s=BULK_TIMEOUT_S, accept=accepted)
    return "" if done.ok else GitError(done.argv, done.exit_code, done.stderr).args[0]


def lay_git_dir(
    path: Path,
    repo: Repository,
    *,
    head: str,
    branch: str | None = None,
    config: str = "",
) -> None:
    """Write a git dir that borrows the user's objects, without template, hooks or remote.

    `head` is a commit, or what the file HEAD says. `config` continues the `[core]` section.

    Six small writes are faster than `git clone --shared`, a process of 40 ms.
    """
    sha256 = repo.object_format == "sha256"
    path.mkdir(parents=True, exist_ok=True)
    top = str(path)  # joined texts, as each test run lays a git dir
    for folder in ("objects", "objects/info", "refs", "refs/heads", "info"):
        with suppress(FileExistsError):
            os.mkdir(f"{top}/{folder}")  # noqa: PTH102
    lines = "[extensions]\n\tobjectFormat = sha256\n" if sha256 else ""
    lines += f"[core]\n\trepositoryformatversion = {int(sha256)}\n{config}"
    files = {"config": lines.encode("utf-8")}
    if branch is not None:
        files["packed-refs"] = raw(f"{head} refs/heads/{branch}\n")
    files["HEAD"] = raw(f"ref: refs/heads/{branch}\n" if branch else f"{head}\n")
    for name, content in files.items():
        with open(f"{top}/{name}", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(content)
    borrow_objects(path, repo)


def replace_in_refs(git_dir: Path, old: str, new: str) -> None:
    """Let a git dir of `lay_git_dir` show another commit as its HEAD. The files keep their
    times."""
    for ref in (git_dir / "packed-refs", git_dir / "HEAD"):
        if ref.exists():
            before = ref.stat()
            ref.write_bytes(regular_bytes(ref).replace(raw(old), raw(new)))
            os.utime(ref, ns=(before.st_atime_ns, before.st_mtime_ns))


def borrow_objects(git_dir: Path, repo: Repository, *more: Path) -> None:
    """Let a git dir read the user's objects and the `more` object folders. Copies the shallow
    file."""
    lines = (c_quoted(objects.as_posix()) + b"\n" for objects in (repo.objects, *more))
    (git_dir / "objects" / "info" / "alternates").write_bytes(b"".join(lines))
    if repo.shallow:
        shutil.copyfile(repo.common_dir / "shallow", git_dir / "shallow")


def read_from(objects: Path) -> tuple[Path, ...]:
    """A folder of objects, and those that it borrows from."""
    found, waiting = dict[Path, None](), [objects]
    while waiting:
        folder = waiting.pop()
        if folder in found:
            continue
        found[folder] = None
        with suppress(OSError):
            lines = regular_bytes(folder / "info" / "alternates").splitlines()
            named = (text(c_unquoted(line)) for line in lines if line and line[:1] != b"#")
            waiting += [folder / one for one in named]
    return tuple(found)


def commit_at(repo: Repository, ref: str, environ: Mapping[str, str]) -> str:
    """The commit of a ref in the user's repository; "" if there is no such ref."""
    if (found := _commit_in_files(repo, ref)) is not None:
        return found
    asked = ("rev-parse", "-q", "--verify", ref)
    return text(git_in(repo, environ, *asked, accept=(0, 1)).stdout).strip()


def _commit_in_files(repo: Repository, ref: str) -> str | None:
    """The commit of a plain ref as the files of git tell it; "" if there is no such ref, None if
    git has to be asked."""
    if not _PLAIN_REF.fullmatch(ref):
        return None
    path, packed = repo.common_dir / ref, b""
    try:
        with suppress(FileNotFoundError):  # then it may be in the file of all refs
            if not stat.S_ISDIR(path.lstat().st_mode):
                content = regular_bytes(path)
                plain = _REF_FILE.fullmatch(content) and not path.is_symlink()
                return text(content[:-1]) if plain else None
        with suppress(FileNotFoundError):
            packed = regular_bytes(repo.common_dir / "packed-refs")
    except OSError:  # where the refs are in a table, no folder of them is there
        return None
    found = re.search(rb"^([0-9a-f]+) %s$" % re.escape(raw(ref)), packed, re.MULTILINE)
    return text(found[1]) if found else ""
