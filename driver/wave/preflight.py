"""Checks before a wave costs anything: folders, names, overlaps, the git guard."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.domain.ownership import (
    OwnedPath,
    OwnershipError,
    covers,
    find_conflicts,
    leaves_tree,
    linked_path,
    nested_repository,
    parse_owned,
)
from driver.domain.prompts import command_text
from driver.domain.results import MODE_NESTED
from driver.domain.tiers import policy_for
from driver.domain.work_item import Manifest, WorkItem
from driver.run_state.plan import SHIP_MODES, Home, Planned, Shipping
from driver.terminal.check_result import CheckResult, tried
from driver.test_command.exit_code_rules import command_problems
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.errors import ExitCode, InputError
from state_store.documents.files import is_folder
from tools.settings.schema import ShipSettings


class PreflightError(InputError):
    """A failed pre-flight. `abort_reason` is a word of the report, `details` are more of
    its keys."""

    def __init__(
        self,
        abort_reason: str,
        problems: str | Sequence[str],
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problems)
        self.abort_reason = abort_reason
        self.details = dict(details or {})


def preflight(
    manifest: Manifest,
    driver: AgentDriver,
    shipping: Shipping,
    base_dir: Path,
    survey: RepositoryInfo,
) -> tuple[Planned, ...]:
    """The manifest's items with their folders, files and policies. Raises PreflightError."""
    _check_repo_fields(manifest, shipping)
    default = Path(shipping.expect_top) if shipping.expect_top else base_dir
    homes = [_home(item, default, survey) for item in manifest.items]
    _check_guard(homes, shipping)
    problems: list[str] = []
    owned = [
        _parse(item, home.work_dir, problems)
        for item, home in zip(manifest.items, homes, strict=True)
    ]
    if problems:
        raise PreflightError("invalid_file_paths", problems)
    _check_links(manifest.items, homes, owned, survey)
    _check_overlap(manifest.items, homes)
    caps = driver.probe_capabilities()
    return tuple(
        Planned(item, policy_for(caps, item), home, paths)
        for item, home, paths in zip(manifest.items, homes, owned, strict=True)
    )


def check_ready(driver: AgentDriver, worded: Callable[[str], str] = str) -> None:
    """Raise PreflightError (exit 4) if the backend cannot run here; `worded` rewrites its
    problems."""
    problems = [worded(problem) for problem in driver.readiness_problems()]
    if problems:
        error = PreflightError("backend_not_ready", problems)
        error.exit_code = ExitCode.CANNOT_RUN_HERE
        raise error


def target_checks(
    top: Path, survey: RepositoryInfo, ship: ShipSettings, target: str | None
) -> Iterator[CheckResult]:
    """Checks that the branch to start from exists; without a named branch there is no check."""
    if target is not None:
        yield tried("target", lambda: survey.check_target(top, ship.remote, target), target)


def shipping_checks(
    top: Path, survey: RepositoryInfo, ship: ShipSettings, shipping: Shipping
) -> Iterator[CheckResult]:
    """Checks that the repository can store commits and a branch, signed if the settings
    require it."""
    if shipping.is_wanted:
        onto_target = shipping.onto_target
        keep = partial(survey.check_keeping, top, ship.remote, onto_target=onto_target)
        yield tried("shipping", keep, f"{top} can take commits and branches")
        yield tried("signing", lambda: survey.check_signing(top, ship.sign), "nothing to repair")


def check_integration(commands: Sequence[str | tuple[str, ...]]) -> None:
    """Raise PreflightError for commands of `[verify] integration` that could hide a red test."""
    problems = [
        f"[verify] integration: `{command_text(command)}`: {problem}"
        for command in commands
        for problem in command_problems(command, pipefail=os.name != "nt")
    ]
    if problems:
        raise PreflightError("invalid_input", problems)


def check_needs(items: Sequence[WorkItem], resources: bool | Sequence[str]) -> None:
    """Raise PreflightError for items that need what `[verify] exclusive` does not name, if it names
    resources at all."""
    if isinstance(resources, bool) or not resources:
        return
    named = f"which [verify] exclusive does not name ({', '.join(resources)})"
    problems = [
        f"item {item.slug!r}: it needs {need!r}, {named}: correct it, or add it there"
        for item in items
        for need in item.needs or ()
        if need not in resources
    ]
    if problems:
        raise PreflightError("invalid_input", problems)


def _check_repo_fields(manifest: Manifest, shipping: Shipping) -> None:
    if not shipping.is_wanted:
        return
    if shipping.mode not in SHIP_MODES:
        raise PreflightError(
            "invalid_input", f"git mode {shipping.mode!r} is unknown: use one of {SHIP_MODES}"
        )
    named = [item.slug for item in manifest.items if item.repo]
    unnamed = [item.slug for item in manifest.items if not item.repo]
    if named and unnamed:
        raise PreflightError(
            "mixed_repo_manifest",
            "mixed manifest detected: either every item names its repo or none does"
            f" (with: {', '.join(named)}; without: {', '.join(unnamed)})",
            {"items_with_repo": len(named), "items_without_repo": len(unnamed)},
        )
    if shipping.expect_top:
        return
    if unnamed:
        raise PreflightError(
            "repo_field_missing_no_default",
            "no item names its repo and no repository was given: add repo, or run inside one",
            {"items_without_repo": len(unnamed)},
        )
    if shipping.onto_target:
        raise PreflightError(
            "git_toplevel_missing_or_empty",
            "expectTopLevel is missing or empty: name the repository to ship to",
        )


