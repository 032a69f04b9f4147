"""What ships is signed as the user signs, without a prompt, or refused before anything is spent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.git.repository import open_repository
from driver.git.signing import signer_of, signing_problem
from tests.support.waves import Agent, Scene, built, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts")
CANNOT_RUN = 4
MINE = "#!/bin/sh\n"
# What git expects of a program like gpg; the signature it makes is none.
SIGNS = """cat > /dev/null; echo "$@" >> {log}
printf '\\n[GNUPG:] SIG_CREATED ' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"a.txt": "base\n", "b.txt": "base\n"}, remote=True)


def program(scene: Scene, script: str, **settings: str) -> Path:
    """A gpg of the user's; `settings` are more of the user's git configuration."""
    path = scene.folder / "gpg"
    path.write_text(MINE + script.format(log=scene.folder / "log"))
    path.chmod(0o755)
    wanted = {"gpg.program": str(path), "commit.gpgSign": "true", **settings}
    for key, value in wanted.items():
        scene.repo.git("config", key.replace("__", "."), value)
    return path


def ship(scene: Scene, agent: Any = None, **more: Any) -> dict[str, Any]:
    steps = {"a": agent or writes(a__txt="good\n")}
    report, driver = scene.play(steps, [item("a", "a.txt", "grep -q good a.txt")], **more)
    assert bool(driver.requests) == (not report["aborted"])
    return report


def ssh_key(scene: Scene, passphrase: str = "") -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen")
    key = scene.folder / "key"
    made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", str(key)]
    subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    signers = scene.folder / "signers"
    signers.write_text(f"tidegate@localhost {(scene.folder / 'key.pub').read_text()}")
    for name, value in {
        "gpg.format": "ssh",
        "user.signingKey": f"{key}.pub",
        "gpg.ssh.allowedSignersFile": str(signers),
    }.items():
        scene.repo.git("config", "--global", name, value)
    return key


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["branch", "current"])
def test_each_commit_is_signed_with_the_users_ssh_key(scene: Scene, mode: str) -> None:
    ssh_key(scene)
    scene.repo.git("config", "--global", "commit.gpgSign", "true")
    items = [item(slug, f"{slug}.txt", f"grep -q good {slug}.txt") for slug in "ab"]
    steps = {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}
    git = {"expectTopLevel": str(scene.repo.path), "mode": mode}
    before = scene.repo.git("rev-parse", "main")
    report, _ = scene.play(steps, items, git=git)
    assert (report["shipped"], report["exit_code"]) == (["a", "b"], 0)
    line = scene.repo.git("rev-list", f"{before}..{report['sha']}").split()
    assert len(line) == 2
    for commit in line:
        scene.repo.git("verify-commit", commit)
        tree = scene.repo.git("rev-parse", f"{commit}^{{tree}}")
        assert scene.trailers(commit)["Proved-Tree"] == tree
    who = scene.repo.git("show", "-s", "--format=%an %ae %cn %ce", report["sha"])
    assert who == "Tidegate tidegate@localhost Tidegate tidegate@localhost"
    assert scene.remote
    assert report["sha"] in scene.remote.git("for-each-ref")


