"""The words of the command `tidegate`: program, purpose and examples of each. Data only.

Imports nothing, so that the help and the completions start at once.
"""

from __future__ import annotations

EVERY_DAY, LOOKING, MENDING, MORE = "every day", "looking", "stopping and mending", "more"

# The first word of a command line -> (module with `main` or with the function named behind the
# colon, group, purpose, examples).
WORDS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "init": (
        "tools.init",
        EVERY_DAY,
        "create the files that a project needs",
        ("init", "init --agent claude --test 'pytest -q' --skills --workflow github"),
    ),
    "doctor": (
        "tools.doctor",
        EVERY_DAY,
        "check if a wave can run here",
        ("doctor", "doctor --network --json"),
    ),
    "add": (
        "tools.add",
        EVERY_DAY,
        "add one item to the backlog",
        ("add 'Round prices' --owns shop/price.py --test 'pytest -q tests/test_price.py'",),
    ),
    "plan": (
        "driver.wave_scheduler:plan",
        EVERY_DAY,
        "show what a run would do; spends and writes nothing",
        ("plan", "plan --max-items 2 --json"),
    ),
    "run": (
        "driver.wave_scheduler",
        EVERY_DAY,
        "run one wave of the backlog's next items",
        ("run --execute", "run --execute --only T-1 T-2", "run --execute --demo"),
    ),
    "wave": (
        "driver.wave_loop",
        EVERY_DAY,
        "run the wave of a manifest",
        ("wave --manifest wave.json --git", "wave --manifest wave.json --git --resume"),
    ),
    "status": (
        "driver.cli.status",
        LOOKING,
        "show items, waves, who works where, and the budget",
        ("status", "status --watch", "status --json"),
    ),
    "logs": (
        "driver.cli.logs",
        LOOKING,
        "show what a wave did and what its items printed",
        ("logs", "logs -f", "logs T-1 --lines 20"),
    ),
    "report": (
        "driver.reports.program",
        LOOKING,
        "show the report of a wave, or compare the last waves",
        ("report", "report --last 7"),
    ),
    "serve": (
        "driver.live_page.program",
        LOOKING,
        "a page on this machine that shows the running wave",
        ("serve",),
    ),
    "halt": (
        "tools.halt",
        MENDING,
        "stop all runs, or let them go on",
        ("halt set 'the tests are down'", "halt --status", "halt --clear"),
    ),
    "recover": (
        "tools.recover",
        MENDING,
        "list and restore work that did not ship",
        ("recover list", "recover restore 6f0c12ab/cart"),
    ),
    "gc": (
        "tools.gc",
        MENDING,
        "remove what finished and dead runs left",
        ("gc --dry-run", "gc --older-than 30"),
    ),
    "verify-state": (
        "tools.verify_state",
        MENDING,
        "find and mend damage of the database",
        ("verify-state", "verify-state --rebuild"),
    ),
    "reproduce": (
        "tools.reproduce",
        MENDING,
        "verify what the project claims, or prove a shipped commit again",
        ("reproduce", "reproduce newest", "reproduce 6f0c12ab round-prices"),
    ),
    "ledger": (
        "tools.fleet_ledger",
        MORE,
        "the ledger of what agents used",
        ("ledger summary", "ledger summary --json"),
    ),
    "items": (
        "tools.items",
        MORE,
        "import or export the backlog as JSON",
        ("items export backlog.json", "items import backlog.json --dry-run"),
    ),
    "intake": (
        "tools.intake",
        MORE,
        "import work of other systems into the backlog",
        ("intake github issues.json --dry-run", "intake markdown backlog/"),
    ),
    "secrets": (
        "tools.secret_scan",
        MORE,
        "look for secrets before they are published",
        ("secrets --staged", "secrets --range main..HEAD"),
    ),
    "state": (
        "tools.state",
        MORE,
        "show the stored views and events, merge tracker and store",
        ("state items", "state wave 6f0c12ab", "state sync --prefer T-1=file"),
    ),
    "preflight": (
        "tools.wave_preflight",
        MORE,
        "check by convention: own branch, clean tree, no halt",
        ("preflight",),
    ),
    "templates": (
        "tools.wave_templates",
        MORE,
        "manifests to begin with",
        ("templates validate", "templates instantiate docs --project-name shop --base-dir ."),
    ),
    "completion": (
        "driver.cli.completion",
        MORE,
        "print the completions of a shell",
        ("completion bash > ~/.local/share/bash-completion/completions/tidegate",),
    ),
    "version": ("driver.cli.version", MORE, "print the version", ("version", "version --json")),
}


def examples(command: str, word: str) -> tuple[str, ...]:
    """The examples of a word, as `command` (which ends with the word) would be typed."""
    if word not in WORDS or not command.endswith(f" {word}"):
        return ()
    program = command.removesuffix(word)
    return tuple(f"{program}{example}" for example in WORDS[word][3])


def is_there(word: str) -> bool:
    """True for a word of the command."""
    return word in WORDS


def program_of(word: str) -> tuple[str, str]:
    """The module and the function that run a word."""
    module, _, function = WORDS[word][0].partition(":")
    return module, function or "main"


def groups() -> dict[str, dict[str, str]]:
    """The words with their purposes, by group."""
    found: dict[str, dict[str, str]] = {}
    for word, (_, group, purpose, _) in WORDS.items():
        found.setdefault(group, {})[word] = purpose
    return found
