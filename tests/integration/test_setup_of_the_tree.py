"""The set-up belongs to the tree under test: changed dependencies are proven with their own."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.git.private_git import PrivateGit, open_repository
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import (
    Preparation,
    SetupCommand,
    SetupError,
    WorkSetupError,
    places_at,
    places_to_prepare,
)
from tests.integration.test_workspace import run_shell
from tests.support.interpreter import IN_SHELL
from tests.support.repos import Checkout, make_repo, user_environ
from tests.support.waves import Agent, Scene, Step, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="set-ups for a POSIX shell")

INSTALL = """\
import os, pathlib
os.makedirs("deps", exist_ok=True)
for line in pathlib.Path("needs.lock").read_text().split():
    name, _, version = line.partition("==")
    pathlib.Path("deps", name + ".py").write_text(f"VERSION = {version!r}\\n")
"""


def wheel(folder: Path, name: str, version: str) -> None:
    """A wheel with one module that knows its version."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


def by_script(_: Path) -> tuple[str, dict[str, str], Callable[[dict[str, str]], dict[str, str]]]:
    """A set-up by a script of the repository."""
    return (
        f"{IN_SHELL} install.py",
        {"install.py": INSTALL},
        lambda needs: {"needs.lock": "".join(f"{n}=={v}\n" for n, v in needs.items())},
    )


def by_pip(folder: Path) -> tuple[str, dict[str, str], Callable[[dict[str, str]], dict[str, str]]]:
    """A set-up by pip, from wheels in a folder."""
    for version in ("1.0", "2.0"):
        wheel(folder / "wheels", "alpha", version)
        wheel(folder / "wheels", "beta", version)
    options = (
        f"--no-index --find-links {folder}/wheels --target deps --quiet --disable-pip-version-check"
    )
    return (
        f"{shlex.quote(sys.executable)} -m pip install {options} -r requirements.txt",
        {},
        lambda needs: {"requirements.txt": "".join(f"{n}=={v}\n" for n, v in needs.items())},
    )


MANAGERS = {"a script": by_script, "pip": by_pip}


@pytest.fixture(params=MANAGERS)
def manager(request: pytest.FixtureRequest) -> Any:
    if request.param == "pip" and importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed")
    return MANAGERS[request.param]


def scene_of(
    folder: Path, manager: Any
) -> tuple[Scene, Callable[[dict[str, str]], dict[str, str]]]:
    setup, files, lock = manager(folder)
    config = f"[workspace]\nsetup = [{json.dumps(setup)}]\n"
    base = {**files, **lock({"alpha": "1.0"}), ".gitignore": "deps/\n", "app.py": "import alpha\n"}
    return Scene(folder, base, config=config), lock


def agent_writing(files: dict[str, str]) -> Step:
    def step(agent: Agent) -> None:
        agent.write(files)

    return step


def owning(slug: str, files: dict[str, str], test: str, **more: Any) -> dict[str, Any]:
    made = item(slug, "unused", test, requireAdversarialReview=False, **more)
    return {**made, "ownsFiles": [*files]}


@pytest.mark.sampled(1)
def test_a_new_dependency_is_there_in_the_proof(tmp_path: Path, manager: Any) -> None:
    scene, lock = scene_of(tmp_path, manager)
    work = {**lock({"alpha": "1.0", "beta": "2.0"}), "app.py": "import alpha, beta\n"}
    test = f"PYTHONPATH=deps {IN_SHELL} -c 'import app; app.beta.VERSION'"
    tasks = [
        owning("dep", work, test),
        owning("other", {"b.txt": ""}, "test -f b.txt && test -f deps/alpha.py"),
    ]
    scripts = {"dep": agent_writing(work), "other": agent_writing({"b.txt": "b\n"})}
    report, driver = scene.play(scripts, tasks)
    assert verdicts(report) == {"dep": "verified", "other": "verified"}, str(built(report))
    assert report["shipped"] == ["dep", "other"]
    assert len(driver.requests) == 2


@pytest.mark.more
def test_a_new_version_is_proven_with_the_new_version(tmp_path: Path, manager: Any) -> None:
    scene, lock = scene_of(tmp_path, manager)
    work = lock({"alpha": "2.0"})
    log = tmp_path / "versions"
    noted = f"PYTHONPATH=deps {IN_SHELL} -c 'import alpha; print(alpha.VERSION)' >> {log}"
    report, _ = scene.play({"dep": agent_writing(work)}, [owning("dep", work, noted)])
    assert report["shipped"] == ["dep"], built(report)
    versions = log.read_text().split()
    assert versions.count("1.0") == 1  # the base, which is tested beside the work
    assert {*versions} == {"1.0", "2.0"}


