"""Which files decide what a test run means, and so always come from the base.

Tests that are there already, configuration of runners, builds, CI and agents, and new files that
would stand in the way of a runner. Owning the folder around such a file is no leave to touch it;
listing it by name is. Pure; what changed is found elsewhere, in git objects.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from driver.build_files import MAKEFILES, included
from driver.outcome import Change
from driver.ownership import OwnedPath, comparison_key
from driver.started import Command, files_started, words_of

A_TEST = "a test that is there already"

# What each list is called in a refusal, and its patterns: a name at any depth, `folder/` for all
# below a folder of that name, or with a slash inside a path from the repository's top.
_KINDS: dict[str, tuple[str, ...]] = {
    "configuration of a test runner": (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
        *("tox.toml", "setup.cfg", "pyproject.toml", "ava.config.*", ".taprc", ".c8rc*"),
        *("noxfile.py", ".coveragerc", "nose.cfg", "nose2.cfg", "unittest.cfg", "trial.cfg"),
        *("jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*"),
        *("vite.config.*", ".mocharc*", "mocha.opts", "karma.conf.*", "playwright.config.*"),
        *("nyc.config.*", "phpunit.dist.xml", "nextest.toml", "xunit.runner.json"),
        *("cypress.config.*", ".nycrc*", ".rspec", "phpunit.xml*", "ctesttestfile.cmake"),
        *("ctestconfig.cmake", "ctestcustom.cmake", "*.runsettings", "testng.xml"),
        *("junit-platform.properties",),
    ),
    "configuration of a build": (
        *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", ".npmrc"),
        *("pnpm-lock.yaml", "pnpm-workspace.yaml", ".pnpmfile.*", ".yarnrc*", "bun.lock*"),
        *("bunfig.toml", "deno.json*", "deno.lock", "tsconfig*.json", "babel.config.*"),
        *(".babelrc*", ".swcrc", "node_modules/", ".yarn/"),
        *("makefile", "gnumakefile", "justfile", ".justfile", "taskfile*.y*ml", "rakefile"),
        *("*.mk", "*.mak", "cmakelists.txt", "*.cmake", "cmakepresets.json", "meson.build"),
        *("cmakeuserpresets.json", ".cargo/", "cargo.toml", "cargo.lock", "build.rs", ".bundle/"),
        *("vendor/modules.txt", "buildsrc/", ".bazelrc", "mise.toml", ".mise.toml", "turbo.json"),
        *("go.mod", "go.sum", "go.work", "go.work.sum", "pom.xml", ".mvn/", "build.gradle*"),
        *("settings.gradle*", "gradle.properties", "gradlew*", "gradle/wrapper/*"),
        *("*.csproj", "*.fsproj", "*.vbproj", "*.sln", "directory.build.*", "global.json"),
        *("nuget.config", "gemfile", "gemfile.lock", "composer.json", "composer.lock"),
        *("setup.py", "pipfile", "pipfile.lock", "poetry.lock", "uv.lock", "uv.toml"),
        *("requirements*.txt", ".python-version", ".tool-versions", ".envrc"),
        *("rust-toolchain*", ".venv/", "venv/", "site-packages/"),
    ),
    "run by Python before any test": (
        *("sitecustomize.py", "usercustomize.py", "*.pth"),
        *("*.dist-info/", "*.egg-info/"),  # their entry points are plugins of pytest
    ),
    "compiled code that Python may run in place of its source": ("__pycache__/", "*.pyc", "*.pyo"),
    "configuration of CI": (
        *(".github/workflows/*", ".github/actions/*", ".gitlab-ci.yml", ".gitlab/ci/*"),
        *(".circleci/", ".buildkite/", "jenkinsfile", ".travis.yml", ".drone.yml"),
        *("azure-pipelines*.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".woodpecker*"),
    ),
    "hooks and settings of git": (
        *(".gitattributes", ".gitmodules", ".husky/", ".githooks/", "githooks/"),
        *(".pre-commit-config.yaml", "lefthook.y*ml", ".lefthook/", ".lintstagedrc*"),
    ),
    "instructions of agents": (
        *("claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", ".claude/"),
        *(".cursor/", ".cursorrules", ".cursorignore", ".codex/", ".gemini/", ".windsurfrules"),
        *(".windsurf/", ".clinerules", ".clinerules/", ".aider*", ".mcp.json", ".roo/"),
        *("copilot-instructions.md", ".github/instructions/*", "tidegate.toml"),
        *("aesop.config.json",),
    ),
}

_TEST_FOLDERS = frozenset(
    {"test", "tests", "__tests__", "spec", "testdata", "__snapshots__", "e2e", "cypress"}
    | {"__mocks__", "__fixtures__"}
)
_TEST_NAME = re.compile(
    r"test_.*\.py|.*_tests?\.(py|go|rs|c|cc|cpp|rb|exs?|dart)|tests?\.(py|rs|[cm]?[jt]s)"
    r"|.*[._-](test|spec)s?\.([cm]?[jt]sx?)|.*_spec\.rb"
)
# Here the case tells: `LatestTest.java`, but not `Latest.java`.
_CAMEL_TEST = re.compile(r"(.*(Tests?|IT|Spec)|Test[A-Z].*)\.[a-z]+")
_CAMEL_SUFFIX = re.compile(r".*\.(java|kt|scala|groovy|cs|fs|vb|php|swift)")

_RUNNER_MODULES = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "coverage", "nose", "nose2", "xdist"}
    | {"pytest_cov", "hypothesis", "tox", "nox"}
    | {"pygments", "exceptiongroup", "colorama", "tomli"}  # pytest imports them where they are
)
_HARMLESS = frozenset({"test", "this", "antigravity", "idlelib", "turtledemo", "__main__"})
_MODULES = (sys.stdlib_module_names | _RUNNER_MODULES) - _HARMLESS
_MODULE_FILE = re.compile(r"([^.]+)\.(?:py|pyc|pyd|so|.*\.(?:so|pyd))")


def _nothing(path: str) -> str:
    del path
    return ""


@dataclass(frozen=True, slots=True)
class Protection:
    """What decides about an item's files: the base's paths, where its test runs and by which
    command, both from the repository's top, `more` patterns of the user's, and how to `read` a
    file of the base ("" for none)."""

    base: frozenset[str]
    command: Command
    work_dir: str = "."
    more: tuple[str, ...] = ()
    read: Callable[[str], str] = _nothing

    def touched(
        self, changes: Sequence[Change], owned: Iterable[OwnedPath]
    ) -> tuple[tuple[str, str], ...]:
        """(path, what it is) of the protected files that changed and are not owned by name."""
        listed = {entry.path for entry in owned if not entry.is_dir}
        packages = {*self.base, *(change.path for change in changes if not change.deleted)}
        started = files_started(self.command, self.work_dir, self.read)
        makes = included(self.command, self.work_dir, self.read)
        unlisted = (change for change in changes if change.path not in listed)
        kinds = (
            (
                change.path,
                self._always(change.path, makes) or self._by_age(change, started, packages),
            )
            for change in unlisted
        )
        return tuple((path, kind) for path, kind in kinds if kind)

    def _always(self, path: str, makes: Sequence[str]) -> str:
        """What a path is that is protected whether it was there or not."""
        if kind := configuration(path, self.more):
            return kind
        found = any(fnmatchcase(path, pattern) for pattern in makes)
        return "what the makefile includes" if found else ""

    def _by_age(self, change: Change, started: set[str], there: set[str]) -> str:
        """The same for files that were there, and for new ones."""
        path = change.path
        if change.base_mode is not None:
            if is_test(path):
                return A_TEST
            return "what the test command runs" if path in started else ""
        if shadows(path, there):
            return "a name that hides a module of Python or of a test runner"
        return "a name that make takes for the test" if self._is_target(path) else ""

    def _is_target(self, path: str) -> bool:
        words = words_of(self.command)
        if not {posixpath.basename(word) for word in words} & {"make", "gmake"}:
            return False
        for folder in ("", posixpath.normpath(self.work_dir)):
            prefix = "" if folder in ("", ".") else f"{folder}/"
            first = path.removeprefix(prefix).split("/")[0]
            if not path.startswith(prefix) or not self.base & {prefix + m for m in MAKEFILES}:
                continue
            if first in {"test", "check", "all", *words} and not self._holds(prefix + first):
                return True
        return False

    def _holds(self, path: str) -> bool:
        return any(one == path or one.startswith(f"{path}/") for one in self.base)


def configuration(path: str, more: Sequence[str] = ()) -> str:
    """What a path configures, in a few words; "" when it is no configuration."""
    key = comparison_key(path)
    for kind, patterns in _KINDS.items():
        if any(matches(key, pattern) for pattern in patterns):
            return kind
    yours = any(matches(key, comparison_key(pattern)) for pattern in more)
    return "protected by [verify] protected" if yours else ""


def matches(key: str, pattern: str) -> bool:
    """Whether a path fits a pattern of a name, of a `folder/` or, with a slash inside, of a path
    from the top; `*` stands for anything, slashes too."""
    if pattern.endswith("/"):
        folder = pattern[:-1]
        if "/" in folder:
            return fnmatchcase(key, f"{folder}/*")
        return any(fnmatchcase(part, folder) for part in key.split("/")[:-1])
    return fnmatchcase(key if "/" in pattern else key.rpartition("/")[2], pattern)


def is_test(path: str) -> bool:
    """Whether a file is a test or belongs to tests, by the names that runners look for."""
    *folders, name = path.split("/")
    if any(folder.lower() in _TEST_FOLDERS for folder in folders):
        return True
    if _CAMEL_SUFFIX.fullmatch(name.lower()):
        return _CAMEL_TEST.fullmatch(name) is not None
    return _TEST_NAME.fullmatch(name.lower()) is not None


def shadows(path: str, there: set[str]) -> bool:
    """Whether a new file would be imported instead of a module of Python's or of a runner's.

    That takes a folder that can be on the import path: one that is no package among `there`.
    """
    *folders, name = path.split("/")
    if name == "__init__.py" and folders:
        name = f"{folders.pop()}.py"
    found = _MODULE_FILE.fullmatch(name)
    if found is None or found[1].lower() not in _MODULES:
        return False
    return "/".join([*folders, "__init__.py"]) not in there


def refusal(touched: Sequence[tuple[str, str]], limit: int = 20) -> str:
    """A sentence that names the files, and the way out."""
    if not touched:
        return ""
    shown = ", ".join(f"{path} ({kind})" for path, kind in touched[:limit])
    rest = f" and {len(touched) - limit} more" if len(touched) > limit else ""
    return (
        f"touched protected files, which always come from the base: {shown}{rest};"
        " put them back, or list a file by name in ownsFiles to have it changed"
    )
