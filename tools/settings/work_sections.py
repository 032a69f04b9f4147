"""The settings of the work on an item: backend, tests, workspaces, review, phases.

The text below a field is its meaning; docs/configuration.md and the schema of the config are made
from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from state_store.values.lazy_dataclass import dataclass, field
from tools.settings import kinds
from tools.settings.kinds import Command, one_of, setting, whole_number
from tools.settings.resources import EXCLUSIVE


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The agents, and how to start them. None means the backend's default."""

    name: str = setting(kinds.TEXT, "claude")
    """the backend that builds the items"""
    model: str | None = setting(kinds.TEXT)
    """the model of every role without an entry in `models`"""
    models: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), metadata={"kind": kinds.MODELS}
    )
    """the model by role: `worker`, `setup`, `verify`"""
    command: tuple[str, ...] = setting(kinds.ARGV, ())
    """the program and arguments of the `command` backend; for an agent CLI, the program to start in
    place of the usual one"""
    output: str | None = setting(one_of("opencode", "gemini", "aider"))
    """the program whose output the `command` backend reads for usage and errors; see
    [backends](drivers.md#command)"""
    extra_args: tuple[str, ...] = setting(kinds.ARGUMENTS, ())
    """arguments added to the agent's command line"""
    env: tuple[str, ...] = setting(kinds.VARIABLES, ())
    """environment variables that agents may see besides the few they need"""
    login: tuple[str, ...] = setting(kinds.ARGUMENTS, ())
    """files and folders in your home of which agents get a copy, such as `.config/my-agent`,
    besides the login of a known agent program ([backends](drivers.md#home-and-login))"""
    project_settings: str = setting(one_of("instructions", "all", "none"), "instructions")
    """what agents get of the project's own files for agents. `instructions`: the texts of
    `CLAUDE.md`, `AGENTS.md` and the like, as the base commit has them
    ([backends](drivers.md#the-projects-instructions)); `all`: the program also loads the project's
    hooks, tool servers and settings from the workspace, as in your own checkout; `none`: nothing"""
    timeout_s: float = setting(kinds.SECONDS, 1800.0)
    """the longest that one dispatch may take, with all its tries"""
    stall_s: float | None = setting(kinds.SECONDS)
    """an agent that prints nothing for this time is ended and started once more. Without the key
    each backend has its own limit (`claude`, `codex-cli`: 600; `codex`, `openai-compatible`: 600
    without a whole answer, with `is_local` no limit; `command`: no limit)"""
    tier: int | None = setting(whole_number(1, 4))
    """how far the agent is trusted, 4 the least; a higher tier has more checks and reviews. Without
    the key the backend's own tier"""
    max_turns: int | None = setting(kinds.COUNT)
    """the most turns an agent may take in one dispatch"""
    recording: Path | None = field(default=None, metadata={"kind": kinds.PATH})
    """the recording that the `replay` backend plays"""
    match: str = setting(one_of("prompt", "item"), "prompt")
    """how the `replay` backend finds a recorded reply"""
    base_url: str | None = setting(kinds.ADDRESS)
    """the address of an OpenAI-compatible server"""
    api_key_env: str | None = setting(kinds.VARIABLE)
    """the environment variable that holds the key; never the key itself"""
    is_local: bool = setting(kinds.SWITCH, False)
    """true if the server runs your own small model; then its work is checked more (tier 3). The key
    has no effect on `api_key_env`: the address decides whether an API key is needed"""
    max_retries: int | None = setting(whole_number(0))
    """how often a dispatch is repeated after a temporary fault of its provider (2 times if the key
    is not set). For `codex` and `openai-compatible`: how often the request is repeated after a
    malformed answer. After server faults these two try a request 5 times; with 0 they do not repeat
    it"""
    max_owned_bytes: int | None = setting(kinds.COUNT)
    """the most bytes that an item's files may add to a prompt"""