@pytest.mark.more
def test_with_always_it_is_signed_whatever_git_says(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n"}, config='[ship]\nsign = "always"\n')
    ssh_key(scene)
    scene.repo.git("verify-commit", ship(scene)["sha"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("locked", ["fails", "passphrase", "absent"])
def test_what_cannot_sign_is_told_before_anyone_is_dispatched(scene: Scene, locked: str) -> None:
    if locked == "fails":
        program(scene, "echo 'no secret key' >&2; exit 2\n")
    elif locked == "passphrase":
        ssh_key(scene, "secret")
        scene.repo.git("config", "commit.gpgSign", "true")
    else:
        program(scene, "").unlink()
    report = ship(scene)
    assert (report["abort_reason"], report["exit_code"]) == ("cannot_run_here", CANNOT_RUN)
    assert str(scene.repo.path) in report["error"]
    assert 'set [ship] sign = "never"' in report["error"]
    assert len(report["error"].splitlines()) == 1


@pytest.mark.more
def test_a_program_that_asks_or_hangs_is_ended(scene: Scene) -> None:
    program(scene, "sleep 60\n")
    repository = open_repository(scene.repo.path, scene.environ)
    signer = signer_of(repository, scene.environ, "auto")
    assert signer is not None
    assert "hangs" in signing_problem(signer, repository, 0.3)


@pytest.mark.more
def test_no_terminal_and_no_display_is_within_its_reach(tmp_path: Path) -> None:
    environ = {"GPG_TTY": "/dev/pts/0", "DISPLAY": ":0", "GNUPGHOME": "kept"}
    scene = Scene(tmp_path, {"a.txt": "base\n"}, environ=environ)
    program(scene, f"env > {tmp_path}/env; {SIGNS}")
    assert ship(scene)["exit_code"] == 0
    seen = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert not {"GPG_TTY", "DISPLAY"} & set(seen)
    assert seen["GNUPGHOME"] == "kept"


@pytest.mark.more
def test_with_never_nothing_is_signed_and_no_program_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n"}, config='[ship]\nsign = "never"\n')
    program(scene, SIGNS)
    report = ship(scene)
    assert report["exit_code"] == 0
    assert not (tmp_path / "log").exists()
    assert "gpgsig" not in scene.repo.git("cat-file", "commit", report["sha"])


@pytest.mark.more
def test_the_key_is_the_users_and_not_one_of_the_bot(scene: Scene) -> None:
    program(scene, SIGNS)
    report = ship(scene)
    assert "gpgsig" in scene.repo.git("cat-file", "commit", report["sha"])
    used = (scene.folder / "log").read_text().splitlines()
    assert {line.split(" ", 2)[2] for line in used} == {"Ursula User <ursula@example.org>"}


@pytest.mark.more
def test_a_key_that_locks_itself_meanwhile_ships_nothing_and_keeps_the_work(scene: Scene) -> None:
    locked = scene.folder / "locked"
    program(scene, f"test -e {locked} && exit 2\n{SIGNS}")

    def agent(it: Agent) -> None:
        it.write({"a.txt": "good\n"})
        locked.touch()

    report = ship(scene, agent)
    [repo] = report["shipped_repos"]
    assert (report["shipped"], report["exit_code"], repo["error"]) == ([], 1, "git_commit_failed")
    assert Path(built(report)["a"]["savedWork"]).exists()
    assert scene.repo.git("branch", "--list", "--format=%(refname:short)") == "main"
    locked.unlink()
    again, driver = scene.play(
        {}, [item("a", "a.txt", "grep -q good a.txt")], wave_id="w2", resume=True
    )
    assert (again["shipped"], driver.requests) == (["a"], [])


@pytest.mark.more
def test_an_agents_program_is_never_run(scene: Scene) -> None:
    program(scene, SIGNS)
    evil = scene.folder / "evil"
    evil.write_text(f"{MINE}touch {scene.folder}/ran\n")
    evil.chmod(0o755)

    def agent(it: Agent) -> None:
        it.write({"a.txt": "good\n"})
        subprocess.run(
            ["git", "config", "gpg.program", str(evil)],
            cwd=it.folder,
            check=True,
            env=dict(scene.environ),
        )

    assert ship(scene, agent)["exit_code"] == 0
    assert not (scene.folder / "ran").exists()


@pytest.mark.more
def test_a_program_in_the_checkout_is_not_run(scene: Scene) -> None:
    program(scene, SIGNS, gpg__program="./tools/gpg")
    report = ship(scene)
    assert report["exit_code"] == CANNOT_RUN
    assert "in the checkout" in report["error"]
