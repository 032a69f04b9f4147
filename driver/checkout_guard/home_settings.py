"""Settings of checkers and builds in the user's home, as they were when the wave began.

Agents and tests can write in the home, and no diff shows that. So while the settings are as they
were, tests run with the user's own home. After a change they get a view of it: a folder with a link
to everything in the home, except for the changed settings, which are as they were. Caches,
credentials and toolchains stay shared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes
from driver.filesystem.tree import remove_tree, signature_at
from state_store.values.lazy_dataclass import dataclass

# Names in the home. A name may be a folder.
_OF_CHECKERS = """
    .mypy.ini .config/mypy .config/ruff .pylintrc .config/pylintrc .flake8 .config/flake8
    .config/pycodestyle .config/pydocstyle .config/yamllint .config/black .isort.cfg
    .editorconfig .config/tox .bandit .coveragerc .eslintrc .eslintrc.js .eslintrc.cjs
    .eslintrc.json .eslintrc.yml .eslintrc.yaml .eslintignore .jshintrc .prettierrc
    .stylelintrc .config/prettier .markdownlint.json .markdownlintrc .rubocop.yml
    .config/rubocop .rspec .config/rspec .shellcheckrc .config/shellcheckrc .golangci.yml
    .golangci.yaml .config/golangci .config/hadolint.yaml .config/hadolint .rustfmt.toml
    .config/rustfmt .clippy.toml .config/phpstan .config/pyright .config/basedpyright
    .config/sqlfluff .sqlfluff .vale.ini .config/vale .config/codespell .codespellrc
    .config/typos.toml .config/ansible-lint.yml .config/clangd .clang-format .clang-tidy
    .tflint.hcl .config/dprint
"""
_OF_BUILDS = """
    .npmrc .yarnrc .yarnrc.yml .config/pnpm/rc .bunfig.toml .config/pip .pip .config/uv/uv.toml
    .config/pypoetry/config.toml .config/pdm .config/hatch .cargo/config .cargo/config.toml
    .config/go/env .m2/settings.xml .m2/toolchains.xml .m2/extensions.xml .mavenrc
    .gradle/gradle.properties .gradle/init.gradle .gradle/init.gradle.kts .gradle/init.d .gemrc
    .bundle/config .node_modules .node_libraries .config/mise/config.toml .tool-versions
    .nuget/NuGet/NuGet.Config .config/composer/config.json .pydistutils.cfg .zshenv
    .config/tidegate/tidegate.toml
"""
_CHECKERS, _BUILDS = tuple(_OF_CHECKERS.split()), tuple(_OF_BUILDS.split())
# Folders that a variable can move, and where they are else.
_MOVED = {"XDG_CONFIG_HOME": ".config", "CARGO_HOME": ".cargo", "GRADLE_USER_HOME": ".gradle"}
_MAX_BYTES = 1 << 20
_MAX_FILES = 2_000
_ANY = "/"  # no name of an entry: a folder whose names cannot be listed

_Content = Mapping[str, bytes | None]  # by path below the setting; None is a folder


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder of settings, which the variable `variable` names."""

    variable: str
    path: str
    names: tuple[str, ...]


class HomeSettings:
    """The settings of the home that `environ`, the variables of tests, names. Views are made in
    `folder`. Safe to use from many threads."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = environ
        self._folder = folder
        self._lock = threading.Lock()
        self._made = 0
        self._roots = tuple(_roots(environ, (*_CHECKERS, *_BUILDS)))
        self._paths = _paths(self._roots)
        self._reported = set[str]()
        self._start = self.look()
        self._kept = {path: _content(path) for path in self._start}

    def look(self) -> dict[str, object]:
        """The stat data of the settings that exist, by path."""
        names, roots = dict[str, frozenset[str]](), {root.path for root in self._roots}
        there = (path for path in self._paths if _may_exist(path, roots, names))
        found = ((path, _signature(path)) for path in there)
        return {path: signature for path, signature in found if signature is not None}

    def changed(self) -> tuple[str, ...]:
        """The paths of the settings that are not as they were."""
        now, start = self.look(), self._start
        return tuple(path for path in self._paths if now.get(path) != start.get(path))

    def unreported(self, changed: Iterable[str]) -> tuple[str, ...]:
        """The `changed` settings that this did not return before."""
        with self._lock:
            new = tuple(path for path in changed if path not in self._reported)
            self._reported |= {*new}
        return new

    @contextmanager
    def variables(self) -> Iterator[dict[str, str]]:
        """The variables by which a test finds the settings as they were; none without a change."""
        changed = self.changed()
        if not changed:
            yield {}
            return
        with self._lock:
            self._made += 1
            view = self._folder / str(self._made)
        try:
            views = {
                root.variable: self._view(root, view / root.variable.lower(), changed)
                for root in self._roots
                if any(path.startswith(f"{root.path}/") for path in changed)
            }
            yield self._for_java(views) | views
        finally:
            with suppress(OSError):  # removed with the wave
                remove_tree(view)

    def _for_java(self, views: Mapping[str, str]) -> dict[str, str]:
        """The variables for programs in Java, which do not ask HOME where the home is."""
        home = views.get("HOME")
        if home is None or " " in home:  # the options are split at spaces
            return {}
        options = f"{self._environ.get('MAVEN_OPTS', '')} -Duser.home={home}".strip()
        gradle = self._environ.get("GRADLE_USER_HOME", f"{home}/.gradle")
        return {"MAVEN_OPTS": options, "GRADLE_USER_HOME": gradle}

    def _view(self, root: _Root, view: Path, changed: tuple[str, ...]) -> str:
        """Make the view of one folder; returns its path."""
        names = [name for name in root.names if f"{root.path}/{name}" in changed]
        _link_all(Path(root.path), view, names)
        for name in names:
            for path, content in (self._kept.get(f"{root.path}/{name}") or {}).items():
                target = view / name / path if path else view / name
                if content is None:
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
                    target.chmod(0o600)
        return str(view)


def settings_of_checkers(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of the settings of checkers in the home, whether they exist or not."""
    return _paths(_roots(environ, _CHECKERS))