@pytest.mark.more
def test_a_set_up_that_only_the_work_breaks_is_the_works_to_repair(tmp_path: Path) -> None:
    scene, _ = scene_of(tmp_path, by_script)
    broken = {"install.py": "raise SystemExit('no such registry: beta')\n"}
    right = {"install.py": INSTALL + "# tidy\n"}
    test = "grep -q registry install.py || grep -q tidy install.py"
    tasks = [owning("dep", broken, test)]
    report, driver = scene.play({"dep": [agent_writing(broken), agent_writing(right)]}, tasks)
    assert verdicts(report) == {"dep": "verified"}, built(report)
    first, second = built(report)["dep"]["attempts"]
    assert first["verdict"] == "failed"
    assert "failed on this work, but not on the base" in first["reason"]
    assert "no such registry: beta" in driver.requests[1].prompt
    assert second["verdict"] == "verified"


@pytest.mark.more
def test_a_set_up_that_breaks_on_the_base_as_well_costs_the_item_nothing(tmp_path: Path) -> None:
    """The set-up works for the clone, and never again."""
    once = tmp_path / "once"
    setup = f"if test -e {once}; then echo registry is down >&2; exit 7; fi; touch {once}"
    scene = Scene(
        tmp_path,
        {"package.json": "{}\n"},
        config=f'[verify]\nred_first = "off"\n[workspace]\nsetup = [{json.dumps(setup)}]\n',
    )
    work = {"package.json": '{"name": "x"}\n'}
    report, driver = scene.play({"dep": agent_writing(work)}, [owning("dep", work, "true")])
    assert verdicts(report) == {"dep": "undecided"}
    assert "registry is down" in built(report)["dep"]["error"]
    assert "on this work" not in built(report)["dep"]["error"]
    assert len(driver.requests) == 1


# Set-ups of single trees

MakeContext = Callable[..., CloneContext]


@pytest.fixture
def user(tmp_path: Path) -> Checkout:
    files = {
        **{"needs.lock": "alpha==1.0\n", "install.py": INSTALL, ".gitignore": "deps/\nout\n"},
        **{"src/a.txt": "a\n", "src/b.txt": "b\n", "src/c.py": "C = 1\n", "notes.md": "n\n"},
    }
    return make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), files)


@pytest.fixture
def context_for(user: Checkout, tmp_path: Path) -> MakeContext:
    def make(*setup: str, reads: tuple[str, ...] = ()) -> CloneContext:
        repo = open_repository(user.path, user.environ)
        git = PrivateGit.create(tmp_path / "private", repo, user.environ)
        prepare = Preparation((), setup, run_shell, reads=reads)
        return CloneContext(tmp_path / "root", git, repo, prepare)

    return make


def tree_with(context: CloneContext, files: dict[str, str]) -> str:
    workspace = context.workspace("writer")
    for name, text in files.items():
        (workspace.top / name).write_text(text)
    return workspace.collect([*files]).tree


