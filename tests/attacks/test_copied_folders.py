"""What a test or an agent does to its copy of `[workspace] copy` reaches no other item's proof.

Inside of walls that can have mounts of their own, all places share one copy. A place has only what
its own commands changed there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from driver.backends.command import CommandDriver
from tests.integration.test_wave_walls import Enclosed
from tests.support.walls import needs
from tests.support.waves import Agent, Scene, Step, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
LIBRARY = "node_modules/lib/index.js"
FILES = {".gitignore": "node_modules/\n", "a.sh": "false\n", "b.txt": "base\n"}
ONE_CHECKOUT = '[workspace]\ncopy = ["node_modules"]\n[limits]\nmax_parallel_tests = 1\n'
TWO_CHECKOUTS = ONE_CHECKOUT.replace("= 1", "= 2")
IN_PLACE = f"touch -r {LIBRARY} old && printf evil > {LIBRARY} && touch -r old {LIBRARY}\n"
REPLACED = f"printf evil > new && mv new {LIBRARY}\n"
LINKED = "rm -r node_modules/lib && mkdir x && printf evil > x/index.js && ln -s ../x {}\n".format(
    "node_modules/lib"
)
ADDED = "printf evil > node_modules/lib/evil.js\n"
ATTACKS = {"in place": IN_PLACE, "replaced": REPLACED, "linked": LINKED, "added": ADDED}


SHARED = ["bwrap", "landlock"]


def scene_with(folder: Path, config: str, level: str = "none", files: Any = None) -> Scene:
    needs(level)
    environ = {"TIDEGATE_SANDBOX_LEVEL": level}
    scene = Scene(folder, files or FILES, config=config, environ=environ)
    library = scene.repo.path / LIBRARY
    library.parent.mkdir(parents=True)
    library.write_text("good")
    for number in range(300):
        (library.parent / f"{number}.js").write_text("x\n")
    return scene


@pytest.mark.more
@pytest.mark.parametrize(
    ("config", "level"),
    [
        pytest.param(ONE_CHECKOUT, "none", id="one"),
        pytest.param(TWO_CHECKOUTS, "none", id="two"),
        pytest.param(ONE_CHECKOUT, "bwrap", id="one-bwrap"),
        pytest.param(TWO_CHECKOUTS, "bwrap", id="two-bwrap"),
        pytest.param(ONE_CHECKOUT, "landlock", id="one-landlock"),
    ],
)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_other_items_proof_reads_what_a_test_wrote(
    tmp_path: Path, attack: str, config: str, level: str
) -> None:
    scene = scene_with(tmp_path, config, level)
    red_alone = "grep -rq evil node_modules/lib/ && grep -q done b.txt"
    tasks = [
        item("a", "a.sh", "sh a.sh", spotCheckFrac=1, requireAdversarialReview=False),
        item("b", "b.txt", red_alone, spotCheckFrac=1, requireAdversarialReview=False),
    ]
    # The second round of b begins when the tests of a are over or under way.
    done = writes(b__txt="done\n")
    report, _ = scene.play({"a": [writes(a__sh=ATTACKS[attack])] * 2, "b": [done, done]}, tasks)
    assert built(report)["b"]["verdict"] == "failed"
    assert "b" not in report["shipped"]
    assert (scene.repo.path / LIBRARY).read_text() == "good"


@pytest.mark.sampled(each="level")
@pytest.mark.parametrize("level", ["none", *SHARED])
@pytest.mark.parametrize("config", [ONE_CHECKOUT, TWO_CHECKOUTS], ids=["one", "two"])
def test_a_test_may_write_in_its_copy(tmp_path: Path, config: str, level: str) -> None:
    scene = scene_with(tmp_path, config, level)
    cache = "mkdir -p node_modules/.cache && ! test -e node_modules/.cache/x"
    in_place = f"echo x > node_modules/.cache/x && printf %s more >> {LIBRARY}"
    checked = f'{cache} && {in_place} && test "$(cat {LIBRARY})" = goodmore'
    mode = "find node_modules -prune -perm 755 | grep -q . && chmod 700 node_modules"
    tasks = [
        item(
            name,
            f"{name}.txt",
            f"{checked} && {mode} && grep -q done {name}.txt",
            spotCheckFrac=1,
            requireAdversarialReview=False,
        )
        for name in ("b", "c", "d")
    ]
    scripts = {name: writes(**{f"{name}__txt": "done\n"}) for name in ("b", "c", "d")}
    report, _ = scene.play(scripts, tasks)
    assert report["shipped"] == ["b", "c", "d"]
    assert (scene.repo.path / LIBRARY).read_text() == "good"


@pytest.mark.more
@pytest.mark.parametrize("setup", ["", 'setup = ["true"]\n'], ids=["copies", "set-up"])
def test_a_link_above_a_copied_folder_leads_no_one_into_yours(tmp_path: Path, setup: str) -> None:
    config = f'[workspace]\n{setup}copy = ["app/node_modules"]\n[limits]\nmax_parallel_tests = 1\n'
    files = {".gitignore": "node_modules/\n", "app/a.sh": "false\n", "b.txt": "base\n"}
    scene = Scene(tmp_path, files, config=config)
    library = scene.repo.path / "app/node_modules/index.js"
    library.parent.mkdir()
    library.write_text("good")
    linked = f"rm -r app && ln -s {scene.repo.path / 'app'} app\n"
    tested = "grep -q good app/node_modules/index.js && grep -q done b.txt"
    tasks = [
        item("a", "app/a.sh", "cp app/a.sh b && sh ./b", requireAdversarialReview=False),
        item("b", "b.txt", tested, spotCheckFrac=1, requireAdversarialReview=False),
    ]
    done = writes(b__txt="done\n")
    links: Step = lambda agent: agent.write({"app/a.sh": linked})  # noqa: E731
    report, _ = scene.play({"a": [links] * 2, "b": [done] * 2}, tasks)
    assert library.read_text() == "good"
    assert report["shipped"] == ["b"]


@pytest.mark.more
def test_the_next_agent_reads_nothing_that_an_earlier_one_wrote(tmp_path: Path) -> None:
    scene = scene_with(tmp_path, ONE_CHECKOUT + "max_workers = 1\n")
    found: dict[str, str] = {}
    inodes: dict[str, int] = {}

    def step(name: str) -> Step:
        def work(agent: Agent) -> None:
            found[name] = (agent.folder / LIBRARY).read_text()
            inodes[name] = (agent.folder / LIBRARY).with_name("1.js").stat().st_ino
            (agent.folder / LIBRARY).write_text(f"evil of {name}")
            (agent.folder / "node_modules" / name).write_text("evil")
            found[f"names for {name}"] = " ".join(
                sorted(path.name for path in (agent.folder / "node_modules").iterdir())
            )
            agent.write({f"{name}.txt": "done\n"})

        return work

    names = ["a", "b", "c"]
    tasks = [
        item(one, f"{one}.txt", f"test -e {one}.txt", requireAdversarialReview=False)
        for one in names
    ]
    report, _ = scene.play({one: step(one) for one in names}, tasks)
    assert report["shipped"] == names, report
    assert {found[one] for one in names} == {"good"}
    assert all(found[f"names for {one}"] == f"{one} lib" for one in names)
    assert len({*inodes.values()}) == 1  # the copy was handed on


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", SHARED)
def test_an_agent_inside_changes_its_own_view_only(tmp_path: Path, level: str) -> None:
    """Each agent finds the copy as it is at the source, and no test finds what an agent did."""
    scene = scene_with(tmp_path, ONE_CHECKOUT + "max_workers = 1\n", level)
    evil = f"grep -qx good {LIBRARY} && printf evil > {LIBRARY} && rm node_modules/lib/1.js"
    work = f"{evil} && printf evil > node_modules/lib/evil.js && printf done > $TIDEGATE_ITEM.txt"
    library = scene.repo.path / LIBRARY
    library.write_text("good\n")
    driver = CommandDriver(["sh", "-c", work], tier=1, environ=scene.environ)
    tested = f"grep -qx good {LIBRARY} && ! grep -rq evil node_modules && test -e {{}}.txt"
    names = ["b", "c", "d"]
    tasks = [
        item(one, f"{one}.txt", f"{tested.format(one)} && ls node_modules/lib/1.js")
        | {"requireAdversarialReview": False, "spotCheckFrac": 1}
        for one in names
    ]
    report = scene.run(driver, tasks)
    assert verdicts(report) == dict.fromkeys(names, "verified")
    assert library.read_text() == "good\n"
    assert len(list(library.parent.iterdir())) == 301


@pytest.mark.sampled(1)
@pytest.mark.parametrize("level", SHARED)
@pytest.mark.parametrize("is_hidden", [True, False], ids=["ignored", "not ignored"])
def test_a_clone_has_a_copy_on_disk_only_where_work_may_be(
    tmp_path: Path, level: str, *, is_hidden: bool
) -> None:
    """Git has to see on disk what may be work."""
    files = FILES if is_hidden else {**FILES, ".gitignore": "x\n"}
    scene = scene_with(tmp_path, ONE_CHECKOUT, level, files)
    found: list[str] = []

    def agent(agent: Agent) -> None:
        found.extend(path.name for path in (agent.folder / "node_modules").iterdir())
        agent.write({"b.txt": "done\n"})

    driver = Enclosed({"b": agent}, environ=scene.environ)
    tasks = [item("b", "b.txt", f"grep -q good {LIBRARY}", requireAdversarialReview=False)]
    report = scene.run(driver, tasks)
    assert report["shipped"] == ["b"], report
    assert found == ([] if is_hidden else ["lib"])


def test_a_place_that_no_mount_can_name_gets_copies(tmp_path: Path) -> None:
    config = ONE_CHECKOUT.replace("copy", f"root = '{tmp_path}/a,b'\ncopy")
    scene = scene_with(tmp_path, config, "bwrap")
    found: list[str] = []

    def agent(agent: Agent) -> None:
        found.extend(path.name for path in (agent.folder / "node_modules").iterdir())
        agent.write({"b.txt": "done\n"})

    driver = Enclosed({"b": agent}, environ=scene.environ)
    task = item("b", "b.txt", f"grep -q good {LIBRARY}", requireAdversarialReview=False)
    assert scene.run(driver, [task])["shipped"] == ["b"]
    assert found == ["lib"]
