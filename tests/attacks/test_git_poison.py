"""What an agent plants in its clone for git to run or to hide: nothing runs, nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from driver.git.private_git import (
    CommitSpec,
    PrivateGit,
    Repository,
    find_remote,
    open_repository,
)
from driver.workspace.clone_context import CloneContext
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.setup import Preparation
from tests.support.repos import (
    Checkout,
    checkout_fingerprint,
    hook,
    make_bare,
    make_repo,
    user_environ,
)


@pytest.fixture
def user(tmp_path: Path) -> Checkout:
    user = make_repo(
        tmp_path / "user",
        user_environ(tmp_path / "home"),
        {"a.txt": "one\n", "tests/t.py": "assert 1\n"},
    )
    head = user.git("rev-parse", "HEAD")
    user.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    user.git("commit", "-q", "-m", "a submodule")
    (user.path / "vendored").mkdir()
    make_bare(tmp_path / "remote.git", user.environ)
    user.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    return user


@pytest.fixture
def repo(user: Checkout) -> Repository:
    return open_repository(user.path, user.environ)


@pytest.fixture
def context(user: Checkout, repo: Repository, tmp_path: Path) -> CloneContext:
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    return CloneContext(tmp_path / "root", git, repo, Preparation())


class Evil:
    """An agent; `program` is what it wants run, and `ran` whether it was."""

    def __init__(self, folder: Path, user: Checkout, marker: Path) -> None:
        self.clone = Checkout(folder, user.environ)
        self.marker = marker
        self.program = folder / "evil.sh"
        self.program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
        self.program.chmod(0o755)

    @property
    def ran(self) -> bool:
        return self.marker.exists()

    def configure(self, repository: Checkout, *keys: str) -> None:
        for key in keys:
            repository.git("config", key, str(self.program))

    def poison(self, repository: Checkout) -> None:
        """Everything git runs on its own accord, in one repository."""
        self.configure(
            repository, "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.external",
            "diff.x.textconv", "gpg.program", "core.sshCommand", "credential.helper", "core.pager",
            "core.editor", "core.alternateRefsCommand", "uploadpack.packObjectsHook",
        )  # fmt: skip
        repository.git("config", "commit.gpgSign", "true")
        repository.git("config", "url./nowhere/.insteadOf", "/")
        repository.git("config", "core.hooksPath", str(repository.path / "hooks"))
        for name in ("pre-commit", "pre-push", "post-checkout", "reference-transaction",
                     "post-index-change"):  # fmt: skip
            hook(repository.path / "hooks", name, f"touch {self.marker}")
        repository.write({".gitattributes": "* filter=x diff=x\n"})
        self.configure(repository, "core.fsmonitor")


@pytest.fixture
def workspace(context: CloneContext) -> CloneWorkspace:
    return context.workspace("evil")


@pytest.fixture
def evil(workspace: CloneWorkspace, user: Checkout, tmp_path: Path) -> Evil:
    return Evil(workspace.top, user, tmp_path / "EXECUTED")


def whole_way(context: CloneContext, workspace: CloneWorkspace, repo: Repository) -> set[str]:
    """Everything the orchestrator does with an agent's files, twice, ending in a push."""
    git = workspace.context.git
    workspace.collect(["owned/"])
    collected = workspace.collect(["owned/"])
    git.patch(workspace.context.base_tree, collected.tree)
    with context.pool(1).checkout(collected.tree) as place:
        assert place.tampered() == ()
        assert (place.path / "a.txt").read_bytes() == (workspace.top / "a.txt").read_bytes()
    spec = CommitSpec("m", collected.changes, "Bot", "bot@example.org", "1700000000 +0000")
    commit = git.import_commits(repo.head, [spec])[0].commit
    git.create_ref(repo, commit, "refs/heads/wave")
    remote = find_remote(repo, git.environ)
    assert remote is not None
    assert git.push(remote, commit, "wave", None).reason == ""
    git.switch(workspace.context.base_tree, workspace.top, workspace.index)
    return {change.path for change in collected.changes}


def test_programs_named_in_the_clone_never_run(
    evil: Evil, context: CloneContext, workspace: CloneWorkspace, repo: Repository
) -> None:
    (workspace.top / "a.txt").write_text("two\n")
    evil.poison(evil.clone)
    evil.marker.unlink(missing_ok=True)
    evil.clone.git("status", ok=False)
    assert evil.ran, "the poison must work on plain git, or this test shows nothing"
    evil.marker.unlink()
    assert {"a.txt", "evil.sh"} <= whole_way(context, workspace, repo)
    assert not evil.ran


