"""Each way to have git run a program, against each git verb in the environment that we run git in.

A poison is laid in an agent's clone. First every verb runs over the clone's files through our own
git dir, then plain git runs the one command that the poison is made for: there it has to act, or
it would show nothing. The default run has every fourth poison; all of them:
`python -m pytest -m "sweep or not sweep" -s tests/attacks/test_poison_matrix.py`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.git.command import run_git
from driver.git.private_git import PrivateGit, Repository, open_repository
from driver.workspace.clone_context import CloneContext
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.setup import Preparation
from tests.support.beside import beside_on
from tests.support.repos import Checkout, frozen, hook, make_bare, make_repo, user_environ

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="poison is made of shell scripts")

Trigger = Sequence[str] | None
USER = ("-c", "user.name=x", "-c", "user.email=x@x")


@dataclass(frozen=True, slots=True)
class Lab:
    """An agent's clone, a program of its own, and the file that is there once that ran."""

    clone: Checkout
    program: Path
    marker: Path

    @property
    def git_dir(self) -> Path:
        return self.clone.path / ".git"

    def set(self, *pairs: str) -> None:
        """Set configuration; `@` stands for the program."""
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.clone.git("config", key, value.replace("@", str(self.program)))

    def attributes(self, line: str, where: str = ".gitattributes") -> None:
        (self.git_dir.parent / where).write_text(f"{line}\n")

    def hook(self, name: str) -> None:
        # A clone says hooksPath = nowhere; who poisons it takes that away first.
        self.clone.git("config", "--unset", "core.hooksPath", ok=False)
        hook(self.git_dir / "hooks", name, f"touch {self.marker}")


Poison = Callable[[Lab], Trigger]
POISONS: dict[str, Poison] = {}


def poison(name: str) -> Callable[[Poison], Poison]:
    def keep(made: Poison) -> Poison:
        POISONS[name] = made
        return made

    return keep


COMMIT = (*USER, "commit", "-aqm", "x")
KEYS: dict[str, tuple[tuple[str, ...], str, Trigger]] = {
    "core.fsmonitor": (("core.fsmonitor", "@"), "", ("status",)),
    "filter.clean": (("filter.x.clean", "@"), "* filter=x", ("add", "-A")),
    "filter.smudge": (("filter.x.smudge", "@"), "* filter=x", ("checkout-index", "-fa")),
    "filter.process": (("filter.x.process", "@"), "* filter=x", ("add", "-A")),
    "diff.external": (("diff.external", "@"), "", ("diff",)),
    "diff.textconv": (("diff.x.textconv", "@"), "* diff=x", ("diff",)),
    "diff.command": (("diff.x.command", "@"), "* diff=x", ("diff",)),
    "gpg.program": (("gpg.program", "@", "commit.gpgSign", "true"), "", COMMIT),
    "gpg.ssh.program": (
        ("gpg.format", "ssh", "gpg.ssh.program", "@", "commit.gpgSign", "true",
         "user.signingKey", "key::ssh-ed25519 AAAA"),
        "",
        COMMIT,
    ),
    "core.sshCommand": (("core.sshCommand", "@"), "", ("fetch", "ssh://127.0.0.1/x")),
    "core.gitProxy": (("core.gitProxy", "@"), "", ("fetch", "git://127.0.0.1/x")),
    "credential.helper": (("credential.helper", "@"), "", ("credential", "fill")),
    "core.askPass": (("core.askPass", "@"), "", ("credential", "fill")),
    "core.editor": (("core.editor", "@"), "", (*USER, "commit", "-aq")),
    "alias": (("alias.up", "!@"), "", ("up",)),
    "merge.driver": (("merge.x.driver", "@"), "* merge=x", None),
    "remote.uploadpack": (
        ("remote.o.url", "/nowhere", "remote.o.uploadpack", "@"), "", ("fetch", "o"),
    ),
    "remote.receivepack": (
        ("remote.o.url", "/nowhere", "remote.o.receivepack", "@"), "", ("push", "o", "HEAD"),
    ),
    "ext transport": (
        ("protocol.ext.allow", "always", "remote.o.url", "ext::@ x"), "", ("fetch", "o"),
    ),
    "tar.command": (("tar.evil.command", "@"), "", ("archive", "--format=evil", "HEAD")),
    "trailer.command": (
        ("trailer.x.key", "X", "trailer.x.cmd", "@"), "", ("interpret-trailers", "--trailer", "x"),
    ),
    "difftool": (("difftool.x.cmd", "@"), "", ("difftool", "-y", "-t", "x")),
    "interactive.diffFilter": (("interactive.diffFilter", "@"), "", None),
    "url.insteadOf": (("url./nowhere/.insteadOf", "/"), "", None),
    "core.worktree": (("core.worktree", "/nowhere"), "", None),
    "core.pager": (("core.pager", "@", "pager.log", "true"), "", None),
    "core.alternateRefsCommand": (("core.alternateRefsCommand", "@"), "", None),
}  # fmt: skip
HOOKS: dict[str, Trigger] = {
    "pre-commit": COMMIT,
    "prepare-commit-msg": COMMIT,
    "post-commit": COMMIT,
    "post-checkout": ("checkout", "-qb", "other"),
    "post-index-change": ("update-index", "--force-remove", "a.txt"),
    "reference-transaction": ("update-ref", "refs/heads/other", "HEAD"),
    "pre-push": ("push", "../remote.git", "HEAD:refs/heads/other"),
    "pre-auto-gc": None,
}


