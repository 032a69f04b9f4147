"""Checks if a wave can run here: the machine, its folders and every configured backend.

Only the command line; the checks are in `driver.diagnostics` and each backend's `examine`. Spends
no token. Exit code 0 if nothing failed, else 4.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.doctor")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from driver.diagnostics.places import Places
    from driver.terminal.check_result import CheckResult


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="doctor.py", description="Check if a wave can run here.")
    parser.add_shared("--repo", "--state-dir", "--config")
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="only try to escape from the sandbox of each level, and print what was stopped",
    )
    parser.add_argument("--network", action="store_true", help="also contact the git remote")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from state_store.documents.errors import ExitCode
    from tools.program import show, show_each

    if args.sandbox:
        from driver.walls.matrix import main as print_matrix
        from tools.settings.load import load

        project = Path(args.repo or ".").absolute()
        settings = load(project=project, config=Path(args.config) if args.config else None)
        print_matrix([], settings.sandbox.image or "")
        return ExitCode.DONE
    checks = show_each(_checks(args), as_json=args.json)
    well = all(check.ok for check in checks)
    if args.json:
        show({"ok": well, "checks": [check.to_json() for check in checks]}, (), as_json=True)
    return ExitCode.DONE if well else ExitCode.CANNOT_RUN_HERE


def _checks(args: argparse.Namespace) -> Iterator[CheckResult]:
    from driver.diagnostics.backends import check_backends, check_pipeline, secrets_of
    from driver.diagnostics.imports import check_imports
    from driver.diagnostics.machine import check_clock, check_cores, check_git, check_sandbox
    from driver.diagnostics.places import check_places
    from driver.diagnostics.roles import check_caches, check_roles
    from driver.terminal.check_result import masked
    from state_store.write_api import TRACKER_FILENAME
    from tools.settings.load import process_environment

    environ = process_environment()
    git = check_git(environ, Path.cwd())
    places, seen = _places(args, environ, has_git=git.ok)
    secrets = secrets_of(places.settings)
    yield from masked((git, *seen), secrets)
    yield from masked(check_places(places, network=args.network), secrets)
    if places.repository is not None:
        tracker = places.state_dir / TRACKER_FILENAME
        found = check_imports(places.settings, places.repository, tracker)
        yield from masked(found, secrets)
    yield check_clock(places.state_dir)
    yield check_cores(places.settings.limits.max_parallel_tests)
    avoid = places.written_by_agents
    yield check_sandbox(places.settings, places.state_dir, environ, avoid)
    yield from masked(check_roles(places.settings), secrets)
    yield from check_caches(places.settings, places.top)
    yield from masked(check_backends(places.settings), secrets)
    yield from masked(check_pipeline(places.settings, places.top), secrets)


def _places(
    args: argparse.Namespace, environ: Mapping[str, str], *, has_git: bool
) -> tuple[Places, tuple[CheckResult, ...]]:
    from driver.diagnostics.places import Places, repository_at, repository_named, workspaces_of
    from driver.terminal.check_result import warned
    from tools.settings.load import load

    top = repository_named(args.repo, environ) if has_git else None
    config = Path(args.config) if args.config else None
    project = top or Path(args.repo or ".").absolute()
    settings = load(project=project, config=config, flags={"state_dir": args.state_dir})
    if top is None:
        why = _nowhere(Path.cwd()) if has_git else "not looked for without git"
        remedy = "go into the one to work on, or name it with --repo"
        return Places(settings), (warned("repository", why, remedy),)
    repository, opened = repository_at(top, settings)
    if repository is None:
        return Places(settings, top), (opened,)
    root, made = workspaces_of(settings, repository)
    return Places(settings, top, repository, root), (opened, made)


def _nowhere(folder: Path) -> str:
    """The reason why a folder is in no repository. A run never takes Tidegate's own checkout
    unless it is named."""
    from driver.scheduler.context import TOOL_CHECKOUT

    if folder.resolve().is_relative_to(TOOL_CHECKOUT) and (TOOL_CHECKOUT / ".git").exists():
        return f"{folder} is in Tidegate's own checkout, which a run never takes by itself"
    return f"{folder} is in no git repository"


if __name__ == "__main__":
    sys.exit(main())
