"""Every reason that work does not ship, with its remedy. Frozen data.

`docs/refusals.md` is this table for people; a test compares both with each other and with the
sentences in the code. The report gives the remedy of each item that did not ship.
"""

from __future__ import annotations

from typing import NamedTuple


class Refusal(NamedTuple):
    """A reason: words that its sentence contains, the verdict, and what a person can do. Words that
    tell more come first, because a sentence may have several."""

    words: str
    verdict: str
    remedy: str


_AGENT = "nothing at first: the agent is told and repairs it. If it stays, say so in the prompt"
_TEST = "read the output file of the test, which the report names (`outputFile`)"
_PERSON = "decide, set the item's status to `todo`, and the kept work is proven again"
ON_BASE_TOO = "its test does so on the base as well"

REFUSALS = (
    # What the agent did.
    Refusal("changed outside its files", "refused", f"{_AGENT}, or list the file in `ownsFiles`"),
    Refusal(
        "touched protected files",
        "refused",
        "list the file by name in `ownsFiles` if the item may change it",
    ),
    Refusal(
        "a nested repository",
        "refused",
        f"{_AGENT}; a repository in the work cannot ship, and a submodule only at a commit that its"
        " remote has",
    ),
    Refusal("a removed submodule", "refused", "remove submodules by hand"),
    Refusal("links that leave the repository", "refused", f"{_AGENT}: links must stay inside"),
    Refusal("a link in place of its workspace", "refused", _AGENT),
    Refusal(
        "needs a git filter",
        "refused",
        "change files that need a filter (LFS, encryption) by hand",
    ),
    Refusal(
        "own files that git ignores",
        "refused",
        "take the file out of `ownsFiles` or out of `.gitignore`",
    ),
    Refusal(
        "secret found",
        "refused",
        "have the agent read the secret from the environment; for a false alarm, see operations.md",
    ),
    Refusal("nothing differs from the base", "no_change", "say in the prompt what is to change"),
    Refusal(
        "nothing was changed, and the test is green on the base already",
        "already_green",
        "close the item, or give it a test that is red first",
    ),
    Refusal("the agent failed", "failed", "read the agent's output in the run's folder"),
    # The test.
    Refusal(
        ON_BASE_TOO,
        "undecided",
        f"mend the test, not the work; then {_PERSON}",
    ),
    Refusal(
        "red on the base as well",
        "failed or undecided",
        "name tests that may stay red in `[verify] known_red`, or give the item a test of its own",
    ),
    Refusal(
        "packages could not be fetched",
        "undecided",
        "check the network, the proxy and the certificates of the test command (`[verify] env`)",
    ),
    Refusal(
        "so it does on the base",
        "undecided",
        f"raise the limit that the sentence names, or set it to 0; then {_PERSON}",
    ),
    Refusal(
        "(sandbox.",
        "failed or undecided",
        "raise the limit that the sentence names, if the work needs that much (`2 GiB`, 0 is none)",
    ),
    Refusal("a regression", "failed", f"{_AGENT}; {_TEST}"),
    Refusal("test failed with exit", "failed", _TEST),
    Refusal("the test timed out", "failed", "raise `[verify] timeout_s` if the test is only slow"),
    Refusal(
        "the test was killed by",
        "failed or undecided",
        "check the memory of the machine; a crash by its own fault is the work's",
    ),
    Refusal("the test could not be run", "undecided", "install the program, or correct `testCmd`"),
    Refusal(
        "the test command names ",
        "undecided",
        "commit the file, list it in `ownsFiles`, or correct `testCmd`",
    ),
    Refusal(
        " cannot be loaded ",
        "undecided",
        "install the module in `[workspace] setup`, or set the import path (`PYTHONPATH`)",
    ),
    Refusal(
        "install pytest there",
        "undecided",
        "install pytest for the Python of `testCmd`, or correct `testCmd`",
    ),
    Refusal(
        "the test run changed tracked files",
        "failed or undecided",
        "let the test write to files that git does not track",
    ),
    Refusal(
        "left processes running",
        "failed or undecided",
        'end the processes in the test, or set `[verify] survivors = "allow"`',
    ),
    Refusal(
        "different answers for one tree",
        "flaky",
        'make the test stable, or set `[verify] flake_policy = "allow"`',
    ),
    # The counts.
    Refusal("no test ran", "refused or undecided", "give the item a test that runs here"),
    Refusal(
        "fewer tests ran",
        "undecided",
        "if it is meant, set `fewerTests` in the item to the number in the sentence",
    ),
    Refusal(
        "more tests are skipped",
        "undecided",
        "if it is meant, set `moreSkipped` in the item to the number in the sentence",
    ),
    Refusal(
        "but the exit code is 0",
        "refused",
        "let the test command fail if a test fails",
    ),
    Refusal(
        "the output no longer shows the number of tests",
        "refused",
        "let the test command print its runner's summary",
    ),
    Refusal(" is in doubt: ", "refused", "let the test command print its runner's summary"),
    Refusal("the tests ran with", "refused", "call the same runner as on the base"),
    Refusal(
        "and nothing with this change",
        "undecided",
        "look whether the tests still run with the change",
    ),
    # The other checks.
    Refusal(
        "does not prove the change",
        "refused or undecided",
        'have a test that is red first, or set `"baseline": "green"` in the item',
    ),
    Refusal(
        'the item says "baseline": "green"',
        "undecided",
        "take the key out of the item, or mend the base",
    ),
    Refusal(
        "canary passed",
        "refused",
        f"{_AGENT}; if the code is right, read the files of the change that run in tests",
    ),
    Refusal(
        "the tests import",
        "undecided",
        "remove the installed copy, or set the import path in the test (`PYTHONPATH`)",
    ),
    Refusal(
        "imports a module that was installed meanwhile",
        "undecided",
        "install it in `[workspace] setup`",
    ),
    Refusal(
        "and [verify] min_grade asks for",
        "undecided",
        "supply what the sentence says is missing, or lower `[verify] min_grade`",
    ),
    # Set-up, gates, reviews, pipelines.
    Refusal("set-up command `", "failed or undecided", "run the command by hand in a fresh clone"),
    Refusal("the set-up changed files", "undecided", "have git ignore what the set-up makes"),
    Refusal("gate failed", "failed", "run the gate's command on the saved work"),
    Refusal("was skipped, and has to let the work pass", "undecided", "run again without skipping"),
    Refusal(
        "may only read, and these changed",
        "refused",
        "take the write access from this phase's agent",
    ),
    Refusal("wants a clean tree", "refused", "see which earlier phase changed the files"),
    Refusal("its agent gave no answer", "undecided", "run again; read the agent's output"),
    Refusal(
        "review required",
        "undecided",
        'repair the reviewer\'s backend, or set `[review] mode = "off"`',
    ),
    Refusal("review undecided", "undecided", "read the review; run again or review by hand"),
    Refusal("approval_withheld", "failed", "read why the test is not green"),
    Refusal("the reviewer still asks for changes", "failed", "read the findings in the report"),
    Refusal("a reviewer asks for changes", "failed", "nothing: the agent repairs it"),
    Refusal("nobody has approved it", "undecided", "run again, so that a reviewer reads it"),
    Refusal("what was approved cannot be compared", "undecided", "run again"),
    # Together, and the ship.
    Refusal("green alone, but together with", "failed", "run again: the others have shipped then"),
    Refusal("red without any item", "undecided", "mend the command or the target branch"),
    Refusal("but not on the target branch", "undecided", "pull; the next run starts from there"),
    Refusal("green while other agents were at work", "flaky", "make the test stable"),
    Refusal("and has other changes of the same files", "undecided", "pull, and run again"),
    Refusal("has these very changes already", "undecided", "pull, and close the item"),
    Refusal(
        "it says no to the base's own versions",
        "undecided",
        "mend the files of the base, or the hook",
    ),
    Refusal(" hook says no", "refused", "read the hook's output in the sentence"),
    Refusal(" hook lacks a program", "undecided", "install it in `[workspace] setup`"),
    Refusal(" hook could not be run", "undecided", "mend the hook's first line or its program"),
    Refusal(" hook did not end within", "undecided", "raise `[ship] hook_timeout_s`"),
    Refusal(" hook wants to change", "refused or undecided", "have the item run the formatter"),
    Refusal(" hook takes away trailers", "undecided", "have the hook keep the trailers"),
    Refusal("the remote refuses its content", "refused", "read the words of the remote"),
    Refusal("the remote refuses it together", "undecided", "read the words of the remote"),
    # The machine.
    Refusal("objects in git whose content does not match", "undecided", "run `git fsck`, restore"),
    Refusal("its files could not be handled", "undecided", "free the disk, or mend the rights"),
    Refusal("the workspace ", "undecided", "free the disk, or set `[workspace] root`"),
    Refusal(
        "attempts were used up before the wave was interrupted",
        "failed",
        "change the prompt or the test, and set the item's status to `todo`",
    ),
    Refusal("internal error", "undecided", "report it; the trace is in the run's messages"),
    Refusal(
        "on the base it is green with the new tests alone",
        "refused",
        f"{_AGENT}: the new tests hide what the others check",
    ),
    Refusal(
        "without the tests that it adds",
        "refused or undecided",
        f"{_AGENT}: a new test must not change the result of others",
    ),
    Refusal(
        "at work: ",
        "refused or undecided",
        "look at the named files: your checkout, git settings or home changed meanwhile",
    ),
)


def remedy_of(reason: str) -> str | None:
    """The remedy of the first reason in the table whose words are in a sentence."""
    return next((one.remedy for one in REFUSALS if one.words in reason), None)


def words_of(reason: str) -> str | None:
    """The words of the first reason in the table that are in a sentence."""
    return next((one.words for one in REFUSALS if one.words in reason), None)


_SHIP = "the commits are kept; mend the cause and run again (operations.md, Where work goes)"


def last_remedy(remedy: str | None, ship_error: str | None) -> str:
    """The thing to do at the end of a wave, when no agent repairs the item any more."""
    text = remedy or (_SHIP if ship_error else "")
    return text.rpartition("If it stays, ")[2]