def _configured(lab: Lab, name: str) -> Trigger:
    pairs, attributes, trigger = KEYS[name]
    lab.set(*pairs)
    if attributes:
        lab.attributes(attributes)
    return trigger


def _hooked(lab: Lab, name: str) -> Trigger:
    lab.hook(name)
    return HOOKS[name]


for _name in KEYS:
    POISONS[_name] = lambda lab, name=_name: _configured(lab, name)  # type: ignore[misc]
for _name in HOOKS:
    POISONS[f"hook {_name}"] = lambda lab, name=_name: _hooked(lab, name)  # type: ignore[misc]


@poison("core.hooksPath")
def _hooks_path(lab: Lab) -> Trigger:
    lab.set("core.hooksPath", str(lab.clone.path / "hooks"))
    hook(lab.clone.path / "hooks", "post-index-change", f"touch {lab.marker}")
    return ("update-index", "--force-remove", "a.txt")


@poison("include.path")
def _included(lab: Lab) -> Trigger:
    lab.clone.write({"more.cfg": f"[core]\nfsmonitor = {lab.program}\n"})
    lab.clone.git("config", "--unset", "core.fsmonitor")
    lab.set("include.path", str(lab.clone.path / "more.cfg"))
    return ("status",)


@poison("includeIf")
def _included_if(lab: Lab) -> Trigger:
    _included(lab)
    lab.clone.git("config", "--unset", "include.path")
    lab.set("includeIf.gitdir:/.path", str(lab.clone.path / "more.cfg"))
    return ("status",)


@poison("config.worktree")
def _worktree_config(lab: Lab) -> Trigger:
    lab.set("extensions.worktreeConfig", "true")
    (lab.git_dir / "config.worktree").write_text(f"[core]\nfsmonitor = {lab.program}\n")
    return ("status",)


@poison("info/attributes")
def _info_attributes(lab: Lab) -> Trigger:
    lab.set("filter.x.clean", "@")
    lab.attributes("* filter=x", ".git/info/attributes")
    return ("add", "-A")


@poison("core.attributesFile")
def _attributes_file(lab: Lab) -> Trigger:
    lab.attributes("* filter=x", "more.attributes")
    lab.set("filter.x.clean", "@", "core.attributesFile", str(lab.clone.path / "more.attributes"))
    return ("add", "-A")


@poison("swapped git pointer")
def _pointer(lab: Lab) -> Trigger:
    lab.set("core.fsmonitor", "@")
    away = lab.clone.path / "away.git"
    lab.git_dir.rename(away)
    lab.git_dir.write_text("gitdir: away.git\n")
    return ("status",)


@poison("bare repository inside")
def _bare(lab: Lab) -> Trigger:
    trap = make_bare(lab.clone.path / "trap", lab.clone.environ)
    trap.git("config", "core.bare", "false")
    trap.git("config", "core.worktree", str(trap.path))
    trap.git("config", "core.fsmonitor", str(lab.program))
    return ("-C", "trap", "status")


@poison("repository in a submodule's place")
def _nested(lab: Lab) -> Trigger:
    inner = Checkout(lab.clone.path / "vendored", lab.clone.environ)
    inner.path.mkdir(exist_ok=True)
    inner.git("init", "-q")
    inner.commit({"x": "x\n"})
    inner.git("config", "core.fsmonitor", str(lab.program))
    return ("status",)