@pytest.mark.sampled(1)
@pytest.mark.parametrize("where", ["new", "vendored", "owned/in"])
def test_programs_named_in_a_nested_repository_never_run(
    evil: Evil, workspace: CloneWorkspace, user: Checkout, where: str
) -> None:
    nested = Checkout(workspace.top / where, user.environ)
    nested.path.mkdir(parents=True, exist_ok=True)
    nested.git("init", "-q")
    nested.commit({"x": "x"})
    evil.poison(nested)
    for content in ("y", "z"):
        (nested.path / "x").write_text(content)
        evil.marker.unlink(missing_ok=True)
        modes = {c.path: c.mode for c in workspace.collect(["owned/"]).changes}
        assert modes[where] == "160000"
        assert workspace.context.git.tampered(workspace.top, workspace.index) is not None
    assert not evil.ran


@pytest.mark.more
def test_a_poisoned_checkout_of_the_user_is_told_without_running_it(
    evil: Evil, user: Checkout, repo: Repository
) -> None:
    before = checkout_fingerprint(repo, user.environ)
    evil.poison(user)
    user.write({"a.txt": "touched\n"})
    evil.marker.unlink(missing_ok=True)
    told = before.differences(checkout_fingerprint(repo, user.environ))
    assert {"config core.sshcommand", "file .gitattributes", "file a.txt"} <= set(told)
    assert not evil.ran


HIDING: dict[str, Callable[[Checkout], object]] = {
    "info/exclude": lambda c: c.write({".git/info/exclude": "conftest.py\n"}),
    "skip-worktree": lambda c: c.git("update-index", "--skip-worktree", "tests/t.py"),
    "assume-unchanged": lambda c: c.git("update-index", "--assume-unchanged", "tests/t.py"),
    "core.excludesFile": lambda c: c.git("config", "core.excludesFile", "/dev/stdin"),
    "core.worktree": lambda c: c.git("config", "core.worktree", "/tmp"),
    "core.fileMode": lambda c: c.git("config", "core.fileMode", "false"),
    "own commit": lambda c: (c.git("add", "-A"), c.git("commit", "-qm", "x")),
    "git pointer": lambda c: (c.git("init", "-q", "--separate-git-dir", "../swapped"),),
    "sparse": lambda c: c.git("sparse-checkout", "set", "nothing", ok=False),
}


@pytest.mark.more
@pytest.mark.parametrize("trick", HIDING)
def test_nothing_on_disk_is_hidden(evil: Evil, workspace: CloneWorkspace, trick: str) -> None:
    HIDING[trick](evil.clone)
    evil.clone.write({"tests/t.py": "pass\n", "conftest.py": "cheat\n"})
    evil.clone.path.joinpath("a.txt").write_text("one\n")
    evil.clone.path.joinpath("a.txt").chmod(0o755)
    changes = {change.path: change for change in workspace.collect(()).changes}
    assert {"tests/t.py", "conftest.py", "a.txt"} <= changes.keys()
    assert workspace.context.git.blob(changes["tests/t.py"].blob or "") == b"pass\n"


def test_an_ignored_helper_is_not_there_when_proven(
    context: CloneContext, workspace: CloneWorkspace
) -> None:
    clone = Checkout(workspace.top, workspace.context.git.environ)
    clone.write({".gitignore": "conftest.py\n.gitignore\n", "conftest.py": "cheat\n"})
    with context.pool(1).checkout(workspace.collect(()).tree) as place:
        assert not (place.path / "conftest.py").exists()


def test_replaced_objects_are_not_believed(
    evil: Evil, workspace: CloneWorkspace, user: Checkout
) -> None:
    honest = user.git("rev-parse", "HEAD:a.txt")
    forged = user.git("hash-object", "-w", "--stdin", stdin=b"forged\n")
    user.git("replace", honest, forged)
    assert workspace.context.git.blob(honest) == b"one\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", [".GIT", ".g\u200cit", "git~1"])
def test_names_that_are_a_git_dir_elsewhere_never_get_in(
    workspace: CloneWorkspace, name: str
) -> None:
    (workspace.top / name).mkdir()
    (workspace.top / name / "config").write_text("[core]\n")
    assert workspace.collect([f"{name}/"]).changes == ()
