"""The rules for imports that keep a test command from testing an item's work. Pure. The interpreter
of the command has told where it imports modules from (`driver.python_imports.probe`)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from driver.domain.ownership import OwnedPath, covers
from driver.runners.python_canary import is_test_file
from state_store.values.lazy_dataclass import dataclass

_STANDARD = re.compile(r"/lib(?:64)?/python\d[\d.]*/(?!site-packages/|dist-packages/)")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_USUAL_ROOTS = frozenset({"", "src", "lib", "python"})
_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")
_SETTINGS = frozenset(
    {*_PROJECTS, "pytest.ini", "tox.ini", ".pytest.ini", "pytest.toml", "conftest.py"}
)


@dataclass(frozen=True, slots=True)
class Imports:
    """The answer of an interpreter. `elsewhere` has triples: a module, its file outside of the
    checkout, the file that imports it. `missing` has pairs: a module that was not found, and the
    test file that cannot be loaded without it."""

    python: str
    elsewhere: tuple[tuple[str, str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A file of the tree that a name may mean, and the folder of the import path for it."""

    path: str
    root: str


def of_elsewhere(
    answer: Imports,
    tests: Collection[str],
    files: Collection[str],
    owned: Sequence[OwnedPath],
) -> str:
    """The sentence about a module that the tests import from elsewhere, although the tree has it
    and the item may change it; "" for none. Every name counts by itself. `tests` are the item's;
    other test files of the answer belong to other items."""
    for name, file, by in answer.elsewhere:
        if _STANDARD.search(file) or _is_test_of_others(by, tests):
            continue
        for place in _places(name, files):
            if _INSTALLED.search(file) and not _is_project(place.root, files):
                continue
            if _may_change(owned, place, name, files):
                why = f"the tests import {file} in place of {place.path} ({by} imports {name})"
                return f"{why}, so they cannot see the work: {_remedy(place.root)}"
    return ""


def of_missing(
    answer: Imports,
    tests: Collection[str],
    files: Collection[str],
    owned: Sequence[OwnedPath],
    *,
    may_add_dependencies: bool = False,
) -> str:
    """The sentence about a test file that cannot be loaded on the base, and that the item cannot
    mend; "" for none. With `may_add_dependencies` the item may name the missing module in a file
    that the set-up installs from."""
    for name, by in answer.missing:
        if by not in tests or OwnedPath(by) in owned:
            continue
        why = f"{by} cannot be loaded (ModuleNotFoundError: No module named {name!r})"
        place = next((one for one in _places(name, files) if one.root), None)
        if place is not None:
            if not _may_provide(owned, name, place):
                return f"{why}, but the repository has {place.path}: {_remedy(place.root)}"
        elif not may_add_dependencies and not _may_write(owned, name, files):
            remedy = f"install it for {answer.python}, for example by [workspace] setup"
            return f"{why}: {remedy}"
    return ""


_PYTHON_FILE = re.compile(r"(?<![\w./-])/[^\s:'\"()<>,]+\.py\b")


def of_output(output: str, changed: Collection[str], checkout: str) -> str:
    """The sentence about a red test whose output names a changed file of another checkout, mostly
    in an ImportError or a traceback; "" for none. `checkout` is the user's. The output has no
    absolute paths of the tested tree."""
    for file in _PYTHON_FILE.findall(output):
        for path in changed:
            is_long = "/" in path and file.endswith(f"/{path}")
            if is_long or file == posixpath.join(checkout, path):
                root = posixpath.dirname(path).partition("/")[0]
                remedy = _remedy(root if root in _USUAL_ROOTS else ".")
                return f"the tests import {file} in place of {path}, which was changed: {remedy}"
    return ""


def of_absent(absent: Sequence[str], owned: Sequence[OwnedPath], untracked: Collection[str]) -> str:
    """The sentence about test files that the command names and the base lacks; "" for none. The
    item may write files that it owns. `untracked` files are in the user's checkout."""
    gone = [path for path in absent if not covers(tuple(owned), path)]
    if not gone:
        return ""
    kept = [path for path in gone if path in untracked]
    if kept:
        return f"the test command names {', '.join(kept)}, not committed yet: commit the file"
    why = f"the test command names {', '.join(gone)}, which the base does not have"
    return f"{why}: correct the command, or list the file in ownsFiles"


def _is_test_of_others(by: str, tests: Collection[str]) -> bool:
    """True for a file with the name of a test that the item's command does not load."""
    return by not in tests and is_test_file(by)


def _places(name: str, files: Collection[str]) -> Iterator[_Place]:
    """The files of the tree that may be the module, if their root is no package itself."""
    tail = name.replace(".", "/")
    for end in (f"{tail}.py", f"{tail}/__init__.py"):
        for path in files:
            if path == end or path.endswith(f"/{end}"):
                root = path[: -len(end)].rstrip("/")
                if f"{root}/__init__.py".lstrip("/") not in files:
                    yield _Place(path, root)


def _is_project(root: str, files: Collection[str]) -> bool:
    """True if the root is that of a project, so that an installed module of the same name is most
    likely the project's own."""
    if root in _USUAL_ROOTS:
        return True
    above = posixpath.dirname(root) if posixpath.basename(root) in _USUAL_ROOTS else root
    return any(posixpath.join(above, name) in files for name in _PROJECTS)


def _may_change(
    owned: Sequence[OwnedPath], place: _Place, name: str, files: Collection[str]
) -> bool:
    """True if the item may change the module, or a file of the same package."""
    package = posixpath.join(place.root, name.partition(".")[0])
    if f"{package}/__init__.py" not in files:
        package = place.path
    return any(_meet(one, package) for one in owned)


def _meet(owned: OwnedPath, path: str) -> bool:
    """True if an owned entry is, holds, or lies in a path."""
    inside = path == owned.path or owned.path.startswith(f"{path}/")
    return inside or (owned.is_dir and (not owned.path or path.startswith(f"{owned.path}/")))


def _may_provide(owned: Sequence[OwnedPath], name: str, place: _Place) -> bool:
    """True if the item may make a module that its tests find: it owns settings of the import path,
    or lists a file of this name at another place."""
    first = name.partition(".")[0]
    for one in owned:
        stems = {part.partition(".")[0] for part in one.path.split("/")}
        elsewhere = place.root and not one.path.startswith(f"{place.root}/")
        if posixpath.basename(one.path) in _SETTINGS or (first in stems and elsewhere):
            return True
    return False


def _may_write(owned: Sequence[OwnedPath], name: str, files: Collection[str]) -> bool:
    """True if the item may write the missing module: it lists a file of this name, or owns a folder
    that may get it."""
    parts = name.split(".")
    parent = posixpath.join(*parts[:-1], "") if parts[:-1] else ""
    homes = {f[: f.index(parent) + len(parent)] for f in files if parent and parent in f}
    for one in owned:
        if parts[-1] in {part.partition(".")[0] for part in one.path.split("/")}:
            return True
        if one.is_dir and (not homes or any(_meet(one, home.rstrip("/")) for home in homes)):
            return True
    return False


def _remedy(root: str) -> str:
    own = "a Python environment of its own, made by [workspace] setup"
    path = root or "."
    return f"set PYTHONPATH={path} in the test command, pythonpath in pytest's settings, or {own}"