def settings_of_builds(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The paths of the settings of builds in the home, whether they exist or not."""
    return _paths(_roots(environ, _BUILDS))


def _paths(roots: Iterable[_Root]) -> tuple[str, ...]:
    return tuple(f"{root.path}/{name}" for root in roots for name in root.names)


def _roots(environ: Mapping[str, str], names: tuple[str, ...]) -> Iterator[_Root]:
    """The folders of settings that the variables name."""
    home = environ.get("HOME")
    if home and Path(home).is_absolute():
        yield _Root("HOME", home.rstrip("/"), names)
    for variable, usual in _MOVED.items():
        path = environ.get(variable)
        if path and Path(path).is_absolute():
            inside = tuple(n.removeprefix(f"{usual}/") for n in names if n.startswith(f"{usual}/"))
            yield _Root(variable, path.rstrip("/"), inside)


def _link_all(source: Path, view: Path, names: list[str]) -> None:
    """Fill `view` with links to the entries of `source`. An entry of `names` is left out, and a
    folder on the way to one is made, and filled in the same way."""
    view.mkdir(parents=True, mode=0o700)
    inside: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.partition("/")
        inside.setdefault(first, []).append(rest)
    entries: list[str] = []
    with suppress(OSError):  # a folder that is missing or may not be read
        entries = os.listdir(source)  # noqa: PTH208 - names are all that is wanted
    for entry in entries:
        below = inside.get(entry)
        if below is None:
            (view / entry).symlink_to(source / entry)
        elif "" not in below:
            _link_all(source / entry, view / entry, below)


def _may_exist(path: str, roots: Collection[str], names: dict[str, frozenset[str]]) -> bool:
    """False if the folder of `path` has no such name. `names` are those of the folders listed so
    far: most settings are missing, and one listing tells that of many."""
    folder, _, name = path.rpartition("/")
    if folder not in names:
        found: Iterable[str] = ()
        if folder in roots or _may_exist(folder, roots, names):
            try:
                found = os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
            except PermissionError:  # its entries may be there all the same
                found = [_ANY]
            except OSError:
                found = ()
        names[folder] = frozenset(one.casefold() for one in found)
    return name.casefold() in names[folder] or _ANY in names[folder]


def _signature(path: str) -> object:
    """The stat data of a file, or of everything in a folder; None if there is nothing."""
    own = signature_at(path)
    if own is None:
        return None
    if not Path(path).is_dir():
        return own, signature_at(os.path.realpath(path))
    return own, tuple((name, signature_at(f"{path}/{name}")) for name in _below(Path(path)))


def _content(path: str) -> _Content:
    """The content of a setting; a file has the path ""."""
    top = Path(path)
    if not top.is_dir():
        return {"": _bytes(top)}
    return {"": None} | {
        name: None if (top / name).is_dir() else _bytes(top / name) for name in _below(top)
    }


def _bytes(path: Path) -> bytes:
    try:
        return regular_bytes(path) if path.stat().st_size <= _MAX_BYTES else b""
    except OSError:
        return b""


def _below(top: Path) -> list[str]:
    """The relative paths of everything in a folder, sorted; of a huge one only the first."""
    found: list[str] = []
    for folder, folders, files in os.walk(top):
        found += [os.path.relpath(os.path.join(folder, name), top) for name in (*folders, *files)]  # noqa: PTH118
        if len(found) > _MAX_FILES:
            break
    return sorted(found[:_MAX_FILES])
