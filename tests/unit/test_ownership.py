"""Names: which can be owned, when two are one, and which change an owner allows."""

from __future__ import annotations

import random

import pytest

from driver.domain.ownership import (
    OwnedPath,
    OwnershipError,
    covers,
    find_conflicts,
    git_component,
    name_problem,
    parse_owned,
)
from state_store.documents.errors import InputError

ABSOLUTE = ["/etc/passwd", "/", "//host/share", "///x", "\\x", "\\\\host\\share\\x", "C:x", "C:\\x"]
ABSOLUTE += ["c:/x", "C:", "d:..\\x", "\\\\?\\C:\\x"]
SHELL = ["~", "~/x", "~root/x", "-rf", "--all", "-"]
CLIMBING = ["..", "../x", "a/../b", "a/..", "./../x", "a\\..\\b", "..\\x", "../../x"]
GIT = [".git", ".git/config", "a/.git", "a/.git/hooks/pre-commit", ".GIT/x", ".Git", ".git./x"]
GIT += [".git /x", ".git . ./x", "git~1", "GIT~1/config", ".git::$INDEX_ALLOCATION", ".git:x"]
GIT += [".g\u200cit", ".gi\ufefft/x", "\u200d.git", ".git\u2060", "a\\.git\\config", ".\uff47it"]
NOTHING = ["", ".", "./", "./.", ".//./", "   ", " "]
CONTROL = ["a\0b", "\0", "a\x1bb", "a\rb", "a\x7f", "\x08x", "a/\x01", "a\x85b", "a\u202eb.py"]
CONTROL += ["a\u2066b", "x\u200fy"]
WINDOWS = [
    "aux",
    "con.txt",
    "NUL",
    "a/Com1.log",
    "lpt9",
    "prn.a.b",
    "conin$",
    "com\u00b9",
    "aux .c",
]
WINDOWS += ["aux .c", "a:b", "a:$DATA", "x.", "x ", "a./b", "a /b", "docs/...", "x\n", "x\t"]
PATTERNS = ["*.py", "src/**", "a?.py", "src/*/x"]
BROKEN = ["a\udcffb", "x" * 256, "\u00fc" * 128, "/".join("a" * 41), "a/" * 41, "abcdefgh" * 40]
BROKEN += ["/".join(["x" * 200] * 21)]

BAD = ABSOLUTE + SHELL + CLIMBING + GIT + NOTHING + CONTROL + WINDOWS + PATTERNS + BROKEN

GOOD = {
    "a.py": "a.py",
    "./a.py": "a.py",
    "././/a.py": "a.py",
    "a//b.py": "a/b.py",
    "a/./b.py": "a/b.py",
    "src\\a.py": "src/a.py",
    ".\\src\\a.py": "src/a.py",
    "a..b.py": "a..b.py",
    "v1..v2/notes.md": "v1..v2/notes.md",
    "..a": "..a",
    "a...b": "a...b",
    ".gitignore": ".gitignore",
    ".gitattributes": ".gitattributes",
    ".github/workflows/ci.yml": ".github/workflows/ci.yml",
    ".gitlab-ci.yml": ".gitlab-ci.yml",
    "x.git": "x.git",
    "git": "git",
    "git/a": "git/a",
    "git~x": "git~x",
    ".env": ".env",
    "docs/": "docs",
    "docs/.": "docs",
    "docs\\": "docs",
    "a b.txt": "a b.txt",
    " lead.txt": " lead.txt",
    "\u00fcml\u00e4ut.txt": "\u00fcml\u00e4ut.txt",
    "e\u0301.md": "e\u0301.md",
    "\u65e5\u672c/\u8a9e.md": "\u65e5\u672c/\u8a9e.md",
    "\U0001f600.md": "\U0001f600.md",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.txt": (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645.txt"
    ),
    "a\nb.txt": "a\nb.txt",
    "a\tb.txt": "a\tb.txt",
    "app/[id]/page.tsx": "app/[id]/page.tsx",
    "app/(group)/page.tsx": "app/(group)/page.tsx",
    "routes/+page.svelte": "routes/+page.svelte",
    "@scope/pkg/index.js": "@scope/pkg/index.js",
    "a/-b": "a/-b",
    "a/~b": "a/~b",
    "a~": "a~",
    "#x#": "#x#",
    "a'b\"c": "a'b\"c",
    "$x;y&z": "$x;y&z",
    "Makefile": "Makefile",
    "console.py": "console.py",
    "auxiliary/nullable.c": "auxiliary/nullable.c",
    "com10": "com10",
    "x.aux": "x.aux",
    "A/README.MD": "A/README.MD",
    "x" * 255: "x" * 255,
    "/".join("a" * 40): "/".join("a" * 40),
}