# Over the clone's files and an index of our own. `{tree}`, `{commit}`, `{remote}` are filled in.
VERBS: tuple[tuple[str, ...], ...] = (
    ("status", "--porcelain"),
    ("ls-files", "-z", "-m", "-o", "--exclude-standard"),
    ("update-index", "-q", "--refresh"),
    ("add", "--intent-to-add", "a.txt"),
    ("add", "a.txt"),
    ("diff", "--stat"),
    ("diff-files", "-p"),
    ("diff-index", "-p", "{tree}"),
    ("diff-tree", "-p", "{tree}", "{commit}"),
    ("write-tree",),
    ("commit-tree", "-m", "x", "{tree}"),
    ("read-tree", "{tree}"),
    ("checkout-index", "-f", "a.txt"),
    ("checkout", "{tree}", "--", "a.txt"),
    ("hash-object", "-w", "a.txt"),
    ("cat-file", "--filters", "{commit}:a.txt"),
    ("cat-file", "--textconv", "{commit}:a.txt"),
    ("check-attr", "-a", "a.txt"),
    ("log", "-p", "-1", "{commit}"),
    ("show", "{commit}"),
    ("grep", "one", "{commit}"),
    ("archive", "{commit}"),
    ("blame", "{commit}", "--", "a.txt"),
    ("merge-tree", "{commit}", "{commit}", "{commit}"),
    ("merge-base", "--is-ancestor", "{commit}", "{commit}"),
    ("update-ref", "refs/heads/w", "{commit}"),
    ("symbolic-ref", "HEAD", "refs/heads/w"),
    ("commit", "-q", "--allow-empty", "-m", "x"),
    ("rev-parse", "HEAD"),
    ("ls-tree", "-r", "{tree}"),
    ("pack-refs", "--all"),
    ("gc", "-q"),
    ("push", "-q", "-f", "{remote}", "{commit}:refs/heads/w"),
    ("fetch", "-q", "{remote}", "refs/heads/w"),
    ("ls-remote", "{remote}"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A user's repository, and an agent's clone of it that is to be poisoned."""

    user: Checkout
    repo: Repository
    workspace: CloneWorkspace
    lab: Lab


def a_place(folder: Path) -> Place:
    files = {"a.txt": "one\n", "b.txt": "b\n"}
    user = make_repo(folder / "user", user_environ(folder / "home"), files)
    head = user.git("rev-parse", "HEAD")
    user.git("update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    user.git("commit", "-q", "-m", "a submodule")
    (user.path / "vendored").mkdir()
    make_bare(folder / "root" / "items" / "remote.git", user.environ)
    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(folder / "private", repo, user.environ)
    context = CloneContext(folder / "root", git, repo, Preparation())
    workspace = context.workspace("evil")
    program, marker = folder / "evil.sh", folder / "EXECUTED"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    program.chmod(0o755)
    lab = Lab(Checkout(workspace.top, user.environ), program, marker)
    return Place(user, repo, workspace, lab)


in_a_place = beside_on(lambda folder: nullcontext(a_place(folder)))


def run_verbs(workspace: CloneWorkspace, repo: Repository, remote: Path) -> Iterator[str]:
    """Run every verb as we run git, and name each."""
    git, index = workspace.context.git, workspace.index.with_suffix(".matrix")
    shutil.copy(workspace.index, index)
    env = {**git.env, "GIT_INDEX_FILE": str(index)}
    facts = {"tree": workspace.context.base_tree, "commit": repo.head, "remote": str(remote)}
    at = (f"--git-dir={git.path}", f"--work-tree={workspace.top}")
    for verb in VERBS:
        words = [word.format(**facts) for word in verb]
        run_git((*at, *words), cwd=workspace.top, env=env, accept=(0, 1))
        yield verb[0]


# Every fourth in the default run, for they take a while.
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.sweep] if number % 4 else [])
        for number, name in enumerate(POISONS)
    ],
)
@in_a_place
def test_no_verb_runs_what_an_agent_planted(place: Place, name: str) -> None:
    user, workspace, lab = place.user, place.workspace, place.lab
    trigger = POISONS[name](lab)
    (lab.clone.path / "a.txt").write_text("two\n")
    lab.marker.unlink(missing_ok=True)
    before, remote = frozen(user.path), lab.clone.path.parent / "remote.git"
    for verb in run_verbs(workspace, place.repo, remote):
        assert not lab.marker.exists(), f"git {verb} ran what {name} names"
    (lab.clone.path / "a.txt").write_text("two\n")  # verbs write files, too
    changes = {change.path for change in workspace.collect(["a.txt"]).changes}
    assert not lab.marker.exists()
    assert "a.txt" in changes
    assert frozen(user.path) == before
    if trigger is not None:
        (lab.clone.path / "a.txt").write_text("three\n")
        shown = Checkout(lab.clone.path, {**user.environ, "GIT_TERMINAL_PROMPT": "0"})
        shown.git(*trigger, ok=False, stdin=b"protocol=https\nhost=x\n\n")
        assert lab.marker.exists(), "the poison must work on plain git, or this shows nothing"


def test_the_matrix_is_as_large_as_promised() -> None:
    verbs = {verb[0] for verb in VERBS}
    print(  # noqa: T201 - the numbers are what this is for
        f"\nmeasure=git_poison poisons={len(POISONS)} verbs={len(verbs)} "
        f"runs={len(POISONS) * len(VERBS)} executed=0 target=0"
    )
    assert len(POISONS) >= 25
    assert len(verbs) >= 20
