"""The protected files: they decide what a test run means, so they always come from the base.

These are existing tests, configuration of runners, builds, CI and agents, and new files that would
hide a file from the runner. The owner of a folder cannot change protected files in it. An item that
lists a file by name can. Pure: the changes are read elsewhere, from git objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from driver.domain.ownership import OwnedPath, comparison_key
from driver.domain.results import MODE_LINK, Change
from driver.policy.shadowing import hides_ours, is_made, shadows
from driver.policy.started_files import files_started, goes_first
from driver.policy.test_files import NamedTests, is_test, named_tests
from driver.runners.table import RUNNERS
from driver.test_command.build_scripts import Read, included
from driver.test_command.invocations import Command
from state_store.values.lazy_dataclass import dataclass

A_TEST = "an existing test"
_OF_RUNNERS = "configuration of a test runner"

# The names in refusals, and the patterns of each kind. A pattern is a name at any depth, `folder/`
# for everything below a folder of this name or, with a slash inside, a path from the repository's
# top. Each runner module lists its own files. Entry points of a `*.dist-info` are plugins of
# pytest.
_KINDS: dict[str, str] = {
    "configuration of a test runner": """
        tox.toml ava.config.* .taprc .c8rc* noxfile.py .coveragerc nose.cfg nose2.cfg trial.cfg
        karma.conf.* playwright.config.* nyc.config.* cypress.config.* .nycrc* wdio.conf.*
        dart_test.yaml .busted
    """,
    "configuration of a build": """
        package.json package-lock.json npm-shrinkwrap.json yarn.lock .npmrc pnpm-lock.yaml
        pnpm-workspace.yaml .pnpmfile.* .yarnrc* bun.lock* bunfig.toml deno.json* deno.lock
        tsconfig*.json babel.config.* .babelrc* .swcrc node_modules/ .yarn/ makefile gnumakefile
        justfile .justfile taskfile*.y*ml rakefile *.mk *.mak cmakelists.txt *.cmake
        cmakepresets.json meson.build cmakeuserpresets.json .cargo/ cargo.toml cargo.lock build.rs
        .bundle/ vendor/modules.txt buildsrc/ .bazelrc mise.toml .mise.toml turbo.json go.mod
        go.sum go.work go.work.sum pom.xml .mvn/ build.gradle* settings.gradle* gradle.properties
        gradlew* gradle/wrapper/* *.csproj *.fsproj *.vbproj *.sln directory.build.* global.json
        nuget.config gemfile gemfile.lock composer.json composer.lock setup.py pipfile
        pipfile.lock poetry.lock uv.lock uv.toml requirements*.txt .python-version .tool-versions
        .envrc rust-toolchain* .venv/ venv/ site-packages/ .*-version .nvmrc makefile.* *.rake
        *.gradle *.gradle.kts nx.json project.json build.bazel workspace.bazel module.bazel *.bzl
        pants.toml poetry.toml hatch.toml pixi.toml mix.exs rebar.config package.swift
        pubspec.yaml build.sbt project.clj deps.edn build.zig dune dune-project *.cabal stack.yaml
        cabal.project
    """,
    "configuration of a checker": """
        ruff.toml .ruff.toml mypy.ini .mypy.ini pyrightconfig.json .flake8 .pylintrc pylintrc
        .bandit .eslintrc* .eslintignore eslint.config.* biome.json* .oxlintrc.json .prettierrc*
        .prettierignore prettier.config.* .stylelintrc* tslint.json .golangci.* clippy.toml
        .clippy.toml rustfmt.toml .rustfmt.toml deny.toml .clang-tidy .clang-format .rubocop*
        phpstan.*neon* psalm.xml* .shellcheckrc .swiftlint.yml checkstyle*.xml detekt.y*ml
        .yamllint* .markdownlint* .editorconfig
    """,
    "run by Python before any test": """
        sitecustomize.* usercustomize.* sitecustomize/ usercustomize/ *.pth *.dist-info/
        *.egg-info/
    """,
    "compiled code that Python may run in place of its source": "__pycache__/ *.pyc *.pyo",
    "configuration of CI": """
        .github/workflows/* .github/actions/* .gitlab-ci.yml .gitlab/ci/* .circleci/ .buildkite/
        jenkinsfile .travis.yml .drone.yml azure-pipelines*.yml bitbucket-pipelines.yml
        appveyor.yml .woodpecker*
    """,
    "hooks and settings of git": """
        .gitattributes .gitmodules .husky/ .githooks/ githooks/ .pre-commit-config.yaml
        lefthook.y*ml .lefthook/ .lintstagedrc*
    """,
    "instructions of agents": """
        claude.md claude.local.md agents.md agent.md gemini.md .claude/ .cursor/ .cursorrules
        .cursorignore .codex/ .gemini/ .windsurfrules .windsurf/ .clinerules .clinerules/ .aider*
        .mcp.json .roo/ copilot-instructions.md .github/instructions/* tidegate.toml
        aesop.config.json
    """,
}


@dataclass(frozen=True, slots=True)
class _Listed:
    """The patterns of one kind. Plain names and folders are looked up; other patterns are
    matched."""

    names: frozenset[str]
    folders: frozenset[str]
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, patterns: Sequence[str]) -> _Listed:
        plain = [one for one in patterns if not {*"*?["} & {*one} and "/" not in one[:-1]]
        folders = frozenset(one[:-1] for one in plain if one.endswith("/"))
        names = frozenset(one for one in plain if not one.endswith("/"))
        return cls(names, folders, tuple(one for one in patterns if one not in plain))


_CONFIGURES = [name for runner in RUNNERS.values() for name in runner.configures]
_LISTED = {
    kind: _Listed.of([*text.split(), *(_CONFIGURES if kind == _OF_RUNNERS else ())])
    for kind, text in _KINDS.items()
}


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection rules for an item's changes. `base` are the paths of its base commit,
    `work_dir` is relative to the repository's top, `more` are the user's patterns. `read` returns
    the text of a file of the base, "" for none. The commands `setup` run before the test, in the
    same checkout."""

    base: frozenset[str]
    command: Command
    work_dir: str = "."
    more: tuple[str, ...] = ()
    read: Read = lambda path: ""  # noqa: ARG005 - a repository without files
    setup: tuple[Command, ...] = ()

    def protected_changes(
        self, changes: Sequence[Change], owned: Iterable[OwnedPath]
    ) -> tuple[tuple[str, str], ...]:
        """The changed protected files that the item does not list by name, as pairs of path and
        kind."""
        listed = {entry.path for entry in owned if not entry.is_dir}
        gone = {change.path for change in changes if change.deleted}
        there = {*self.base, *(change.path for change in changes)} - gone
        started = files_started(self.command, self.work_dir, self.read)
        prepares = set[str]().union(*(files_started(one, ".", self.read) for one in self.setup))
        makes = included(self.command, self.work_dir, self.read)
        names = self.named_tests()
        found = []
        for change in changes:
            if change.path in listed:
                continue
            kind = self._always(change, makes)
            if change.base_mode is None:
                kind = kind or self._new(change, started | prepares, there, self.base - gone)
            elif not kind and change.path in started and not is_test(change.path):
                kind = "a file that the test command runs"
            elif not kind and change.path in prepares and not is_test(change.path):
                kind = "a file that the set-up runs"
            elif not kind and (is_test(change.path) or names.holds(change.path)):
                kind = A_TEST
            found.append((change.path, kind))
        return tuple((path, kind) for path, kind in found if kind)

    def named_tests(self) -> NamedTests:
        """The tests in the test command, besides files with a usual name."""
        return named_tests(self.command, self.work_dir, self.read)

    def _always(self, change: Change, makes: Sequence[str]) -> str:
        """The kind of a change that is protected even if its file is new. A link may replace a
        folder with anything below it."""
        paths = (change.path, f"{change.path}/x") if change.mode == MODE_LINK else (change.path,)
        kinds = filter(None, (configuration(path, self.more) for path in paths))
        included_now = any(fnmatchcase(change.path, pattern) for pattern in makes)
        return next(kinds, "a file that the makefile includes" if included_now else "")

    def _new(
        self, change: Change, started: set[str], there: set[str], stays: frozenset[str]
    ) -> str:
        """The kind of a new file that a program would read in place of another file."""
        path = change.path
        module = f"{path}/__init__.py" if change.mode == MODE_LINK else path
        if shadows(path, there) or shadows(module, there):
            return "a name that hides a module of Python or of a test runner"
        if hides_ours(module, stays, self.work_dir):
            return "a name that hides a module of the repository from its tests"
        if goes_first(path, started, self.base):
            return "a name that runs in place of a file of the test command"
        made = is_made(path, self.command, self.work_dir, self.base, self.read)
        return "a name that make takes for the test" if made else ""


def configuration(path: str, more: Sequence[str] = ()) -> str:
    """The kind of configuration file at a path, in a few words; "" for none."""
    key = comparison_key(path)
    *folders, name = key.split("/")
    for kind, listed in _LISTED.items():
        if name in listed.names or not listed.folders.isdisjoint(folders):
            return kind
        if any(matches(key, pattern) for pattern in listed.patterns):
            return kind
    yours = any(matches(key, comparison_key(pattern)) for pattern in more)
    return "protected by [verify] protected" if yours else ""


def matches(key: str, pattern: str) -> bool:
    """True if a path fits a pattern. A pattern is a name, `folder/` or, with a slash inside, a path
    from the top. `*` also matches slashes."""
    if pattern.endswith("/"):
        folder = pattern[:-1]
        if "/" in folder:
            return fnmatchcase(key, f"{folder}/*")
        return any(fnmatchcase(part, folder) for part in key.split("/")[:-1])
    return fnmatchcase(key if "/" in pattern else key.rpartition("/")[2], pattern)


def refusal(changed: Sequence[tuple[str, str]], limit: int = 20) -> str:
    """The sentence that names the files and the remedy; "" for no files."""
    if not changed:
        return ""
    shown = ", ".join(f"{path} ({kind})" for path, kind in changed[:limit])
    rest = f" and {len(changed) - limit} more" if len(changed) > limit else ""
    return (
        f"touched protected files, which always come from the base: {shown}{rest};"
        " restore them, or list a file by name in ownsFiles to allow the change"
    )