def paths(*entries: str) -> tuple[OwnedPath, ...]:
    return tuple(map(parse_owned, entries))


def overlap(a: OwnedPath, b: OwnedPath) -> bool:
    """PromptFacts another way than by the map: one name, or one above the other."""
    shorter, longer = sorted((a.key, b.key), key=len)
    return shorter == longer or longer.startswith(shorter + "/")


@pytest.mark.parametrize("entry", BAD)
def test_a_name_that_is_not_one_file_everywhere_is_refused_with_a_reason(entry: str) -> None:
    with pytest.raises(OwnershipError, match="cannot be owned: ") as refusal:
        parse_owned(entry)
    assert isinstance(refusal.value, InputError)
    assert "\n" not in str(refusal.value)
    assert "\x1b" not in str(refusal.value)
    assert len(str(refusal.value)) < 700


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("C:\\x", "absolute"),
        ("/x", "absolute"),
        ("\\\\host\\x", "absolute"),
        ("~/x", "shells"),
        ("../x", "climbs out"),
        (".GIT/x", "git's own folder"),
        ("./", "the whole repository"),
        ("", "is empty"),
        ("src/*.py", "a directory with a trailing '/'"),
        ("a\x1b", "control character"),
        ("ab:c", "stream"),
        ("nul.txt", "device"),
        ("x.", "dot or white space"),
        ("a\udcff", "not valid Unicode"),
        ("x" * 256, "longer than 255 bytes"),
    ],
)
def test_the_reason_says_what_to_change(entry: str, reason: str) -> None:
    with pytest.raises(OwnershipError) as refusal:
        parse_owned(entry)
    assert reason in refusal.value.reason


@pytest.mark.parametrize("entry", [entry for entry in BAD if entry not in NOTHING])
def test_a_bad_work_dir_is_refused_like_a_bad_name(entry: str) -> None:
    with pytest.raises(OwnershipError):
        parse_owned("a.py", entry)


@pytest.mark.parametrize(("entry", "path"), GOOD.items())
def test_an_ordinary_name_is_kept_as_it_is_spelled(entry: str, path: str) -> None:
    assert parse_owned(entry).path == path


def test_the_tables_are_as_large_as_promised() -> None:
    assert len(set(BAD)) >= 60
    assert len(GOOD) >= 40


@pytest.mark.parametrize(
    ("entry", "work_dir", "expected"),
    [
        ("a.py", "sub", OwnedPath("sub/a.py")),
        ("a.py", "./sub//x/", OwnedPath("sub/x/a.py")),
        ("a\\b.py", "sub\\x", OwnedPath("sub/x/a/b.py")),
        ("docs/", ".", OwnedPath("docs", is_dir=True)),
        ("docs/", "sub", OwnedPath("sub/docs", is_dir=True)),
        ("./", "sub", OwnedPath("sub", is_dir=True)),
        (".", "sub", OwnedPath("sub", is_dir=True)),
        ("a.", "sub", None),
        ("../a.py", "sub", None),
    ],
)
def test_names_are_relative_to_the_work_dir(
    entry: str, work_dir: str, expected: OwnedPath | None
) -> None:
    if expected is None:
        with pytest.raises(OwnershipError):
            parse_owned(entry, work_dir)
    else:
        assert parse_owned(entry, work_dir) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("a.py", "a.py", True),
        ("A.py", "a.py", True),
        ("./a.py", "a.py", True),
        ("src\\a.py", "src/a.py", True),
        ("\u00e9.md", "e\u0301.md", True),
        ("\u00c9.md", "e\u0301.md", True),
        ("stra\u00dfe", "STRASSE", True),
        ("x\u200dy", "xy", True),
        ("\ufb01x", "fix", True),
        ("docs/", "docs/x.md", True),
        ("docs/", "Docs/sub/x.md", True),
        ("docs/", "docs", True),
        ("a", "a/b", True),
        ("a/b/", "a/b/c/", True),
        ("docs/", "docs2/x.md", False),
        ("a", "ab", False),
        ("a/b", "a/bc", False),
        ("a.py", "b.py", False),
        ("s1/x.py", "s2/x.py", False),
        ("x/a", "a", False),
    ],
)
def test_two_owners_of_one_place_overlap_whatever_the_spelling(
    a: str, b: str, expected: bool
) -> None:
    one, other = paths(a, b)
    assert bool(find_conflicts([("x", None, (one,)), ("y", None, (other,))])) is expected
    assert bool(find_conflicts([("x", None, (other,)), ("y", None, (one,))])) is expected


