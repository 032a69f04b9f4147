"""Names that are not one file everywhere are refused; ordinary ones ship under exactly their name.

Hostile names are built from the few ideas behind them, in many places and spellings. The default
run asks the validator about all of them, and lays a sample and every good name through real waves;
`python -m pytest -m sweep -s tests/attacks/test_hostile_names.py` lays all of them on the disk.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from driver.domain.ownership import OwnershipError, comparison_key, parse_owned
from tests.support.beside import beside_on
from tests.support.repos import Checkout
from tests.support.waves import Agent, Scene, built, item

HOSTILE_TARGET, GOOD_TARGET = 500, 200

# Where a name can stand.
_PLACES = ("{}", "{}/x.py", "src/{}", "src/{}/x.py", "./a/b/{}")
_GIT = (
    *(".git", ".GIT", ".Git", ".giT", "git~1", "GIT~1", "git~2", ".git ", ".git.", ".git. ."),
    *(".git::$INDEX_ALLOCATION", ".git:x", ".g\u200cit", ".gi\u200dt", "\ufeff.git", ".git\u2060"),
    *(".\uff47it", ".\u200bgit", ".g\u00adit", ".gi\u034ft", ".git\ufe0f"),
    *(".\uff27\uff29\uff34", "\u202a.git", ".git\u180e"),
)  # fmt: skip
_DEVICES = (
    *("con", "CON", "prn", "aux", "nul", "NUL.txt", "con.tar.gz", "Aux.py", "conin$", "CONOUT$"),
    *(f"com{n}" for n in range(1, 10)),
    *(f"LPT{n}.md" for n in range(1, 10)),
    *("com\u00b9", "lpt\u00b2", "aux .c", "nul . "),
)
_WINDOWS = ("a:b", "a:$DATA", "x.", "x ", "x...", "x. .", "a\t", "a\n", "...", ". .", "x::y")
_CONTROL = tuple(f"a{chr(n)}b" for n in (*range(9), *range(11, 32), 127, 128, 133, 155, 159))
_DIRECTION = tuple(f"a{mark}b" for mark in "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2069")
_PATTERNS = ("*", "*.py", "a?", "**", "x*y", "?")
_BROKEN = ("a\udcffb", "\udc80", "\ud800x", "x" * 256, "\u00fc" * 128, "\U0001f600" * 64)
_CLIMBING = ("..", "../x", "../../x", "a/..", "a/../b", "a/../../b", "./..", "a\\..\\b", "..\\x")
_ABSOLUTE = (
    *("/", "/etc/passwd", "//host/share", "\\", "\\\\host\\share\\x", "C:", "C:x", "c:/x", "D:\\x"),
    *("\\\\?\\C:\\x", "\\\\.\\pipe\\x", "z:..\\x"),
)
_SHELL = ("~", "~/x", "~root/.ssh/x", "-", "-rf", "--all", "-x/y", "~a", "--")
_NOTHING = ("", ".", "./", ".//.", "   ", " ", "././", "\\.", ".\\")
_DEEP = ("/".join("a" * 41), "a/" * 41 + "x", "/".join(["x" * 200] * 21), "/".join(["y" * 99] * 41))
_GIT_PATHS = tuple(
    f"{git}/{inner}"
    for git, inner in itertools.product(
        (".git", ".GIT", "git~1"),
        ("config", "hooks/pre-commit", "info/attributes", "HEAD", "index"),
    )
)


def hostile_names() -> tuple[str, ...]:
    """Every hostile name, each once."""
    bad = (*_GIT, *_DEVICES, *_WINDOWS, *_CONTROL, *_DIRECTION, *_PATTERNS, *_BROKEN)
    placed = (place.format(name) for name in bad for place in _PLACES)
    whole = (*_CLIMBING, *_ABSOLUTE, *_SHELL, *_NOTHING, *_DEEP, *_GIT_PATHS)
    return tuple(dict.fromkeys((*placed, *whole)))


_SCRIPTS = (
    *("\u65e5\u672c\u8a9e", "\u00fcber", "\u00e9t\u00e9", "e\u0301", "\u041f\u0440\u0438\u0432"),
    *("\u4e2d\u6587", "\ud55c\uae00", "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0644\u0641"),
    *("\u0939\u093f",),
    *("\u0e44\u0e17\u0e22", "\u0395\u03bb", "na\u00efve", "\u0130stanbul", "stra\u00dfe"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469", "\u0645\u06cc\u200c\u062e\u0648", "\u212b"),
    *("\ufb01n",),
)  # fmt: skip
_SHAPES = (
    *("app/[id]/page.tsx", "app/(group)/layout.tsx", "app/[...all]/x.ts", "routes/+page.svelte"),
    *("@scope/pkg/index.js", ".gitignore2", ".gitmodules2", ".github/ISSUE.md", "x.git/y", "git/a"),
    *("git~x", "gita", ".gita", "a..b.py", "..a", "a...b", "v1..v2/n.md", "a b.txt", "d/ lead.txt"),
    *("a\tb", "a\nb", "a/-b", "a/~b", "a~", "#x#", "a'b", 'a"b', "$x;y&z", "a|b", "a<b>", "`id`"),
    *("$(id)", "%PATH%", "!x", "{a,b}", "[x]", "a=b", "a+b", "a,b", "a;b", "^a", "a@b", "100%"),
    *("console.py", "auxiliary.c", "nullable.h", "com10", "com0", "lpt", "x.aux", "x.con", "prnt"),
    *("A/README.MD", "x" * 255, "/".join("d" * 40), "a/b/c/d/e/f/g.h", "-".join("xyz"), "_", "__"),
)  # fmt: skip
_STEMS = (
    "main",
    "index",
    "Mod",
    "v2.0",
    "snake_case",
    "kebab-case",
    "dotted.name",
    "UPPER",
    "x1",
    "a b",
)
_ENDINGS = (".py", ".ts", ".go", ".rs", ".java", ".md", ".html", ".json5", "", ".C", ".tar.gz")


def good_names() -> tuple[str, ...]:
    """Names that people use, no two of which are one file anywhere."""
    scripts = (
        f"{folder}{name}{end}" for name in _SCRIPTS for folder, end in (("", ".md"), ("d/", ""))
    )
    plain = (f"src{n}/{stem}{end}" for n, stem in enumerate(_STEMS) for end in _ENDINGS)
    return tuple(dict.fromkeys((*_SHAPES, *scripts, *plain)))


HOSTILE, GOOD = hostile_names(), good_names()


def _refused(name: str) -> bool:
    try:
        parse_owned(name)
    except OwnershipError as refusal:
        said = str(refusal)
        return said.isprintable() and len(said) < 700
    return False


def test_every_hostile_name_is_refused_in_a_printable_sentence() -> None:
    accepted = [name for name in HOSTILE if not _refused(name)]
    print(f"\nmeasure=hostile_names tried={len(HOSTILE)} accepted={len(accepted)} target=0")  # noqa: T201
    assert accepted == []
    assert len(HOSTILE) >= HOSTILE_TARGET


def test_every_good_name_is_kept_as_it_is() -> None:
    kept = {name: parse_owned(name).path for name in GOOD}
    assert [name for name, path in kept.items() if path != name] == []
    assert len({comparison_key(name) for name in GOOD}) == len(GOOD)
    assert len(GOOD) >= GOOD_TARGET


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, {"a.txt": "base\n"})))


@on_scene
def test_hostile_names_in_a_manifest_are_told_together_and_nothing_starts(scene: Scene) -> None:
    names = [name for name in HOSTILE if name]
    report, driver = scene.play(
        {f"i{n}": [] for n in range(len(names))},
        [item(f"i{n}", [f"ok{n}", name], "true") for n, name in enumerate(names)],
    )
    assert (report["aborted"], driver.requests) == (True, [])
    assert len(report["problems"]) > 100  # and the last of them says how many more there are


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot hold all of them")
@on_scene
def test_every_good_name_ships_under_exactly_that_name(scene: Scene) -> None:
    def agent(agent: Agent) -> None:
        agent.write(dict.fromkeys(GOOD, "made\n"))

    report, _ = scene.play({"a": agent}, [item("a", list(GOOD), "true")])
    assert report["shipped"] == ["a"], built(report)["a"]["error"]
    told = scene.repo.git("ls-tree", "-r", "-z", "--name-only", report["sha"]).split("\0")
    shipped = {name for name in told if name} - {"a.txt"}
    print(f"\nmeasure=good_names tried={len(GOOD)} shipped={len(shipped)}")  # noqa: T201
    assert shipped == set(GOOD)


def _on_disk(names: Iterator[str]) -> Iterator[str]:
    """Those that Linux can hold as a file below a folder of ours."""
    for name in names:
        parts = name.split("/")
        fits = all(0 < len(os.fsencode(part)) < 256 for part in parts if _encodable(part))
        climbs = name.startswith("/") or ".." in parts or name.endswith(("/", "/."))
        if fits and not climbs and _encodable(name) and "\0" not in name and set(name) - set("./"):
            yield name


def _encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def _laid(folder: Path, name: str) -> bool:
    try:
        Checkout(folder, {}).write({name: "hostile\n"})
    except OSError:  # too long, or a folder of that name is there
        return False
    return True


def _attack(scene: Scene, names: list[str], wave_id: str) -> tuple[int, list[str]]:
    """How many of the names were laid down by agents, and those that shipped."""
    laid: list[str] = []

    def agent(agent: Agent) -> None:
        slug = agent.request.environment["TIDEGATE_ITEM"]
        name = names[int(slug[1:])]
        agent.write({f"own{slug}/x": "good\n"})
        if name.partition("/")[0] != ".git" and _laid(agent.folder, name):
            laid.append(name)

    items = [item(f"i{n}", f"owni{n}/", "true", repairCap=0) for n in range(len(names))]
    report, _ = scene.play({f"i{n}": agent for n in range(len(names))}, items, wave_id=wave_id)
    told = scene.repo.git("ls-tree", "-r", "-z", "--name-only", report["sha"] or "HEAD")
    return len(laid), [name for name in told.split("\0") if name.endswith("x.py")]


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="makes names that others cannot hold")
@on_scene
def test_hostile_names_that_agents_make_never_ship(scene: Scene) -> None:
    names = list(_on_disk(iter(HOSTILE)))[:: len(HOSTILE) // 16]
    laid, shipped = _attack(scene, names, "w1")
    assert (laid > len(names) // 2, shipped) == (True, [])


@pytest.mark.sweep
@pytest.mark.skipif(sys.platform != "linux", reason="makes names that others cannot hold")
@on_scene
def test_hostile_names_that_agents_make_never_ship_sweep(scene: Scene) -> None:
    names, total = list(_on_disk(iter(HOSTILE))), 0
    for start in range(0, len(names), 50):
        laid, shipped = _attack(scene, names[start : start + 50], f"w{start}")
        total += laid
        assert shipped == []
    print(f"\nmeasure=hostile_names_on_disk laid={total} shipped=0 target=0")  # noqa: T201
