"""Proves a shipped commit again in a new checkout, and compares the result with its receipt.

Without arguments it verifies what this project claims, step by step.

Only the command line; the work is in `driver.maintenance`. Exit code 0: same result, or all steps
hold; 1: a difference, or a step that failed; 2: no such commit; 4: the test cannot run here, or a
step could not be checked.
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
        sys.modules[__name__] = import_module("tools.reproduce")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from driver.maintenance.claims import Step
    from driver.maintenance.reproduce import Reproduction, Surroundings


_SHOWN = 5  # waves that are named if none is meant
NEWEST = "newest"


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    what = "Prove a shipped commit again; without WAVE, verify what this project claims."
    parser = Parser(prog="reproduce.py", description=what)
    add = parser.add_argument
    add("wave", metavar="WAVE", nargs="?", help=f"the wave's id, or a prefix of it, or {NEWEST}")
    add("item", metavar="ITEM", nargs="?", help="the item's slug or id (default: all that shipped)")
    add("--step", metavar="NAME", action="append", help="without WAVE: only this step")
    add("--list", action="store_true", help="without WAVE: only name the steps")
    parser.add_shared("--repo", "--config", "--state-dir")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.claims import steps_here
    from state_store.documents.errors import InputError

    if args.wave is None:
        return verify(steps_here(), args)
    if args.step or args.list:
        raise InputError("--step and --list go without WAVE")
    return _prove(args)


def verify(steps: Sequence[Step], args: argparse.Namespace) -> int:
    """Runs the asked for steps, with a line for each."""
    import tempfile

    from driver.cli.flags import guess
    from driver.maintenance.claims import Result, check
    from driver.terminal.color import is_terminal
    from driver.terminal.safe_text import safe_text
    from state_store.documents.errors import ExitCode, InputError
    from tools.program import show
    from tools.settings.load import process_environment

    names = [step.name for step in steps]
    for name in args.step or ():
        if name not in names:
            raise InputError(f"there is no step {name}{guess(name, names)}; {', '.join(names)}")
    asked = [step for step in steps if step.name in (args.step or names)]
    if args.list:
        listed = [{"step": step.name, "claim": step.claim} for step in asked]
        show({"steps": listed}, (f"{one.name}: {one.claim}" for one in asked), as_json=args.json)
        return ExitCode.DONE
    if is_terminal(sys.stderr) and not args.json:
        from driver.terminal.progress import to_stderr

        named = ", ".join(step.name for step in asked)
        to_stderr().say(f"steps: {named}; tests take minutes; --step NAME runs one step")
    done = []
    with tempfile.TemporaryDirectory(prefix="tidegate-claims-") as scratch:
        for one in check(asked, Path(scratch), process_environment()):
            done.append(one)
            if not args.json:
                print(safe_text(str(one)), flush=True)
    results = {one.result for one in done}
    held = sum(one.result is Result.HELD for one in done)
    summary = f"{held} of {len(done)} steps hold"
    document = {"ok": results == {Result.HELD}, "steps": [one.to_json() for one in done]}
    show(document, [summary], as_json=args.json)
    if Result.FAILED in results:
        return ExitCode.NOT_ALL_SHIPPED
    return ExitCode.CANNOT_RUN_HERE if Result.NOT_CHECKED in results else ExitCode.DONE


def _prove(args: argparse.Namespace) -> int:
    """Proves one item of a wave again, or all that shipped."""
    from driver.maintenance.reproduce import find, reproduce, surroundings
    from driver.terminal.safe_text import safe_line
    from state_store.documents.errors import ExitCode, InputError
    from tools.program import show

    place = surroundings(args.repo, args.state_dir, args.config)
    if place.repository is None:
        raise InputError("this folder is in no repository: name the repository with --repo")
    wave, items = _items(args, place)
    found = [find(place.repository, place.settings, wave, item) for item in items]
    done: list[Reproduction] = []
    for shipped in found:
        done.append(reproduce(shipped, place.repository, place.settings))
        if not args.json:
            print("\n".join(map(safe_line, _lines(done[-1]))), flush=True)
    documents = [one.to_json() for one in done]
    whole = {"wave": wave, "same": all(one["same"] for one in documents), "items": documents}
    show(documents[0] if args.item else whole, (), as_json=args.json)
    return ExitCode.NOT_ALL_SHIPPED if any(one.differences for one in done) else ExitCode.DONE


def _lines(done: Reproduction) -> tuple[str, ...]:
    """The commit and its test now, then each difference from the record of then."""
    now, commit = done.now, done.shipped.commit[:12]
    same = "the same as " + ("the receipt of then" if done.shipped.then else "what the commit says")
    head = f"{commit}: {now.command}: {now.kind} after {now.duration_s:.1f} s"
    return head, *(done.differences or (same,))


def _items(args: argparse.Namespace, place: Surroundings) -> tuple[str, list[str]]:
    """The wave, and the items that were named or that it shipped, as the state folder knows."""
    from state_store.documents.errors import InputError
    from state_store.place import has_begun
    from state_store.views.store_summary import StoreSummary
    from state_store.write_api import STATE_DB_FILENAME

    if args.item is not None and args.wave != NEWEST:
        return args.wave, [args.item]
    database = place.state_dir / STATE_DB_FILENAME
    if not has_begun(database):
        raise InputError(
            f"there is no database {database}; name ITEM, or its folder with --state-dir"
        )
    with StoreSummary(str(database)) as summary:
        known = summary.newest_waves(1000)
        begun = known if args.wave == NEWEST else summary.waves_that_begin(args.wave)
        if not begun or (args.wave != NEWEST and len(begun) > 1):
            newest = ", ".join((begun or known)[:_SHOWN]) or "none"
            raise InputError(
                f"{len(begun)} waves in {database} begin with {args.wave!r}; the newest: {newest}"
            )
        wave = begun[0]
        if args.wave == NEWEST:  # that shipped something
            wave = next((one for one in begun if summary.wave(one)["shipped"]), wave)
        items = [args.item] if args.item is not None else list(summary.wave(wave)["shipped"])
    if not items:
        raise InputError(f"wave {wave} shipped nothing")
    return wave, items


if __name__ == "__main__":
    sys.exit(main())
