"""Runs a test on exactly one tree, and makes the receipt of the run."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from driver.agents.dispatch import run_test_command
from driver.backend_api.driver import CommandLimits, CommandResult
from driver.domain.prompts import command_text
from driver.domain.results import PROOF, Change, RunKind, TestName, TestRun
from driver.execution.process_marks import new_mark
from driver.execution.processes import child_environment
from driver.filesystem.build_folders import private_builds
from driver.filesystem.kept_output import ENDINGS, OUT, both_files
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain, regular_bytes, replace_plain
from driver.policy import known_red
from driver.policy.acceptance import ALLOW
from driver.policy.judgement import run_kind
from driver.run_state.context import ItemRun, Wave
from driver.run_state.slots import slot_if_wanted
from driver.run_state.test_turns import Alone
from driver.runners.counts import count_tests
from driver.runners.failures import failing_tests, failures_first
from driver.runners.result import Counts
from driver.test_command.invocations import Command
from driver.verification.alone import settled
from driver.verification.reports import Reports, counting
from driver.walls.inside import Watch
from driver.walls.roles import Places
from driver.walls.wall import Role
from driver.walls.wave_walls import Enclosure
from driver.workspace.repository_context import TestCheckout
from driver.workspace.setup import WorkSetupError
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.load import Settings

MAX_KEPT_CHARS = 64_000
MAX_READ_BYTES = 2**25
_BLOCK = 2**20
_MAX_FAILING = 1_000  # with more, the counts do not agree, and no red test is known
# Python would trust compiled files of an earlier tree with the same size and second.
_TEST_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True, slots=True)
class Test:
    """A command to run on trees, in `work_dir` of each. `base` is the commit before the work. The
    words of `environment` are added to the variables of a test. `alone` is the room that its item
    asks for. A variant of a command takes turns with `variant_of` and not with its own runs. Inside
    of walls `watch` can end a run."""

    __test__ = False  # pytest collects classes by this name otherwise

    command: str | tuple[str, ...]
    work_dir: str
    base: str
    environment: tuple[tuple[str, str], ...] = ()
    alone: Alone = field(default=Alone.NO, compare=False)
    variant_of: str | tuple[str, ...] = field(default=(), compare=False)
    watch: Watch | None = field(default=None, compare=False)

    @property
    def name(self) -> TestName:
        """The name by which its runs take turns."""
        return self.work_dir, command_text(self.variant_of or self.command)

    def with_room(self, room: Alone) -> Test:
        """This test, which needs at least the given room."""
        return replace(self, alone=max(self.alone, room))


def own_test(item: ItemRun) -> Test:
    """The item's own test."""
    command, alone = item.spec.test_command, Alone.ALL if item.spec.exclusive else Alone.NO
    return Test(command, item.work_dir, item.context.base, alone=alone, variant_of=command)


@dataclass(frozen=True, slots=True)
class ItemWork:
    """An item's changes, which the attempt `number` made, and their tree."""

    item: ItemRun
    number: int
    changes: tuple[Change, ...]
    tree: str | None


@dataclass(frozen=True, slots=True)
class ProvenWork(ItemWork):
    """The work with its item's test on its tree."""

    proof: TestRun


def prove(  # noqa: PLR0913 - the facts of a run, most by name
    item: ItemRun,
    tree: str | None,
    label: str,
    purpose: str = PROOF,
    *,
    fresh: bool = False,
    variant: Test | None = None,
    begun: Callable[[], None] = lambda: None,
) -> TestRun:
    """Run the item's test, or a variant of it, on `tree`, in a checkout that no agent has seen.
    With `fresh` it is a checkout in which no test ever ran. `label` names the output file. `begun`
    is called when the checkout is ready. Raises WorkspaceError if the checkout cannot be made."""
    test, output = variant or own_test(item), item.scratch / label

    def once(room: Alone) -> TestRun:
        with item.workspace.test_checkout(tree, fresh=fresh) as checkout:
            begun()
            asked = test.with_room(room)
            run = run_test(asked, checkout, tree, item.wave, output, purpose=purpose)
        return _with_known_red(item, run)

    try:
        return settled(item.wave, test.name, once)
    except WorkSetupError as failed:
        return of_failed_setup(test, tree, failed, purpose)


