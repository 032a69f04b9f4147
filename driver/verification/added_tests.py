"""Runs a test without the tests that the work adds, because an added test may change the result of
others. One run usually decides. If it is red, further runs tell whether a test only misses the
files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace

from driver.domain.findings import Finding
from driver.domain.results import (
    BASELINE,
    MODE_LINK,
    WITHOUT_ADDED_TESTS,
    Change,
    Evidence,
    RunKind,
    TestRun,
)
from driver.policy.acceptance import passes
from driver.policy.added_tests import (
    added_tests,
    answers_without,
    ends_well,
    of_added_tests,
    of_missing_files,
)
from driver.policy.by_products import folders_of
from driver.policy.test_files import NamedTests, has_test_name
from driver.runners.runner import Selection
from driver.runners.table import RUNNERS, call_of, emptied, find_call, runner_of
from driver.test_command.build_scripts import MAKEFILES, PACKAGE, in_folder
from driver.verification.test_run import ProvenWork, own_test, prove


def run_without_added(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence `without_added`, with a finding if the work is red without the tests that it
    adds. `found` has the baseline. Nothing runs if no test is added, or if the command would have
    no other test to run."""
    item, baseline = work.item, found.baseline
    named = item.protection.named_tests()
    added = added_tests(work.changes, item.planned.owned, named)
    if not added or not answers_without(added, item.spec.test_command, baseline, named):
        return Evidence()
    if _is_of_new_packages(work, added):
        return Evidence()
    runs = list[TestRun]()
    against: Finding | None = None
    for tree in _trees(work, added, named):
        run = prove(
            item, tree, f"without-added-tests-{work.number}-{len(runs)}", WITHOUT_ADDED_TESTS
        )
        item.say(f"without the tests it adds {run.kind}", passing=True)
        runs.append(run)
        against = of_added_tests(run, baseline, item.spec.allowance)
        if run.kind is not RunKind.RED or ends_well(run):
            break
    if against is None or runs[-1].kind is not RunKind.RED or ends_well(runs[-1]):
        return Evidence(without_added=tuple(runs), findings=(against,) if against else ())
    in_place = _in_place(work, [c.path for c in added if _is_run(c, named)])
    of_place = of_added_tests(in_place, baseline, item.spec.allowance)
    alone = None
    if (in_place is None or of_place is None) and not passes(baseline):
        alone = found.reverted or _alone(work, added)
    finding = of_missing_files(
        against,
        runs[-1],
        added,
        in_place=in_place,
        in_place_against=of_place,
        alone_green=passes(alone),
    )
    more = [run for run in (in_place, alone) if run is not None and run is not found.reverted]
    return Evidence(without_added=(*runs, *more), findings=(finding,))


def _is_of_new_packages(work: ProvenWork, added: Sequence[Change]) -> bool:
    """True for `go test ./new` if the base has no such folder: no other test is left in it. go
    prints no count for a missing folder."""
    item, context = work.item, work.item.context
    command = item.spec.test_command
    call = find_call(command, item.work_dir)
    whole = tuple(command.split() if isinstance(command, str) else command)
    if call is None or whole != tuple(call.words) or runner_of(call.words) != "go":
        return False
    named = [word for word in whole[whole.index("test") + 1 :] if not word.startswith("-")]
    folders = {call.in_tree(word.removesuffix("/...")) or "." for word in named}
    return (
        bool(named)
        and all(word.startswith("./") for word in named)
        and folders.isdisjoint(folders_of(context.paths) | context.paths)
        and all(posixpath.dirname(change.path) in folders for change in added)
    )


def _trees(work: ProvenWork, added: Sequence[Change], named: NamedTests) -> Iterator[str]:
    """The trees without the added tests: first with each file in place, emptied of all code, so
    that tests and build scripts that list the files find them; then without the files. Files that
    no runner looks for are left out of both."""
    item = work.item
    rest = [change for change in work.changes if change not in added]
    if item.repository is not None:
        git, kept = item.repository.git, list[Change]()
        for change in added:
            if change.mode == MODE_LINK or not _is_run(change, named):
                continue
            text = item.workspace.contents(change).decode("utf-8", "replace")
            if (empty := emptied(change.path, text)) is not None:
                kept.append(replace(change, blob=git.store(empty.encode())))
        if kept and (tree := item.workspace.base_with([*rest, *kept])):
            yield tree
    if tree := item.workspace.base_with(rest):
        yield tree


def _is_run(change: Change, named: NamedTests) -> bool:
    """True if a runner looks for the file. Rust runs every file of a folder `tests`."""
    return has_test_name(change.path) or named.holds(change.path) or change.path.endswith(".rs")


def _in_place(work: ProvenWork, paths: Sequence[str]) -> TestRun | None:
    """The run on the whole work that leaves out the tests of these files by the runner's own
    selection; None if the runner cannot do that."""
    item, tree = work.item, work.proof.tree
    selection = _selection(work, paths) if paths else None
    if selection is None or tree is None:
        return None
    test = replace(own_test(item), command=selection.command, environment=selection.environment)
    label = f"without-added-tests-{work.number}-in-place"
    run = prove(item, tree, label, WITHOUT_ADDED_TESTS, variant=test)
    item.say(f"with the files it adds in place {run.kind}", passing=True)
    return run


def _selection(work: ProvenWork, paths: Sequence[str]) -> Selection | None:
    context, folder = work.item.context, work.item.work_dir
    builds = (in_folder(folder, name) for name in (PACKAGE, *MAKEFILES))
    texts = {path: context.text(path) for path in builds}
    within = "" if folder == "." else folder
    call = call_of(work.item.spec.test_command, within, lambda path: texts.get(path, ""))
    runner = RUNNERS.get(runner_of(call.words)) if call else None
    if call is None or runner is None or runner.leaves_out is None:
        return None
    changed = {change.path for change in work.changes if not change.deleted}
    gone = {change.path for change in work.changes if change.deleted}
    return runner.leaves_out(call, (context.paths - gone) | changed, paths)


def _alone(work: ProvenWork, added: Sequence[Change]) -> TestRun | None:
    """The run of the base with nothing but the added tests."""
    tree = work.item.workspace.base_with(added)
    label = f"without-added-tests-{work.number}-alone"
    return prove(work.item, tree, label, BASELINE) if tree else None
