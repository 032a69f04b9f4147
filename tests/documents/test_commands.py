"""Every command that the pages show is run here, or is left out for a reason.

A new command in a page fails the last tests until it is in `RUN` or in `LEFT`.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass

import pytest

from driver.cli.words import is_there
from tests.documents.commands import Left, Shown, paths_in, shown
from tests.documents.schemas import ROOT
from tests.documents.shop import DEMO, Shop
from tests.support.interpreter import PYTHON

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")


@dataclass(frozen=True)
class Try:
    """A command with its placeholders filled in, and the exit codes that are right."""

    command: str
    codes: tuple[int, ...] = (0,)


INIT = "tidegate init --repo . --state-dir state"
KEPT = "{wave}/cart"
# A shown command -> what is run for it, in this order.
RUN: dict[str, tuple[Try, ...]] = {
    "python driver/wave_scheduler.py --execute --demo": (Try(DEMO),),
    "tidegate run --execute --demo": (Try(DEMO),),  # the same program
    "tidegate doctor": (Try("tidegate doctor"),),
    "tidegate run --execute": (Try("tidegate run --execute"),),
    "tidegate wave --manifest FILE --git": (
        Try("tidegate wave --manifest beside/wave.json --git", (1,)),
    ),
    "tidegate plan": (Try("tidegate plan"), Try("tidegate plan --json")),
    "tidegate init": (Try("tidegate init"),),
    "tidegate add 'Round prices to cents' --owns shop/price.py --test 'python3 -m unittest -q "
    "tests.test_price'": (
        Try(
            "tidegate add 'Round prices to cents' --owns shop/price.py --test 'python3 -m unittest"
            " -q tests.test_price' --status proposed"
        ),
    ),
    "tidegate init --workflow github": (Try("tidegate init --workflow github"),),
    "tidegate init --workflow gitlab": (Try("tidegate init --workflow gitlab"),),
    "tidegate init --workflow cron": (Try("tidegate init --workflow cron"),),
    "tidegate init --workflow systemd": (Try("tidegate init --workflow systemd"),),
    "tidegate init --workflow github-matrix": (Try("tidegate init --workflow github-matrix"),),
    "tidegate init --workflow kubernetes": (Try("tidegate init --workflow kubernetes"),),
    "tidegate init --workflow compose": (Try("tidegate init --workflow compose"),),
    "tidegate items export state/backlog.json": (Try("tidegate items export state/backlog.json"),),
    "tidegate init --workflow KIND": (Try("tidegate init --workflow github-matrix"),),
    "tidegate init [--repo DIR] [--state-dir DIR] [--gitignore] [--workflow "
    "github|gitlab|cron|systemd|...]": (Try(INIT), Try(f"{INIT} --gitignore --workflow github")),
    "tidegate init [--agent AGENT] [--test CMD] [--skills] [--yes]": (
        Try("tidegate init --agent claude --test true --skills --yes"),
    ),
    "tidegate halt --clear": (Try("tidegate halt --clear"),),
    "tidegate halt --status": (Try("tidegate halt --status"),),
    'tidegate halt set "why"': (
        Try('tidegate halt set "why"'),
        Try("tidegate halt --status", (1,)),
        Try("tidegate halt --clear"),
    ),
    "tidegate intake github issues.json": (
        Try("tidegate intake github beside/issues.json --dry-run"),
    ),
    "tidegate intake markdown FOLDER": (Try("tidegate intake markdown beside/backlog --dry-run"),),
    "tidegate intake csv FILE": (Try("tidegate intake csv beside/items.csv --dry-run"),),
    "tidegate add 'Round prices' --owns shop/price.py --test 'pytest -q tests/test_price.py' "
    "--depends T-1": (
        Try(
            "tidegate add 'Round prices' --owns shop/price.py --test 'pytest -q"
            " tests/test_price.py' --depends T-1"
        ),
    ),
    "tidegate add TITLE --owns PATH --test CMD": (
        Try("tidegate add Title --owns shop/cart.py --test true --dry-run"),
    ),
    "tidegate templates instantiate library --project-name shop --base-dir src/shop --output "
    "wave.json": (
        Try(
            "tidegate templates instantiate library --project-name shop --base-dir src/shop"
            " --output beside/library.json"
        ),
    ),
    "tidegate templates validate [--template NAME|all|FILE] [--json]": (
        Try("tidegate templates validate"),
        Try("tidegate templates validate --template beside/wave.json --json"),
    ),
    "tidegate preflight [--root DIR] [--state-root DIR] [--json]": (
        Try("tidegate preflight", (0, 1)),
        Try("tidegate preflight --root . --state-root state --json", (0, 1)),
    ),
    "tidegate preflight --tracker FILE [--ledger FILE] [--json]": (
        Try("tidegate preflight --tracker state/tracker.json", (0, 1)),
        Try(
            "tidegate preflight --tracker state/tracker.json"
            " --ledger state/ledger/OUTCOMES-LEDGER.md --json",
            (0, 1),
        ),
    ),
    "tidegate doctor [--repo DIR] [--state-dir DIR] [--config FILE] [--network] [--json]": (
        Try("tidegate doctor --repo . --state-dir state --config tidegate.toml --json"),
    ),
    "tidegate recover list": (Try("tidegate recover list"),),
    "tidegate recover show WAVE/ITEM": (Try(f"tidegate recover show {KEPT}"),),
    "tidegate recover restore WAVE/ITEM": (Try(f"tidegate recover restore {KEPT}"),),
    "tidegate recover restore WAVE/ITEM --patch FILE": (
        Try(f"tidegate recover restore {KEPT} --patch beside/cart.patch"),
    ),
    "tidegate logs ITEM": (Try("tidegate logs cart"), Try("tidegate logs -f --lines 5")),
    "tidegate items export [FILE]": (Try("tidegate items export beside/items.json"),),
    "tidegate items import FILE": (
        Try("tidegate items export beside/items.json"),
        Try("tidegate items import beside/items.json"),
    ),
    "tidegate state copy FROM TO": (Try("tidegate state copy state beside/copied"),),
    "tidegate gc --dry-run": (Try("tidegate gc --dry-run"),),
    "tidegate gc [--older-than DAYS]": (Try("tidegate gc"), Try("tidegate gc --older-than 3")),
    "tidegate verify-state [--repo DIR]": (Try("tidegate verify-state --repo ."),),
    "tidegate verify-state --rebuild [--tracker FILE]": (
        Try("tidegate verify-state --rebuild"),
        Try("tidegate verify-state --rebuild --tracker state/tracker.json"),
    ),
    "tidegate verify-state --rebuild": (Try("tidegate verify-state --rebuild"),),
    "tidegate secrets --staged": (Try("tidegate secrets --staged"),),
    "tidegate secrets --range main..HEAD": (Try("tidegate secrets --range main..HEAD"),),
    "tidegate secrets --history": (Try("tidegate secrets --history"),),
    "tidegate secrets PATH...": (Try("tidegate secrets shop tests"),),
    "python -m driver WORD": (Try("python -m driver version"),),
    "python driver/tidegate.py WORD": (Try("python driver/tidegate.py version"),),
    "tidegate help WORD": (Try("tidegate help run"),),
    "tidegate completion bash|zsh|fish": tuple(
        Try(f"tidegate completion {shell}") for shell in ("bash", "zsh", "fish")
    ),
    "tidegate report 6f0c": (Try("tidegate report {wave}"),),
    "tidegate report --last 7": (Try("tidegate report --last 7"),),
    "tidegate report --last N --json": (Try("tidegate report --last 2 --json"),),
    "tools/cost_ceiling.py --check --wave ID": (
        Try("tools/cost_ceiling.py --check --wave {wave}", (0, 1)),
    ),
    "tools/cost_projection.py [--projection]": (
        Try("tools/cost_projection.py"),
        Try("tools/cost_projection.py --projection"),
    ),
    "tidegate ledger summary [--json]": (
        Try("tidegate ledger summary"),
        Try("tidegate ledger summary --json"),
    ),
    "tools/wave_ledger_hook.py --report-file FILE --wave N --timestamp T": (
        Try(
            "tools/wave_ledger_hook.py --report-file beside/report.json --wave 1"
            " --timestamp 2026-11-29T08:00:00Z"
        ),
    ),
    "tidegate state items": (Try("tidegate state items"),),
    "tidegate state items|waves|wave ID|traces|status|events STREAM [--after N]": (
        *(Try(f"tidegate state {word}") for word in ("items", "waves", "traces", "status")),
        Try("tidegate state wave {wave}"),
        Try("tidegate state events tracker --after 1"),
    ),
    "tidegate state sync --prefer ID=file": (Try("tidegate state sync --prefer T-1=file"),),
    "tidegate state sync --prefer T-1=file": (Try("tidegate state sync --prefer T-1=store"),),
    "tidegate reproduce": (Try("tidegate reproduce --list"),),
    "tidegate reproduce WAVE [ITEM]": (Try("tidegate reproduce newest"),),
    "tidegate reproduce WAVE ITEM [--repo DIR] [--state-dir DIR] [--json]": (
        Try("tidegate reproduce {wave} round-prices --repo . --state-dir state --json"),
    ),
    "tools/reconcile.py [--state-md FILE] [--db FILE]": (
        Try("tools/reconcile.py --state-md state/STATE.md --db state/tracker_events.db", (0, 1)),
    ),
    "tools/orchestrator_status.py set --activity TEXT --phase NAME": (
        Try("tools/orchestrator_status.py set --activity Text --phase name"),
        Try("tools/orchestrator_status.py clear"),
    ),
    "tools/heartbeat.py beat NAME [STATUS] [--brain]": (
        Try("tools/heartbeat.py beat name"),
        Try("tools/heartbeat.py beat name ok --brain"),
    ),
    "tools/stall_check.py [--transcripts-root DIR] [--threshold-seconds S] [--active-from DIR] "
    "[--json]": (
        Try(
            "tools/stall_check.py --transcripts-root beside --threshold-seconds 60"
            " --active-from beside --json"
        ),
    ),
    "tools/wave_resume.py --journal PATH --workdir DIR [--json]": (
        Try("tools/wave_resume.py --journal beside/journal --workdir . --json"),
    ),
}
INSTALLED = "tests/unit/test_installed.py"
ITSELF = "runs tests, which are run already"
MACHINE = "changes the machine"
PATTERN = "the beginning of a command"
SET_UP = "sets a machine up, with the network"
PAID = "needs a paid agent or its key"
SERVER = "needs a server of PostgreSQL"
LEFT: dict[str, Left] = {
    "uv tool install git+ADDRESS": Left(SET_UP, INSTALLED),
    "pipx install git+ADDRESS": Left(SET_UP, INSTALLED),
    "tidegate init --workflow": Left(PATTERN),
    "python -m pip install pytest && python -m pytest": Left(ITSELF),
    "python3 -m venv .venv && . .venv/bin/activate": Left(SET_UP),
    "git clone <this repository> && cd tidegate": Left(SET_UP),
    "python -m pip install pytest": Left(SET_UP),
    "python -m pip install ruff==0.17.6 mypy==2.4.1": Left(SET_UP),
    "ruff check . && ruff format --check . && mypy": Left("minutes; .ci/run has it"),
    "python tests/documents/write_documents.py": Left(
        "writes into the checkout", "tests/documents/test_made.py"
    ),
    "python tests/contracts/record_public_names.py": Left("writes into the checkout"),
    "cp state/tidegate.service state/tidegate.timer /etc/systemd/system/": Left(MACHINE),
    "systemctl daemon-reload && systemctl enable --now tidegate.timer": Left(MACHINE),
    "tidegate state copy state postgresql://tidegate@db.example/builds --to-schema shop": Left(
        SERVER, "tests/integration/test_state_copy.py"
    ),
    'pip install "tidegate[postgres]"': Left(SET_UP),
    "tidegate state copy state url": Left(SERVER, "tests/integration/test_state_copy.py"),
    "tidegate state copy url FOLDER": Left(SERVER, "tests/integration/test_state_copy.py"),
    "tidegate state copy url state-of-shop": Left(SERVER, "tests/integration/test_state_copy.py"),
    "claude -p --output-format stream-json --verbose": Left(PAID),
    "codex exec --json --skip-git-repo-check --ephemeral --ignore-user-config --ignore-rules": (
        Left(PAID)
    ),
    "npm install @anthropic-ai/claude-code @openai/codex opencode-ai @google/gemini-cli": (
        Left(SET_UP)
    ),
    "echo good > a.txt": Left("a part of a program", "tests/integration/test_real_agents.py"),
    "gh issue list --limit 500 --json number,title,body,labels,state,createdAt,url > issues.json": (
        Left("needs GitHub", "tests/unit/test_intake.py")
    ),
    "python -m pytest -q tests/totals": Left("an example of an item's test"),
    "tidegate completion bash > ~/.local/share/bash-completion/completions/tidegate": (
        Left("the same without `>` is run")
    ),
    "tidegate state sync --prefer": Left(PATTERN),
    "tidegate ledger append ...": Left(PATTERN, "tests/integration/test_fleet_ledger.py"),
    "tools/reconcile.py --merge OTHER.db": Left(
        "needs another store", "tests/integration/test_reconcile.py"
    ),
}
SHOWN = shown()
WORD_ALONE = re.compile(r"tidegate ([a-z-]+)")
MARKERS = {"more", "sweep", "bench", "sweep or not sweep", "lease and expiry"}


def is_a_run_of_tests(command: str) -> bool:
    """True for pytest on files or markers of the project; `paths_in` finds its files."""
    return "python -m pytest" in command and "pip" not in command and "tests/totals" not in command


def is_mention(command: str) -> bool:
    """True for `tidegate WORD` as the name of a program."""
    found = WORD_ALONE.fullmatch(command)
    return found is not None and is_there(found[1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", RUN)
def test_a_shown_command_runs(shop: Shop, command: str) -> None:
    for one in RUN[command]:
        run = shop.once if one.command == DEMO else shop.run
        ran = run(one.command.format(wave=shop.wave))
        assert ran.code in one.codes, (one.command, ran.code, ran.err, ran.out)
        assert "Traceback" not in ran.err


def test_every_command_of_the_pages_is_run_or_left_for_a_reason() -> None:
    unknown = [
        f"{one.page}: {one.text}"
        for one in SHOWN
        if one.text not in RUN
        and one.text not in LEFT
        and not is_mention(one.text)
        and not is_a_run_of_tests(one.text)
    ]
    assert unknown == [], "add each to RUN or LEFT of tests/documents/test_commands.py"


def test_no_list_has_a_command_that_no_page_shows() -> None:
    texts = {one.text for one in SHOWN}
    assert [command for command in (*RUN, *LEFT) if command not in texts] == []


@pytest.mark.sampled(37)
@pytest.mark.parametrize("one", SHOWN, ids=lambda one: f"{one.page}: {one.text}"[:60])
def test_the_files_that_a_command_names_exist(one: Shown) -> None:
    if one.text != "python -m pytest -q tests/totals" and "FILE" not in one.text:
        assert [path for path in paths_in(one.text) if not path.exists()] == []
    for words in re.findall(r"-m (more|sweep|bench|\"[^\"]+\")", one.text):
        assert words.strip('"') in MARKERS


def test_a_left_command_is_run_by_the_test_that_is_named() -> None:
    named = {left.runs_it for left in LEFT.values() if left.runs_it}
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_a_module_of_the_checkout_is_the_command() -> None:
    """`python -m driver` as a process of its own, which the others are not."""
    done = subprocess.run(
        [*PYTHON, "-m", "driver", "version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "tidegate" in done.stdout.lower()
