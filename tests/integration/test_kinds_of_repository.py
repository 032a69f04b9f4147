"""Repositories as users have them: a wave ships in each, or says in one sentence why not.

The user's checkout and git dir are as they were before, to the byte.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import SCHEDULER, Ran, run, run_here
from tests.support.repos import Checkout, frozen, hook, make_bare, make_repo, user_environ

GREEN, BAD_INPUT, CANNOT_RUN = 0, 2, 4
FILES = {"work.txt": "to do\n", "src/kept.txt": "kept\n", "README.md": "a project\n"}
NOT_COMPARED = ("/refs/heads/wave/", "/objects/")


@dataclass
class Case:
    """A user's machine with one repository; `shipped_from` is where its branches can be had."""

    home: Path
    environ: dict[str, str]
    repo: Checkout = field(init=False)
    config: str = ""
    work: str = "printf 'done\\n' > work.txt"
    owned: str = "work.txt"
    test: str = "grep -q done work.txt"
    watched: list[Path] = field(default_factory=list)

    @property
    def shipped_from(self) -> Path:
        remote = self.home / "remote.git"
        return remote if remote.is_dir() else self.repo.path

    def make(self, name: str = "repo", *options: str, **files: str | bytes) -> Checkout:
        self.repo = make_repo(self.home / name, self.environ, {**FILES, **files}, *options)
        return self.repo

    def remote(self, *options: str) -> Checkout:
        """A bare repository with the files on main."""
        made = make_bare(self.home / "remote.git", self.environ, *options)
        start = make_repo(self.home / "start", self.environ, FILES)
        start.commit({"more.txt": "one\n"}, "second")
        start.commit({"more.txt": "two\n"}, "third")
        start.git("push", "-q", str(made.path), "main")
        return made

    def clone(self, source: Path, *options: str) -> Checkout:
        self.repo = Checkout(self.home / "repo", self.environ)
        (self.home / "repo").parent.mkdir(exist_ok=True)
        start = Checkout(self.home, self.environ)
        start.git("clone", "-q", *options, source.as_uri(), str(self.repo.path))
        return self.repo

    def seen(self) -> dict[str, str]:
        """Every byte of checkout and git dirs, but objects and the branches that a wave makes."""
        tops = [self.repo.path, *self.watched]
        found = {f"{top}/{p}": told for top in tops for p, told in frozen(top).items()}
        return {
            path: told for path, told in found.items() if not any(p in path for p in NOT_COMPARED)
        }

    def schedule(self, *, apart: bool = False, **options: Any) -> Ran:
        config, tracker = self.home / "config.toml", self.home / "tracker.json"
        agent = json.dumps(["sh", "-c", f"cat > /dev/null; {self.work}"])
        config.write_text(
            f'[backend]\nname = "command"\ncommand = {agent}\n[review]\nmode = "off"\n'
            f"[workspace]\nroot = {json.dumps(str(self.home / 'places'))}\n{self.config}"
        )
        item: dict[str, object] = {"id": "A", "slug": "a", "status": "todo", "prompt": "Do it."}
        item |= {"ownsFiles": [self.owned], "testCmd": self.test}
        tracker.write_text(json.dumps({"version": 1, "items": [item]}))
        words: list[str | Path] = ["--execute", "--tracker", tracker, "--repo", self.repo.path]
        words += ("--config", config, "--state-dir", self.home / "state")
        start: Callable[..., Ran] = run if apart else run_here
        return start(SCHEDULER, *words, cwd=self.home, env=self.environ, **options)

    def ships(self, in_clone: str = "", **options: Any) -> None:
        """Run a wave: it ships, in a clone there is the work and nothing else is new, and here
        nothing has changed."""
        before, base = self.seen(), self.repo.git("rev-parse", "HEAD")
        done = self.schedule(**options)
        assert (done.code, done.report["success"]) == (GREEN, True), done.err
        assert self.seen() == before
        branch, clone = done.report["branch"], Checkout(self.home / "shipped", self.environ)
        Checkout(self.home, self.environ).git(
            "clone", "-q", "--branch", branch, self.shipped_from.as_uri(), str(clone.path)
        )
        assert clone.git("rev-parse", "HEAD") == done.report["sha"]
        assert clone.git("rev-parse", "HEAD^") == base
        assert clone.git("diff", "--name-only", "-z", "HEAD^", "HEAD") == f"{self.owned}\0"
        subprocess.run(("sh", "-c", in_clone or self.test), cwd=clone.path, check=True)

    def refuses(self, code: int) -> str:
        """Run a wave: it does not begin or does not ship, and the sentence why is the answer."""
        before = self.seen()
        done = self.schedule()
        assert done.code == code, (done.code, done.err)
        assert self.seen() == before
        assert "Traceback" not in done.err
        return str(done.report.get("error") or done.report["wave"]["built"][0]["error"])


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path, user_environ(tmp_path / "home", GIT_CONFIG_NOSYSTEM="1"))