def _with_known_red(item: ItemRun, run: TestRun) -> TestRun:
    """The run, green if exactly such tests are red as are on the base and the project names."""
    patterns = item.wave.settings.verify.known_red
    if not patterns or run.kind is not RunKind.RED:
        return run
    base = item.wave.baselines.of(item).baseline
    return known_red.accepted(
        run, known_red.allowed_on(base, patterns), base.exit_code if base else None
    )


def of_failed_setup(test: Test, tree: str | None, failed: WorkSetupError, purpose: str) -> TestRun:
    """The red run of a test whose set-up fails on the tree, but not on the base."""
    return TestRun(
        kind=RunKind.RED,
        command=command_text(test.command),
        exit_code=None,
        output=failures_first(failed.output, MAX_KEPT_CHARS),
        duration_s=0.0,
        tree=tree,
        reason=str(failed),
        purpose=purpose,
        base=test.base,
        work_dir=test.work_dir,
    )


def run_test(
    test: Test,
    checkout: TestCheckout,
    tree: str | None,
    wave: Wave,
    output: Path,
    *,
    purpose: str,
) -> TestRun:
    """Run a test in a checkout of `tree`. Its whole output is written to `output`."""
    environment = _environment(test, checkout, tree, wave.settings)
    # A test can find its output file, and its name must not reveal the purpose of the run.
    hidden, folder = output.with_name(uuid.uuid4().hex), checkout.path / test.work_dir

    inside = _inside(test, tree, wave, replace(wave.places(checkout.path), written=(hidden,)))

    def once(command: Command, variables: Mapping[str, str]) -> CommandResult:
        marked, walls = {**variables, **new_mark(wave.key)}, replace(inside, watch=test.watch)
        limits = CommandLimits(wave.settings.verify.timeout_s, marked, hidden, walls)
        return run_test_command(wave.driver, counting(command), folder, limits)

    with (
        wave.turns.turn(test.name, test.alone) as turn,
        wave.home.variables() as home,
        slot_if_wanted(test.name[1], wave.settings.verify.env) as own,
    ):
        environment |= own
        result, found = counted_run(test.command, folder, {**environment, **home}, hidden, once)
    result = _with_output_at(output, hidden, result)
    run = run_of(test, tree, result, checkout.tampered(), wave.settings, found)
    # The path of the test checkout is useless to an agent in another folder.
    top, streams = str(checkout.path), (result.stdout, result.stderr)
    shown = "\n".join(part.rstrip("\n") for part in streams if part.strip())
    return replace(
        run,
        output=failures_first(shown.replace(f"{top}/", "").replace(top, "."), MAX_KEPT_CHARS),
        output_file=result.output_file,
        purpose=purpose,
        environment=tuple(sorted(environment)),
        beside=frozenset(turn.beside),
    )


def _inside(test: Test, tree: str | None, wave: Wave, places: Places) -> Enclosure:
    """The wall of a run, whose compilers begin with what the test compiled on the base."""
    base = wave.base_tree(places.work)
    inside = wave.walls.around(Role.TEST, places)
    return inside.compiling((base, *test.name), on_base=bool(base) and base == tree)


def _environment(
    test: Test, checkout: TestCheckout, tree: str | None, settings: Settings
) -> dict[str, str]:
    """The environment of a test in a checkout, without mark, home and slot."""
    environment = {**test_environment(settings), **checkout.environment}
    if tree is not None:
        environment |= private_builds(environment, checkout.path, test.work_dir, checkout.path)
    for name, words in test.environment:
        environment[name] = f"{environment.get(name, '')} {words}".strip()
    return environment


def counted_run(
    command: Command,
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    once: Callable[[Command, Mapping[str, str]], CommandResult],
) -> tuple[CommandResult, Mapping[str, tuple[Counts, ...]]]:
    """Run a test that also writes its runner's own reports, if it can be asked for them. `once`
    runs a command with variables. A test that cannot start because of the reports is run again
    without them."""
    with Reports(command, folder, environment, output) as reports:
        result = _without_notices(reports, once(reports.command, reports.environment))
        if not result.ok and reports.broke(f"{result.stdout}\n{result.stderr}"):
            result = once(command, environment)
        return result, reports.read()