def test_a_conflict_names_both_items_and_the_later_ones_file() -> None:
    (found,) = find_conflicts([("x", "r", paths("README.md")), ("y", "r", paths("readme.md"))])
    assert found.to_json() == {
        "file": "readme.md",
        "normalized": "readme.md",
        "repo": "r",
        "items": ["x", "y"],
    }
    assert "fold case" in found.describe()


def test_one_file_in_two_repositories_is_no_conflict() -> None:
    assert not find_conflicts([("x", "r", paths("a")), ("y", "s", paths("a"))])


def test_an_item_cannot_conflict_with_itself() -> None:
    assert not find_conflicts([("x", None, paths("docs/", "docs/a.md", "docs/a.md"))])


def test_an_owner_two_levels_up_is_found_past_a_nearer_own_entry() -> None:
    found = find_conflicts([("x", None, paths("a/")), ("y", None, paths("b", "a/b/", "a/b/c"))])
    assert [(c.file, c.slugs) for c in found] == [("a/b", ("x", "y")), ("a/b/c", ("x", "y"))]


def test_conflicts_are_those_that_comparing_all_pairs_finds() -> None:
    chance = random.Random(20)
    names = ["a", "A", "b/", "a/b", "a/b/c", "b/c", "B/c/d/", "ab", "a/bc", "e\u0301", "\u00e9/x"]
    for _ in range(300):
        owners = [
            (f"s{n}", chance.choice([None, "r"]), paths(*chance.sample(names, 2)))
            for n in range(chance.randint(1, 6))
        ]
        clashing = {
            (one[0], path.path)
            for n, one in enumerate(owners)
            for other in owners[:n]
            for path in one[2]
            if one[1] == other[1] and any(overlap(path, held) for held in other[2])
        }
        assert {(c.slugs[1], c.file) for c in find_conflicts(owners)} == clashing


@pytest.mark.more
def test_ten_thousand_owners_of_one_directory_give_one_line_each() -> None:
    owners = [(f"s{n}", None, (OwnedPath("docs", is_dir=True),)) for n in range(10_000)]
    found = find_conflicts(owners)
    assert len(found) == 9_999
    assert found[-1].slugs == ("s0", "s9999")


@pytest.mark.parametrize(
    ("owned", "path", "expected"),
    [
        ("a.py", "a.py", True),
        ("a.py", "A.py", False),
        ("\u00e9", "e\u0301", False),
        ("docs/", "docs/a/b.md", True),
        ("docs/", "docs", False),
        ("docs/", "docs2/a", False),
        ("docs/", "Docs/a", False),
        ("docs", "docs/a.md", False),
        ("a/b.py", "b.py", False),
        ("src\\a.py", "src/a.py", True),
        ("src/a.py", "src\\a.py", False),
    ],
)
def test_only_exactly_owned_names_may_change(owned: str, path: str, expected: bool) -> None:
    assert covers(paths("other", owned), path) is expected


@pytest.mark.parametrize("entry", GIT)
def test_every_spelling_of_gits_folder_is_known(entry: str) -> None:
    assert any(map(git_component, entry.split("/")))


@pytest.mark.parametrize("name", [".gitignore", "git", ".gitx", "x.git", "git~", "agit~1", "", "."])
def test_a_name_that_only_resembles_gits_folder_is_free(name: str) -> None:
    assert not git_component(name)


def test_random_text_is_either_refused_or_a_clean_relative_path() -> None:
    chance = random.Random(4)
    alphabet = "ab./\\~: \n\0-\u200c\u00e9e\u0301\udcff*?gitGIT1$"
    for _ in range(4000):
        entry = "".join(chance.choices(alphabet, k=chance.randint(0, 12)))
        try:
            owned = parse_owned(entry)
        except OwnershipError:
            continue
        parts = owned.path.split("/")
        assert all(part and name_problem(part) is None for part in parts)
        assert parse_owned(owned.path).path == owned.path