def with_submodule(case: Case) -> None:
    library = make_repo(case.home / "library", case.environ, {"lib.txt": "library\n"})
    repo = case.make()
    allowed = ("-c", "protocol.file.allow=always")
    repo.git(*allowed, "submodule", "--quiet", "add", library.path.as_uri(), "lib")
    repo.commit({}, "with a submodule")


def with_lfs_pointers(case: Case) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"
    case.make()
    case.repo.commit({".gitattributes": "*.bin filter=lfs diff=lfs -text\n", "big.bin": pointer})
    for key in ("clean", "smudge"):
        case.repo.git("config", f"filter.lfs.{key}", f"git-lfs-that-is-not-here {key} -- %f")
    case.repo.git("config", "filter.lfs.required", "true")


def shallow(case: Case) -> None:
    case.clone(case.remote().path, "--depth=1")
    assert case.repo.git("rev-parse", "--is-shallow-repository") == "true"


def sparse(case: Case) -> None:
    case.make()
    case.repo.commit({"far/away.txt": "far\n"})
    case.repo.git("sparse-checkout", "set", "src")
    assert not (case.repo.path / "far").exists()


def with_sha256(case: Case) -> None:
    case.make("repo", "--object-format=sha256")


def linked_worktree(case: Case) -> None:
    main = case.make("main")
    main.git("worktree", "add", "-q", "-b", "side", str(case.home / "repo"))
    case.repo = Checkout(case.home / "repo", case.environ)
    case.watched = [main.path]


def with_hooks_elsewhere(case: Case) -> None:
    case.make()
    for name in (
        "pre-commit",
        "commit-msg",
        "post-checkout",
        "post-commit",
        "reference-transaction",
    ):
        hook(case.home / "hooks", name, f"echo {name} >> {shlex.quote(str(case.home / 'ran'))}")
    case.repo.git("config", "core.hooksPath", str(case.home / "hooks"))


def with_crlf_attributes(case: Case) -> None:
    case.make()
    files: dict[str, str | bytes] = {
        ".gitattributes": "*.txt text eol=crlf\n",
        "dos.txt": b"one\r\ntwo\r\n",
    }
    case.repo.commit(files)
    case.repo.path.joinpath("work.txt").unlink()
    case.repo.git("checkout", "-q", "work.txt")
    case.repo.git("config", "core.autocrlf", "true")
    case.work = "printf 'done\\r\\n' > work.txt"


def with_names_beyond_ascii(case: Case) -> None:
    names = ["\u00e4rger/\u65e5\u672c.txt", "\u00e9.txt", "with space/a.txt"]
    if sys.platform == "linux":  # elsewhere file systems take two of these for one, or none at all
        names += ["e\u0301.txt", "a\tb.txt", os.fsdecode(b"not-utf8-\xff.txt")]
    case.make()
    case.repo.commit(dict.fromkeys(names, "x\n"))
    case.owned = names[0]
    case.work = f"printf 'done\\n' > '{case.owned}'"
    case.test = f"grep -q done '{case.owned}'"


def with_many_files(case: Case, count: int) -> None:
    case.repo = Checkout(case.home / "repo", case.environ)
    case.repo.path.mkdir()
    case.repo.git("init", "-q")
    names = [*FILES, *(f"d{n % 200}/f{n}.txt" for n in range(count - len(FILES)))]
    told = b"commit refs/heads/main\ncommitter U <u@example.org> 1 +0000\ndata 0\n"
    told += b"".join(b"M 100644 inline %s\ndata 3\nto \n" % name.encode() for name in names)
    case.repo.git("fast-import", "--quiet", stdin=told)
    case.repo.git("reset", "-q", "--hard")


def partial(case: Case) -> None:
    remote = case.remote()
    remote.git("config", "uploadpack.allowFilter", "true")
    case.clone(remote.path, "--filter=blob:none")


def with_alternates(case: Case) -> None:
    source = case.make("source")
    case.clone(source.path, "--shared")


def with_packed_refs(case: Case) -> None:
    case.make()
    case.repo.git("branch", "other/one")
    case.repo.git("tag", "-a", "v1", "-m", "one")
    case.repo.git("gc", "-q")
    assert not (case.repo.path / ".git" / "refs" / "heads" / "main").exists()


def with_worktree_config(case: Case) -> None:
    linked_worktree(case)
    case.repo.git("config", "extensions.worktreeConfig", "true")
    case.repo.git("config", "--worktree", "core.autocrlf", "false")


def without_a_git_dir(case: Case) -> None:
    case.make("repo", "--separate-git-dir", str(case.home / "git dir"))
    case.watched = [case.home / "git dir"]


def with_an_index_of_parts(case: Case) -> None:
    case.make()
    case.repo.git("config", "core.fsmonitor", f"touch {case.home / 'ran'}")
    case.repo.git("update-index", "--index-version", "4", "--split-index")


def with_a_ref_table(case: Case) -> None:
    asked = ("init", "-q", "--ref-format=reftable", str(case.home / "probe"))
    if subprocess.run(("git", *asked), capture_output=True, check=False).returncode:
        pytest.skip("this git knows no reftable")
    case.make("repo", "--ref-format=reftable")