@pytest.mark.more
def test_trees_that_agree_in_what_the_set_up_reads_share_one(
    context_for: MakeContext, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    context = context_for(f"{IN_SHELL} install.py; echo once >> {log}")
    base, notes = context.base_tree, tree_with(context, {"notes.md": "more\n"})
    two = tree_with(context, {"needs.lock": "alpha==2.0\n"})
    both = tree_with(context, {"needs.lock": "alpha==2.0\n", "src/c.py": "C = 2\n"})
    log.unlink()
    trees = context.pool(1)
    for tree, version in ((base, "1.0"), (notes, "1.0"), (two, "2.0"), (both, "2.0")) * 2:
        with trees.checkout(tree) as place:
            assert (place.path / "deps" / "alpha.py").read_text() == f"VERSION = '{version}'\n"
            assert place.tampered() == ()
    assert log.read_text() == "once\n" * 2


def test_no_test_sees_what_another_program_changed_in_the_home_of_a_set_up(
    user: Checkout, tmp_path: Path
) -> None:
    """At `limits` an agent can write there. A kept place has no such home."""

    def leaves_a_tool(_: SetupCommand, top: Path, __: Mapping[str, str]) -> str:
        places_to_prepare(places_at(top, ()))
        tool_of(top).write_text("good")
        return ""

    def tool_of(top: Path) -> Path:
        return (places_at(top, ()).prepared_home or top) / "tool"

    repo = open_repository(user.path, user.environ)
    git = PrivateGit.create(tmp_path / "private", repo, user.environ)
    prepare = Preparation(setup=("x",), run=leaves_a_tool)
    context = CloneContext(tmp_path / "root", git, repo, prepare)
    trees = context.pool(1)
    for _ in range(2):
        with trees.checkout(context.base_tree) as place:
            assert tool_of(place.path).read_text() == "good"
            tool_of(place.path).write_text("bad!")
    trees.close()
    context.close()
    assert not [*(tmp_path / "root" / "environments").iterdir()]


def sees_reads(folder: Path) -> bool:
    """True if the file system keeps access times."""
    probe = folder / "probe"
    probe.write_text("x")
    os.utime(probe, ns=(0, probe.stat().st_mtime_ns))
    probe.read_text()
    return probe.stat().st_atime_ns > 0


@pytest.mark.more
def test_a_set_up_that_builds_from_sources_runs_again_for_changed_sources(
    context_for: MakeContext, tmp_path: Path
) -> None:
    if not sees_reads(tmp_path):
        pytest.skip("this file system keeps no access times")
    log = tmp_path / "log"
    context = context_for(f"cat src/*.txt > out; echo once >> {log}")
    trees = {
        "a\nb\n": (context.base_tree, tree_with(context, {"src/c.py": "C = 3\n"})),
        "A\nb\n": (tree_with(context, {"src/a.txt": "A\n"}),),
        "a\nb\nd\n": (tree_with(context, {"src/d.txt": "d\n"}),),
        "z\n": (tree_with(context, {"src/a.txt": "z\n"}),),
    }
    trees["z\nb\n"] = trees.pop("z\n")
    log.unlink()
    pool = context.pool(1)
    for made, alike in trees.items():
        for tree in alike:
            with pool.checkout(tree) as place:
                assert (place.path / "out").read_text() == made
    assert log.read_text() == "once\n" * 4


@pytest.mark.more
def test_patterns_of_the_user_name_further_files(context_for: MakeContext) -> None:
    context = context_for("true", reads=("*.md",))
    changed = tree_with(context, {"notes.md": "more\n"})
    assert context.setup_key(changed) != context.setup_key(context.base_tree)
    assert context.setup_key(tree_with(context, {"src/c.py": "C = 2\n"})) == frozenset()


def test_a_tracked_file_that_the_set_up_makes_or_rewrites_is_the_trees_own(
    context_for: MakeContext,
) -> None:
    context = context_for("echo rewritten > notes.md; echo made > out")
    notes = tree_with(context, {"notes.md": "by the item\n"})
    out = tree_with(context, {"out": "by the item\n"})
    pool = context.pool(1)
    for tree, name in ((notes, "notes.md"), (out, "out"), (notes, "notes.md")):
        with pool.checkout(tree) as place:
            assert (place.path / name).read_text() == "by the item\n"
            assert place.tampered() == ()


@pytest.mark.more
def test_the_work_is_blamed_only_after_the_base_was_set_up(
    context_for: MakeContext, tmp_path: Path
) -> None:
    context = context_for(f"grep -q alpha needs.lock && test ! -e {tmp_path}/down")
    tree = tree_with(context, {"needs.lock": "gone\n"})
    pool = context.pool(1)
    with pytest.raises(WorkSetupError, match="on this work, but not on the base"):
        pool.checkout(tree).__enter__()
    (tmp_path / "down").touch()
    with pytest.raises(SetupError) as failed:
        pool.checkout(tree).__enter__()
    assert not isinstance(failed.value, WorkSetupError)
    (tmp_path / "down").unlink()
    with pool.checkout(context.base_tree) as place:
        assert place.path.is_dir()


@pytest.mark.more
def test_checkouts_of_many_set_ups_do_not_pile_up(context_for: MakeContext, tmp_path: Path) -> None:
    context = context_for(f"{IN_SHELL} install.py")
    pool = context.pool(1)
    for number in range(8):
        tree = tree_with(context, {"needs.lock": f"alpha=={number}\n"})
        with pool.checkout(tree) as place:
            assert f"'{number}'" in (place.path / "deps" / "alpha.py").read_text()
    assert len([*(tmp_path / "root" / "proving").iterdir()]) <= 4
    pool.close()
    assert [*(tmp_path / "root" / "proving").iterdir()] == []


@pytest.mark.more
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_npm_installs_for_the_tree(tmp_path: Path) -> None:
    def package(name: str, version: str, needs: dict[str, str]) -> str:
        made = {"name": name, "version": version, "dependencies": needs}
        return json.dumps(made, indent=1) + "\n"

    base = {"alpha": "file:libs/alpha"}
    files = {
        **{f"libs/{n}/package.json": package(n, "1.0.0", {}) for n in ("alpha", "beta")},
        **{f"libs/{n}/index.js": f"module.exports = '{n}'\n" for n in ("alpha", "beta")},
        "package.json": package("app", "1.0.0", base),
        ".gitignore": "node_modules/\n",
    }
    setup = "npm install --no-audit --no-fund --offline --no-package-lock"
    scene = Scene(tmp_path, files, config=f'[workspace]\nsetup = ["{setup}"]\n')
    work = {
        "package.json": package("app", "1.0.0", {**base, "beta": "file:libs/beta"}),
        "app.js": "module.exports = [require('alpha'), require('beta')]\n",
    }
    test = """node -e "require('./app.js')" """
    report, _ = scene.play({"dep": agent_writing(work)}, [owning("dep", work, test)])
    assert report["shipped"] == ["dep"], built(report)
