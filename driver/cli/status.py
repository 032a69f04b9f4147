"""The word `status`: items, waves, who works where, and the budget, on one screen.

A plain look needs no argparse, because it is asked for often and has to be quick.
"""

from __future__ import annotations

import sys

from driver.cli.status_facts import facts, next_steps
from driver.terminal.amounts import duration, known_cost, tokens, usd
from driver.terminal.color import BOLD, DIM, RED, YELLOW, paint
from driver.terminal.invocation import current, schema
from driver.terminal.safe_text import counted, safe_line, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

WAVES, INTERVAL_S = 5, 2.0
_MOST = 10  # items that are named in a list
_MOST_CHARS = 300  # of a line
_CLEAR = "\x1b[H\x1b[J"


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Exit code 0, whatever the state is."""
    words = list(sys.argv[1:] if argv is None else argv)
    if set(words) <= {"--json"}:
        from tools.program import exit_code

        current().json = bool(words)
        return exit_code(current().program, lambda: _look(None, WAVES))
    return _with_flags(words)


def _with_flags(words: Sequence[str]) -> int:
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="status.py", description="Show items, waves, agents and budget.")
    add = parser.add_argument
    parser.add_shared("--state-dir")
    add("--waves", metavar="N", type=int, default=WAVES, help="how many waves (default: 5)")
    add("--watch", action="store_true", help="look again and again, until Ctrl-C")
    add("--interval", metavar="S", type=float, default=INTERVAL_S, help="of --watch (default: 2)")

    def run(asked: argparse.Namespace) -> int:
        def text() -> str:
            return "\n".join(_lines(facts(asked.state_dir, asked.waves)))

        from state_store.documents.errors import InputError

        if asked.waves < 0 or not 0 < asked.interval < 86400:
            raise InputError("--waves is 0 or more, and --interval a number of seconds above 0")
        if not asked.watch:
            return _look(asked.state_dir, asked.waves)
        if asked.json:
            raise InputError("--watch is for people: leave it or --json out")
        import time

        return watch(text, lambda: time.sleep(asked.interval))

    return program(parser, run, words)


def _look(state_dir: str | None, waves: int) -> int:
    found = facts(state_dir, waves)
    if current().json:
        import json

        steps = list(next_steps(found, _program()))
        print(json.dumps({"schema": schema(), **found, "next": steps}))
    else:
        print("\n".join(_lines(found)))
    return 0


def watch(shown: Callable[[], str], wait: Callable[[], object]) -> int:
    """Shows the text again and again until Ctrl-C. A terminal is redrawn in one write, from its
    upper left corner; elsewhere only a changed text is printed."""
    from driver.terminal.color import is_terminal

    before = ""
    try:
        while True:
            text = shown()
            if is_terminal(sys.stdout):
                sys.stdout.write(f"{_CLEAR}{text}\n")
            elif text != before:
                sys.stdout.write(f"{text}\n\n")
            sys.stdout.flush()
            before = text
            wait()
    except KeyboardInterrupt:
        return 0


def _program() -> str:
    return current().without_word or "tidegate"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    if halt := found["halt"]:
        by = f", for all machines by {halt['by']}" if halt.get("by") else ""
        since = f" (since {halt['since']}{by})" if halt["since"] else ""
        yield paint(safe_line(f"halted: {halt['reason']}{since}"), RED, BOLD)
    if parked := found["parked"]:
        until = parked["until"] or "its provider answers"
        yield paint(safe_line(f"parked: the backend takes no work until {until}"), YELLOW)
    for wave in found["running"]:
        yield from _running(wave)
    yield from _items(found["items"])
    yield from _waves(found["waves"])
    yield from _budget(found["budget"])
    yield from (safe_line(f"note: {note}") for note in found["notes"])
    steps = list(next_steps(found, _program()))
    yield paint("next:", BOLD)
    yield from (f"  {step}" for step in steps)


def _running(wave: Mapping[str, Any]) -> Iterator[str]:
    import time

    counts = wave["counts"]
    head = f"running: wave {wave['wave_id'][:8]} on {wave['host']} (process {wave['pid']})"
    yield paint(safe_line(f"{head}, since {wave['started']}"), BOLD)
    phase = f"; {wave['phase']}" if wave["phase"] else ""
    yield safe_line(
        f"  {counts['done']} done, {counts['running']} running, {counts['waiting']} waiting{phase};"
        f" {_use(wave)}"
    )
    wide = max((len(safe_line(item["slug"])) for item in wave["items"]), default=0)
    for item in wave["items"]:
        span = item["spans"][-1] if item["spans"] else None
        begun = span["started"] if span and not span["ended"] else None
        took = f"for {duration(time.time() - begun)}" if begun is not None else ""
        use = f"{tokens(item['tokens'])} tokens" if item["tokens"] else ""
        where = item["backend"] or ""
        name = safe_line(item["slug"]).ljust(wide)
        cells = f"  {name}  {safe_line(item['phase']):<22} {took:<12} {safe_line(where):<10} {use}"
        yield cells.rstrip()


def _items(items: Mapping[str, Any]) -> Iterator[str]:
    counts = ", ".join(f"{count} {safe_line(status)}" for status, count in items["counts"].items())
    yield paint("items: ", BOLD) + (counts or "none")
    for word, style in (("blocked", RED), ("waiting", YELLOW)):
        listed = items[word]
        for item in listed[:_MOST]:
            name = " ".join(str(one) for one in (item["id"], item["slug"]) if one is not None)
            line = shortened(f"{name}: {item['reason']}", _MOST_CHARS)
            yield f"  {paint(word, style)} {safe_line(line)}"
        if len(listed) > _MOST:
            yield f"  {word}: {len(listed) - _MOST} more"


def _waves(waves: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if waves:
        yield paint("waves:", BOLD)
    for wave in waves:
        count = f"shipped {len(wave['shipped'])} of {counted(len(wave['items']), 'item')}"
        words: dict[str, int] = {}
        for verdict in wave["not_shipped"].values():
            words[verdict] = words.get(verdict, 0) + 1
        rest = "".join(f", {number} {verdict}" for verdict, number in words.items())
        end = f" ({wave['abort_reason']})" if wave["abort_reason"] else ""
        end = end if wave["finished"] else " (not ended)"
        head = f"{wave['started']}  {wave['wave_id'][:8]}  {count}{rest}{end}"
        yield safe_line(f"  {head}; {_use(wave)}")


def _use(wave: Mapping[str, Any]) -> str:
    is_least = bool(wave.get("lower_bound") or wave.get("unpriced"))
    cost = known_cost(wave["cost_usd"], is_least=is_least)
    return f"{tokens(wave['tokens'])} tokens, {cost}"


def _budget(budget: Mapping[str, Any]) -> Iterator[str]:
    ceilings = budget["ceilings"] or {}
    day_tokens, day_usd = ceilings.get("max_daily_tokens"), ceilings.get("max_daily_usd")
    used = tokens(budget.get("tokens", 0)) + (f" of {tokens(day_tokens)}" if day_tokens else "")
    spent = budget.get("cost_usd", 0)
    cost = usd(spent) if spent or not budget.get("unpriced") else "cost unknown"
    cost += f" of {usd(day_usd)}" if day_usd else ""
    held = budget.get("reserved_tokens")
    more = f"; {tokens(held)} more tokens reserved" if held else ""
    yield paint("today (UTC): ", BOLD) + f"{used} tokens, {cost}{more}"
    if unknown := budget.get("unmetered"):
        yield paint(f"  {counted(unknown, 'use')} not metered: charged as reserved", DIM)
    wave_tokens, wave_usd = ceilings.get("max_wave_tokens"), ceilings.get("max_wave_usd")
    limits = [f"{tokens(wave_tokens)} tokens"] if wave_tokens else []
    limits += [usd(wave_usd)] if wave_usd else []
    if limits:
        yield f"  ceiling of a wave: {', '.join(limits)}"
