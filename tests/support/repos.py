"""Tiny verbs to make real repositories in tests; a user's environment of their own included."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.checkout_guard.fingerprint import CheckoutFingerprint, CheckoutWatch
from driver.git.private_git import Repository

SANDBOX = "TIDEGATE_SANDBOX_LEVEL"


def user_environ(home: Path, **more: str) -> dict[str, str]:
    """The environment of an imaginary user whose home is `home`."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / ".gitconfig"
    if not config.exists():
        config.write_text(
            "[user]\nname = Ursula User\nemail = ursula@example.org\n"
            "[init]\ndefaultBranch = main\n[protocol]\n[core]\nfsync = none\n"
            "[maintenance]\nauto = false\n"
        )
    temporary = home / ".tmp"  # what a killed program leaves there goes with the test
    temporary.mkdir(exist_ok=True)
    where = {"HOME": str(home), "TMPDIR": str(temporary)}
    level = {SANDBOX: os.environ[SANDBOX]} if SANDBOX in os.environ else {}
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", **level, **where, **more}


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout that tests drive as a user or an agent would, with plain git."""

    path: Path
    environ: Mapping[str, str]

    def git(self, *args: str, ok: bool = True, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=dict(self.environ),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0 or not ok, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            body = content.encode() if isinstance(content, str) else content
            target.write_bytes(body)

    def commit(self, files: Mapping[str, str | bytes], message: str = "a commit") -> str:
        self.record(files, message)
        return self.git("rev-parse", "HEAD")

    def record(self, files: Mapping[str, str | bytes], message: str) -> None:
        """Commit them, for who does not ask for the commit's name."""
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)


def make_repo(
    path: Path, environ: Mapping[str, str], files: Mapping[str, str | bytes], *options: str
) -> Checkout:
    """A repository with one commit of `files`; `options` go to `git init`."""
    path.mkdir(parents=True)
    made = Checkout(path, environ)
    made.git("init", "-q", *options)
    made.record(files, "first")
    return made


def make_bare(path: Path, environ: Mapping[str, str], *options: str) -> Checkout:
    """A bare repository to push to."""
    path.mkdir(parents=True)
    made = Checkout(path, environ)
    made.git("init", "-q", "--bare", *options)
    return made


def hook(folder: Path, name: str, script: str) -> None:
    """An executable hook."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def frozen(top: Path) -> dict[str, str]:
    """Every byte and mode below `top` but git's object store, to compare before and after."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(top):
        if folder.endswith(".git"):
            folders.remove("objects")
        for name in names:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            body = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else b"special"
            body = path.read_bytes() if stat.S_ISREG(mode) else body
            found[str(path.relative_to(top))] = f"{mode:o} {hashlib.sha256(body).hexdigest()}"
    return found


def checkout_fingerprint(repo: Repository, environ: Mapping[str, str]) -> CheckoutFingerprint:
    """A single look at a user's checkout."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as folder:
        return CheckoutWatch(repo, environ, Path(folder)).look()