def _without_notices(reports: Reports, result: CommandResult) -> CommandResult:
    """The result of a test as if no report had been asked for."""
    for path in both_files(result.output_file) if reports.asked and result.output_file else ():
        with suppress(OSError):
            text = regular_bytes(path, MAX_READ_BYTES).decode("utf-8", "surrogateescape")
            if (without := reports.without_notices(text)) != text:
                whole = without.encode("utf-8", "surrogateescape")
                replace_plain(path.parent, path.name, whole, mode=0o600)
    return replace(
        result,
        stdout=reports.without_notices(result.stdout),
        stderr=reports.without_notices(result.stderr),
    )


def _with_output_at(output: Path, hidden: Path, result: CommandResult) -> CommandResult:
    """The result of a test whose output, if it is kept, moves from `hidden` to its place."""
    if result.output_file is None:
        return result
    for suffix in ENDINGS:
        with suppress(OSError):  # the test deleted its output file
            Path(f"{hidden}{suffix}").replace(f"{output}{suffix}")
    return replace(
        result,
        output_file=f"{output}{OUT}",
        stdout=result.stdout.replace(str(hidden), str(output)),
        stderr=result.stderr.replace(str(hidden), str(output)),
    )


def run_of(
    test: Test,
    tree: str | None,
    result: CommandResult,
    tampered: Sequence[str],
    settings: Settings,
    reports: Mapping[str, tuple[Counts, ...]] = MappingProxyType({}),
) -> TestRun:
    """The receipt of a test that ran on `tree`, changed its files `tampered` and wrote the
    reports."""
    allowed = settings.verify.survivors == ALLOW
    # Counts need the whole output; there are none if it is too long to read.
    streams = (result.stdout, result.stderr)
    whole = printed(result.output_file) if result.output_file is not None else streams
    counts = (
        count_tests(test.command, *whole, reports) if whole and not result.could_not_run else None
    )
    kind, reason = run_kind(result, tampered, survivors_allowed=allowed)
    without_exit = bool(result.could_not_run or result.over_limit) or result.timed_out
    failing = failing_tests(test.command, *whole) if whole and kind is RunKind.RED else ()
    return TestRun(
        kind=kind,
        command=command_text(test.command),
        exit_code=None if without_exit else result.exit_code,
        output="",
        duration_s=result.duration_s,
        tree=tree,
        reason=reason,
        base=test.base,
        work_dir=test.work_dir,
        output_digest=_output_digest(result.output_file),
        counts=counts,
        survivors=result.survivors,
        tampered=tuple(tampered),
        sandbox=result.sandbox,
        failing=failing[:_MAX_FAILING],
    )


def test_environment(settings: Settings) -> dict[str, str]:
    """The environment of a test, without the mark of its processes."""
    return child_environment(settings.environ, settings.verify.env, _TEST_ENVIRONMENT)


def printed(output_file: str | None) -> tuple[str, str] | None:
    """The whole stdout and stderr of a command; None if they are lost or too long."""
    if output_file is None:
        return None
    out, err = both_files(output_file)
    try:
        if out.stat().st_size + err.stat().st_size > MAX_READ_BYTES:
            return None
        return (
            regular_bytes(out, MAX_READ_BYTES).decode("utf-8", "replace"),
            regular_bytes(err, MAX_READ_BYTES).decode("utf-8", "replace"),
        )
    except OSError:
        return None


def _output_digest(output_file: str | None) -> str | None:
    """The SHA-256 of the whole output: the file of stdout, then the file of stderr."""
    if output_file is None:
        return None
    found = hashlib.sha256()
    for path in both_files(output_file):
        try:
            with open_plain(path.parent, path.name) as stream:
                while block := stream.read(_BLOCK):
                    found.update(block)
        except (OSError, NotPlainError):
            return None
    return found.hexdigest()