def _home(item: WorkItem, default: Path, survey: RepositoryInfo) -> Home:
    root = Path(item.repo) if item.repo else default
    if item.repo and not (root.is_absolute() and is_folder(root)):
        raise _bad_repo(item, "is not the absolute path of an existing folder")
    folder = root / item.work_dir
    if not is_folder(folder):
        raise PreflightError(
            "invalid_work_dir",
            f"item {item.slug!r}: workDir {item.work_dir!r} is no folder in {root}",
        )
    folder = folder.resolve()
    top = survey.top_of(folder)
    if item.repo and top is not None and top.resolve() != root.resolve():
        raise _bad_repo(item, f"is not the top of a repository that holds workDir {item.work_dir}")
    if top is None and survey.is_git_dir(folder):
        raise PreflightError(
            "invalid_repo_path",
            f"item {item.slug!r}: {folder} has no checkout (a bare repository or a git dir): name a"
            " clone of it",
        )
    if top is None:
        return Home(None, folder, ".")
    return Home(top.resolve(), folder, folder.relative_to(top.resolve()).as_posix())


def _bad_repo(item: WorkItem, why: str) -> PreflightError:
    return PreflightError(
        "invalid_repo_path",
        f"item {item.slug!r}: repo {item.repo} {why}",
        {"invalid_repo": item.repo, "item_slug": item.slug},
    )


def _check_guard(homes: Iterable[Home], shipping: Shipping) -> None:
    if not shipping.expect_top:
        return
    tops = {home.top for home in homes if home.top}
    expected = Path(shipping.expect_top).resolve()
    if not tops:
        raise PreflightError(
            "git_toplevel_check_failed",
            f"no item is in a git repository, so nothing can be shipped to {expected}",
            {"expected_repo_root": str(expected)},
        )
    if expected not in tops:
        raise PreflightError(
            "git_toplevel_mismatch",
            f"the items live in {', '.join(sorted(map(str, tops)))}, but only {expected}"
            " may be shipped to",
            {"expected_repo_root": str(expected), "actual_toplevel": str(min(tops))},
        )


def _parse(item: WorkItem, work_dir: str, problems: list[str]) -> tuple[OwnedPath, ...]:
    paths = []
    for entry in item.owns_files:
        try:
            paths.append(parse_owned(entry, work_dir))
        except OwnershipError as error:
            problems.append(f"item {item.slug!r}: ownsFiles entry {entry!r}: {error}")
    return tuple(paths)


def _check_links(
    items: Sequence[WorkItem],
    homes: Sequence[Home],
    owned: Sequence[tuple[OwnedPath, ...]],
    survey: RepositoryInfo,
) -> None:
    problems = [
        f"item {item.slug!r}: {path.path} {why}"
        for item, home, paths in zip(items, homes, owned, strict=True)
        for path in paths
        if (why := _problem_on_disk(path, paths, home, survey))
    ]
    if problems:
        raise PreflightError("invalid_file_paths", problems)


def _problem_on_disk(
    path: OwnedPath, paths: tuple[OwnedPath, ...], home: Home, survey: RepositoryInfo
) -> str:
    """The reason why nobody can own `path`, one of an item's `paths`, as it is on disk; "" for
    none. A folder that this user may not read is a reason, too."""
    try:
        return _wrong_place(path, paths, home, survey)
    except OSError as error:
        return f"cannot be looked at: {error.strerror or error}"


def _wrong_place(
    path: OwnedPath, paths: tuple[OwnedPath, ...], home: Home, survey: RepositoryInfo
) -> str:
    """The reason why `path` names no file of this repository. Raises OSError."""
    top = home.top or home.folder
    if leaves_tree(top, path.path):
        return "is reached through a link that leaves the repository"
    if (real := linked_path(top, path)) is not None:
        words = "is, or is reached through, a symbolic link to"
        return "" if covers(paths, real) else f"{words} {real}: own that path"
    if home.top is None or not (nested := nested_repository(home.top, path.path)):
        return ""
    if not path.is_dir and survey.committed_as(home.top, path.path)[0] == MODE_NESTED:
        return ""  # an item may move a submodule to another commit
    return (
        f"belongs to {nested}, a repository of its own (a submodule?): make it an item of that"
        " repository"
    )


def _check_overlap(items: Sequence[WorkItem], homes: Sequence[Home]) -> None:
    repeated = [slug for slug, count in Counter(item.slug for item in items).items() if count > 1]
    if repeated:
        raise PreflightError("invalid_manifest", f"slugs used twice: {', '.join(repeated)}")
    several = len({home.folder for home in homes if home.top is None}) > 1
    conflicts = find_conflicts(
        (item.slug, str(home.top) if home.top else None, _comparable(item, home, several))
        for item, home in zip(items, homes, strict=True)
    )
    if conflicts:
        first = conflicts[0]
        raise PreflightError(
            "ownership_overlap",
            [
                f"items {first.slugs[0]!r} and {first.slugs[1]!r} both own {first.file} (names that"
                " differ only in spelling or case count as one file): run them in separate waves"
            ],
            {"conflicts": [conflict.to_json() for conflict in conflicts]},
        )


def _comparable(item: WorkItem, home: Home, several_folders: bool) -> tuple[OwnedPath, ...]:
    # Folders used in place may contain each other, so only whole paths can be compared.
    if home.top or not several_folders:
        return tuple(parse_owned(entry, home.work_dir) for entry in item.owns_files)
    whole = home.folder.relative_to(home.folder.anchor).as_posix()
    return tuple(parse_owned(entry, whole) for entry in item.owns_files)