def at_an_odd_path(case: Case) -> None:
    odd = '"x" \\y' if os.name != "nt" else ""
    case.make(f"my \u00e4 'repo' $HOME #%;&(1) {odd}".strip())


WORKS = (
    with_submodule,
    with_lfs_pointers,
    shallow,
    sparse,
    with_sha256,
    linked_worktree,
    with_names_beyond_ascii,
    partial,
    with_alternates,
    with_packed_refs,
    with_worktree_config,
    with_a_ref_table,
    at_an_odd_path,
    pytest.param(without_a_git_dir, marks=pytest.mark.sweep),
    pytest.param(with_an_index_of_parts, marks=pytest.mark.sweep),
)


@pytest.mark.more
@pytest.mark.parametrize("kind", WORKS, ids=lambda kind: str(kind.__name__))
def test_a_wave_ships_in_every_kind_of_repository(case: Case, kind: Callable[[Case], None]) -> None:
    kind(case)
    case.ships()


@pytest.mark.more
@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.sweep)])
def test_a_wave_ships_in_a_repository_of_many_files(case: Case, count: int) -> None:
    with_many_files(case, count)
    assert case.repo.git("ls-files").count("\n") == count - 1
    case.ships(apart=True)


@pytest.mark.more
def test_hooks_of_another_folder_are_asked_at_the_ship_and_at_no_other_time(case: Case) -> None:
    with_hooks_elsewhere(case)
    case.ships()
    assert (case.home / "ran").read_text().split() == ["pre-commit", "commit-msg"]


def test_line_ends_are_shipped_as_the_attributes_want_them(case: Case) -> None:
    with_crlf_attributes(case)
    case.ships()
    kept = Checkout(case.home / "shipped", case.environ)
    assert kept.git("ls-files", "--eol", "work.txt").split()[:2] == ["i/lf", "w/crlf"]
    assert (kept.path / "work.txt").read_bytes() == b"done\r\n"


@pytest.mark.more
def test_a_submodule_is_there_for_tests_where_the_set_up_gets_it(case: Case) -> None:
    with_submodule(case)
    get = "git -c protocol.file.allow=always submodule --quiet update --init"
    case.config = f'setup = ["{get}"]\n'
    case.test = "grep -q done work.txt && grep -q library lib/lib.txt"
    case.ships(in_clone="grep -q done work.txt")


@pytest.mark.more
def test_files_of_a_submodule_are_no_files_of_an_item(case: Case) -> None:
    with_submodule(case)
    case.owned = "lib/lib.txt"
    told = case.refuses(BAD_INPUT)
    assert "'a': lib/lib.txt belongs to lib, a repository of its own (a submodule?): " in told


@pytest.mark.more
def test_a_partial_clone_that_lacks_files_of_its_commit_is_told_how_to_get_them(
    case: Case,
) -> None:
    remote = case.remote()
    remote.git("config", "uploadpack.allowFilter", "true")
    case.clone(remote.path, "--filter=blob:none", "--sparse")
    case.repo.git("sparse-checkout", "set", "--no-cone", "/work.txt")
    told = case.refuses(CANNOT_RUN)
    where, _, remedy = told.partition(": get them with ")
    assert where == f"{case.repo.path} is a partial clone that lacks 1 object of its commit"
    subprocess.run(remedy, shell=True, env=case.environ, check=True, capture_output=True)  # noqa: S602
    case.ships()


@pytest.mark.more
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_checkout_of_another_user_is_told_how_to_trust_it(case: Case) -> None:
    case.make()
    for path in (case.repo.path, *case.repo.path.rglob("*")):
        os.lchown(path, 12345, 12345)
    told = case.refuses(CANNOT_RUN)
    sentence, _, remedy = told.partition(": run ")
    assert sentence.endswith(f"{case.repo.path} because another user owns it")
    subprocess.run(remedy, shell=True, env=case.environ, check=True)  # noqa: S602
    trust = ("config", "--global", "--add", "safe.directory")  # for the clone that is looked at
    Checkout(case.home, case.environ).git(*trust, str(case.repo.path / ".git"))
    case.ships()


@pytest.mark.more
def test_a_signing_program_that_fails_is_told_before_the_work_or_not_asked(case: Case) -> None:
    case.make()
    case.repo.git("config", "commit.gpgsign", "true")
    case.repo.git("config", "gpg.program", "false")
    before = case.seen()
    done = case.schedule()
    assert case.seen() == before
    assert done.code == GREEN or "sign" in done.report["error"]
    if done.code != GREEN:
        assert not done.report["items_shipped"]
        case.config = '[ship]\nsign = "never"\n'
        case.ships()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "sentence"),
    [("--bare", "has no checkout (a bare"), ("--quiet", "has no commit yet: make a commit first")],
)
def test_where_there_is_nothing_to_start_from_a_sentence_says_so(
    case: Case, how: str, sentence: str
) -> None:
    Checkout(case.home, case.environ).git("init", "-q", how, "repo")
    case.repo = Checkout(case.home / "repo", case.environ)
    assert sentence in case.refuses(BAD_INPUT)