@dataclass(frozen=True, slots=True)
class VerifySettings:
    """Runs of test commands."""

    env: tuple[str, ...] = setting(kinds.VARIABLES, ())
    """environment variables that test commands and set-ups may see besides the few they need: PATH,
    HOME, language, temporary folder, and the files of certificates (`SSL_CERT_FILE`,
    `NODE_EXTRA_CA_CERTS`, `PIP_CERT` and the like)"""
    timeout_s: float = setting(kinds.SECONDS, 900.0)
    """the longest that one test command may take"""
    red_first: str = setting(one_of("require", "record", "off"), "record")
    """whether a test also runs on the base while the agent works, and whether it has to be red
    there ([verification.md](verification.md))"""
    canary: bool = setting(kinds.SWITCH, True)
    """whether Tidegate adds a canary test (a failing test) to a green run, if the runner is known;
    the run has to turn red"""
    flake_policy: str = setting(one_of("refuse", "allow"), "refuse")
    """the treatment of work whose test gives different answers for one tree; `allow` ships such
    work, and the report names it"""
    known_red: tuple[str, ...] = setting(kinds.ARGUMENTS, ())
    """names or patterns (`*`, `?`) of tests that are red already, in the spelling of their runner.
    A run in which exactly such tests are red is green, if they are red on the base as well
    ([verification.md](verification.md#tests-that-are-red-already))"""
    min_grade: str = setting(one_of("A", "B", "C"), "C")
    """the lowest [grade of evidence](verification.md#grade-of-evidence) that ships; work below it
    is `undecided` and waits for a person. With `A`, tests run once more if the grade needs it"""
    protected: tuple[str, ...] = setting(kinds.PATTERNS, ())
    """further files that always come from the base: a name at any depth, a `folder/`, or a path
    with `*`"""
    integration: tuple[Command, ...] = setting(kinds.COMMANDS, ())
    """further commands that have to be green on the last tree, which has the work of all verified
    items; they run in the repository's top folder ([verification.md](verification.md))"""
    survivors: str = setting(one_of("refuse", "allow"), "refuse")
    """`refuse`: a test that leaves processes running is not green. `allow` only notes the
    processes; use it for a build tool that starts a server and has no option such as `--no-daemon`.
    The processes are ended in both cases"""
    exclusive: bool | tuple[str, ...] = setting(EXCLUSIVE, False)
    """`true`: no two test commands run at the same time, because they use one port, file or
    database. A list names such resources (`["db"]`): the tests of items that need the same one run
    one at a time. An item has the keys `exclusive` and `needs` for its own test
    ([verification.md](verification.md#tests-that-disturb-each-other))"""


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """Preparation of the workspaces of agents and tests."""

    setup: tuple[Command, ...] = setting(kinds.COMMANDS, ())
    """commands that run once in each fresh workspace and test checkout, on the tree that it shows;
    a text goes to the shell, a list of texts does not ([more](#what-the-set-up-belongs-to))"""
    setup_reads: tuple[str, ...] = setting(kinds.PATTERNS, ())
    """further files that the set-up reads, besides lock files, manifests and the files that
    Tidegate sees it read: a name at any depth, a `folder/`, or a path with `*`"""
    copy: tuple[str, ...] = setting(kinds.INSIDE, ())
    """untracked files of your checkout that workspaces need, relative to the repository. Inside of
    walls that can mount, all workspaces show one copy, and each has only its own changes
    ([more](security.md)). Else, and with set-up commands, each clone and test checkout gets a copy
    of its own, which shares disk blocks where the file system can do that (btrfs, XFS, APFS); on
    others a large folder costs time, and a set-up may be sooner. Without set-up commands, the
    copies of test checkouts are made once for each test that runs at the same time: what a test
    changed or added in its copy is undone before the next test. If more items wait than agents work
    at once, the copy of an ended agent moves to the next agent in the same way, and never to a
    test"""
    leftovers: tuple[str, ...] = setting(kinds.PATTERNS, ())
    """new files that programs leave beside the work: they are left out of it and noted, and are no
    offence. A pattern is a name, or a path of names, at any depth; with `/` at its end it is a
    folder. They are added to a list of common ones
    ([verification.md](verification.md#files-that-programs-leave))"""
    root: Path | None = field(default=None, metadata={"kind": kinds.PATH})
    """the folder in which workspaces are made. In tmpfs, whose times do not tell every change, the
    content of test checkouts and copies is read after each test, which takes time with thousands of
    files"""
    setup_timeout_s: float = setting(kinds.SECONDS, 900.0)
    """the longest that one set-up command may take"""
    warm_places: int = setting(whole_number(0, 10_000), 16)
    """how many clones and test checkouts of more than 500 files are kept for later items and waves,
    beside the workspaces of the repository; 0 keeps none ([more](#places-that-are-kept))"""
    warm_mb: int = setting(whole_number(0), 4_000)
    """how many megabytes the files of the kept places may have together"""
    warm_days: int = setting(whole_number(0, 3_650), 7)
    """how many days a place waits for its next use"""


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The review of each change by a second role."""

    mode: str = setting(one_of("policy", "always", "off"), "policy")
    """whether a reviewer reads each change; `policy` lets the tier decide ([review.md](review.md))
    """
    max_diff_bytes: int = setting(kinds.COUNT, 200_000)
    """the maximum size of a change that is shown to a reviewer; a longer change is not approved"""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The phases of every item, as tables for `driver.pipeline`. () means the classic order."""

    prompt_dir: str = setting(kinds.FOLDER, "prompts")
    """the folder of the phases' prompt files, in the repository"""
    phase: tuple[Mapping[str, Any], ...] = setting(kinds.PHASES, ())
    """the phases in order, `[[pipeline.phase]]`"""
