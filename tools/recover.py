"""Lists the work of failed, killed and unshipped items and restores it as a branch or a patch.

Only the command line; the work is in `driver.maintenance.leftovers` and `restore`.
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
        sys.modules[__name__] = import_module("tools.recover")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from driver.maintenance.leftovers import Leftover


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="recover.py", description="Restore work that was not shipped.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show|restore")
    listing = verbs.add_parser("list", help="list saved work, the newest first")
    listing.add_argument("--all", action="store_true", help="also work that was shipped since")
    show = verbs.add_parser("show", help="show saved work with its patch")
    restore = verbs.add_parser("restore", help="create a branch of it, or write its patch")
    for verb in (show, restore):
        verb.add_argument(
            "name",
            metavar="WAVE/ITEM",
            help="the name in the list; a prefix of WAVE is enough, and so is ITEM",
        )
    for verb in (listing, show, restore):
        where = "the repository (default: that of the work)"
        verb.add_argument("--repo", metavar="DIR", help=where)
        verb.add_shared("--state-dir")
    way = restore.add_mutually_exclusive_group()
    way.add_argument("--branch", metavar="NAME", help="default: recover/ITEM")
    way.add_argument("--patch", metavar="FILE", help="write the patch there instead")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.leftovers import find, leftovers
    from driver.maintenance.reproduce import existing_state, surroundings
    from driver.terminal.safe_text import safe_text
    from state_store.documents.files import read_bytes
    from state_store.redaction.installed import redacted
    from tools.program import show

    place = surroundings(args.repo, args.state_dir)
    found = leftovers(existing_state(place), place.settings.environ)
    if args.verb == "list":
        listed = [one for one in found if args.all or not one.shipped_since]
        overview = map(_line, listed) if listed else ["no saved work"]
        show([one.to_json() for one in listed], overview, as_json=args.json)
        return 0
    one = find(found, args.name)
    if args.verb == "restore":
        _restore(one, args, place.settings.environ)
        return 0
    document = one.to_json()
    lines = [f"{key}: {'-' if value is None else value}" for key, value in document.items()]
    if one.patch is not None:
        lines += ["", safe_text(redacted(read_bytes(one.patch).decode("utf-8", "replace")))]
    show(document, lines, as_json=args.json)
    return 0


def _line(one: Leftover) -> str:
    from driver.terminal.safe_text import describe_verdict, safe_line

    described = one.to_json()
    age_s = described["ageS"]
    age = f"{age_s / 86400:.1f} days" if age_s >= 86400 else f"{age_s} s"
    size = "" if one.size is None else f", {one.size} bytes"
    why = describe_verdict(one.verdict, one.reason) if one.verdict else one.reason
    why += f" (shipped since by wave {one.shipped_since})" if one.shipped_since else ""
    return safe_line(f"{one.name}  ({one.kind}, {age} old{size})  {why}")


def _restore(one: Leftover, args: argparse.Namespace, environ: Mapping[str, str]) -> None:
    from driver.maintenance.restore import restore_branch, restore_patch
    from tools.program import show

    if args.patch:
        restore_patch(one, Path(args.patch))
        done, line = {"patch": args.patch}, f"patch written to {args.patch}"
    else:
        branch = args.branch or f"recover/{one.item}"
        repo = Path(args.repo) if args.repo else None
        repository, commit = restore_branch(one, branch, repo, environ)
        done = {"branch": branch, "commit": commit, "repo": str(repository.top)}
        line = f"branch {branch} of {repository.top} is at {commit[:12]}; it is not proven"
    show(done, [line], as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
