"""List what failed, killed and unshipped items left, and bring it back as a branch or a patch.

The command line only; the work is `driver.leftovers`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from driver.maintenance.leftovers import Leftover


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser

    parser = Parser(prog="recover.py", description="Bring back work that was not shipped.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show|restore")
    listing = verbs.add_parser("list", help="what there is, the newest first")
    listing.add_argument("--all", action="store_true", help="what was shipped since, too")
    _places(listing)
    show = verbs.add_parser("show", help="one of them, with its patch")
    restore = verbs.add_parser("restore", help="make a branch of it, or write the patch out")
    for verb in (show, restore):
        verb.add_argument(
            "name", metavar="WAVE/ITEM", help="as list names it; WAVE may be cut short"
        )
        _places(verb)
    way = restore.add_mutually_exclusive_group()
    way.add_argument("--branch", metavar="NAME", help="default: recover/ITEM")
    way.add_argument("--patch", metavar="FILE", help="write the patch there instead")
    return parser


def _places(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--repo", metavar="DIR", help="the repository (default: the one the work names)")
    add("--state-dir", metavar="DIR", help="where state is kept (default: ./state)")
    add("--json", action="store_true", help="print one JSON document")


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    args = build_parser().parse_args(argv)
    from tools.program import told

    return told("recover", lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.leftovers import find, leftovers
    from driver.maintenance.reproduce import existing_state, surroundings

    place = surroundings(args.repo, args.state_dir)
    found = leftovers(existing_state(place), place.settings.environ)
    if args.verb == "list":
        _list([one for one in found if args.all or not one.shipped_since], as_json=args.json)
        return 0
    one = find(found, args.name)
    if args.verb == "show":
        _show(one, as_json=args.json)
    else:
        _restore(one, args, place.settings.environ)
    return 0


def _list(found: Sequence[Leftover], *, as_json: bool) -> None:
    if as_json:
        _print_json([one.to_json() for one in found])
    for one in () if as_json else found:
        print(_line(one))
    if not found and not as_json:
        print("nothing is left over")


def _line(one: Leftover) -> str:
    from driver.terminal.safe_text import safe_line, verdict_said

    said = one.to_json()
    age = f"{said['ageS'] / 86400:.1f} days" if said["ageS"] >= 86400 else f"{said['ageS']} s"
    size = "" if one.size is None else f", {one.size} bytes"
    why = verdict_said(one.verdict, one.reason) if one.verdict else one.reason
    why += f" (shipped since by wave {one.shipped_since})" if one.shipped_since else ""
    return safe_line(f"{one.name}  ({one.kind}, {age} old{size})  {why}")


def _show(one: Leftover, *, as_json: bool) -> None:
    from driver.terminal.safe_text import safe_text
    from state_store.documents.files import read_bytes

    if as_json:
        _print_json(one.to_json())
        return
    for key, value in one.to_json().items():
        print(f"{key}: {'-' if value is None else value}")
    if one.patch is not None:
        print()
        print(safe_text(read_bytes(one.patch).decode("utf-8", "replace")))


def _restore(one: Leftover, args: argparse.Namespace, environ: Mapping[str, str]) -> None:
    from driver.maintenance.restore import restore_branch, restore_patch

    if args.patch:
        restore_patch(one, Path(args.patch))
        done, line = {"patch": args.patch}, f"patch written to {args.patch}"
    else:
        branch = args.branch or f"recover/{one.item}"
        repo = Path(args.repo) if args.repo else None
        repository, commit = restore_branch(one, branch, repo, environ)
        done = {"branch": branch, "commit": commit, "repo": str(repository.top)}
        line = f"branch {branch} of {repository.top} is at {commit[:12]}; it is not proven"
    if args.json:
        _print_json(done)
    else:
        print(line)


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document))


if __name__ == "__main__":
    sys.exit(main())
