"""A pull request's text shows what others wrote and lets none of it act."""

from __future__ import annotations

import random
import re

import pytest

from driver.pull_requests.body import (
    MAX_BODY_BYTES,
    MAX_TITLE_CHARS,
    ItemSummary,
    PullRequest,
    PullRequestSummary,
    body,
    title,
)
from driver.pull_requests.forge import (
    NotMadeError,
    environment_of,
    found_in,
    names_of,
    repository_name,
)
from driver.runners.result import Counts
from driver.terminal.markdown import cell, escaped, fenced, plain

MARK = "zqx"
HOSTILE = [
    f"@{MARK} look",
    f"fixes #12 {MARK}",
    f"Closes: acme/tools#7 {MARK}",
    f"resolves GH-3 {MARK}",
    f"see https://evil.example/{MARK}",
    f"www.evil.example/{MARK}",
    f"<img src=x onerror={MARK}><!-- {MARK} -->",
    f"![{MARK}](//evil.example/p.png)",
    f"[{MARK}](javascript:alert(1))",
    f"[{MARK}]: /u 't'\n\n[x][{MARK}]",
    f"```\n@{MARK} #1\n```",
    f"````\n</details>\n{MARK}",
    f"~~~\n{MARK} #4",
    f"`{MARK}` `` {MARK}",
    f"| a | b |\n|---|---|\n| {MARK} | #2 |",
    f"a\\|b\\\\| {MARK}",
    f"\n\n# {MARK}\n---\n> {MARK}",
    f"/close\n/assign @{MARK}",
    f"Signed-off-by: {MARK} <a@b.c>\nFixes: #9",
    f"\x1b[31m{MARK}\u202e\u200b@{MARK}\r#5\x00",
    f"&#64;{MARK} &lt;b&gt;",
    f"<details><summary>{MARK}",
    f"$$\\href{{x}}{{{MARK}}}$$ ${MARK}$",
    f"!12 {MARK} ~bug",
    "`" * 50 + MARK,
]
ACTS = re.compile(r"@\w|#\w|!\d|GH-\d|://|www\.\w", re.IGNORECASE)


def item(text: str, **more: object) -> ItemSummary:
    told = {
        "slug": text,
        "title": text,
        "verdict": "verified",
        "command": text,
        "exit_code": 0,
        "before": Counts("pytest", 3, 1, 0),
        "after": Counts("pytest", 4, 0, 2),
        "files": (text, "src/a.py"),
        "repairs": 1,
        "tokens": 1234,
        "cost_usd": 0.0125,
        "review": "approved",
        "review_text": text,
        "reason": text,
        "notes": text,
        "commit": "c" * 40,
        "grade": "B",
        "doubts": (text,),
    }
    return ItemSummary(**{**told, **more})  # type: ignore[arg-type]


def shipment(*texts: str, left_out: tuple[str, ...] = ()) -> PullRequestSummary:
    first = texts[0] if texts else "x"
    return PullRequestSummary(
        wave_id="w1",
        branch="wave/2026-11-29-w1",
        target=first,
        onto="b" * 40,
        shipped=tuple(map(item, texts)),
        evicted=tuple(item(text, verdict="failed", commit=None) for text in left_out),
        trees=2,
        warning=first,
    )


def outside_code(markdown: str) -> str:
    """What is left of a text without its fenced blocks and code spans, as CommonMark reads them."""
    free: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        opened = re.match(r" {0,3}(`{3,})[^`]*$", line)
        if fence:
            closing = re.match(r" {0,3}(`{3,})\s*$", line)
            if closing and len(closing[1]) >= len(fence):
                fence = ""
        elif opened:
            fence = opened[1]
        else:
            free.append(line)
    assert not fence, "a block is never closed"
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", "\n".join(free))


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_others_acts_or_stands_outside_of_code(text: str) -> None:
    told = shipment(text, "ordinary", left_out=(text,))
    written = body(told)
    assert not ACTS.search(written)
    free = outside_code(written)
    assert MARK not in free
    assert "<" not in free
    assert set(re.findall(r"[\[\]!]", free)) == set()
    assert MARK in written


@pytest.mark.parametrize("text", HOSTILE)
def test_a_title_is_one_line_without_anything_that_acts(text: str) -> None:
    line = title(shipment(text))
    assert "\n" not in line
    assert 0 < len(line) <= MAX_TITLE_CHARS
    assert not ACTS.search(line)
    assert line.isprintable()


def test_any_mixture_of_hostile_texts_is_inert() -> None:
    draw = random.Random(7)
    pieces = [
        *HOSTILE,
        "`",
        "``",
        "```",
        "\n",
        "|",
        "\\",
        " ",
        "@",
        "#",
        "1",
        "<",
        ">",
        "~~~",
        "\t",
    ]
    for _ in range(300):
        text = "".join(draw.choices(pieces, k=draw.randrange(1, 9)))
        written = body(shipment(text, left_out=(text,)))
        assert not ACTS.search(written), text
        assert MARK not in outside_code(written), text
        rows = [line for line in written.split("\n") if line.startswith("| `")]
        assert all(line.count("|") == 14 for line in rows), text


def test_quoted_lines_neither_begin_a_line_nor_end_their_block() -> None:
    block = fenced("/close\n```\nFixes: one\n~~~", 1000)
    assert [line for line in block.split("\n")[1:-1] if not line.startswith("    ")] == []


def test_the_body_names_what_a_person_has_to_know() -> None:
    written = body(shipment("a", "b", left_out=("c",)))
    row = next(line for line in written.split("\n") if line.startswith("| `a`"))
    cells = [part.strip() for part in row.strip("|").split("|")]
    assert cells == [
        *("`a`", "verified", "B", "`a`", "0", "3 ran, 1 failed", "4 ran, 2 skipped", "2", "1"),
        *("1234", "0.0125", "approved", "`cccccccccccc`"),
    ]
    assert "tools/reproduce.py w1 ITEM" in written
    assert "Left out of this branch" in written
    assert "`c`: failed" in written


def test_what_is_unknown_is_not_told_as_nothing() -> None:
    told = item("a", exit_code=None, before=None, after=None, tokens=None, cost_usd=None, review="")
    row = body(PullRequestSummary("w", "b", None, None, (told,)))
    assert "| - | - | - | 2 | 1 | - | unknown | - |" in row


@pytest.mark.parametrize("items", [1, 40, 2_000])
@pytest.mark.parametrize("text", ["x" * 100_000, "\U0001f600\n" * 20_000, "`" * 60_000])
def test_the_body_is_never_larger_than_a_forge_takes(items: int, text: str) -> None:
    shipped = tuple(item(text, slug=f"i{n}", files=(text,)) for n in range(items))
    told = PullRequestSummary("w", "b", text, text, shipped, shipped, 1, text)
    written = body(told)
    assert len(written.encode()) <= MAX_BODY_BYTES
    assert "How to reproduce" in written
    assert items < 100 or "more shipped: the wave's report has all" in written


def test_a_bare_body_has_no_free_text() -> None:
    written = body(shipment("free-text", left_out=("free-text",)), bare=True)
    assert "Title" not in written
    assert "Left out" not in written


def test_a_wave_of_several_items_is_called_by_its_id() -> None:
    assert title(shipment("a", "b")) == "Wave w1: 2 items"
    assert title(shipment(" ")) == "Wave w1: 1 item"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@me", "@ me"),
        ("a@b", "a@ b"),
        ("#1", "# 1"),
        ("gh-1", "gh- 1"),
        ("x://y", "x: //y"),
        ("# head", "# head"),
        ("!!", "!!"),
    ],
)
def test_a_blank_breaks_what_acts(text: str, told: str) -> None:
    assert escaped(text) == told
    assert plain(text, 50) == told
    assert cell(text) == f"`{told}`"


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/acme/tools.git", "acme/tools"),
        ("https://user:secret@github.com/acme/tools", "acme/tools"),
        ("git@github.com:acme/tools.git", "acme/tools"),
        ("ssh://git@ssh.github.com:443/acme/tools.git", "acme/tools"),
        ("ssh://git@git.example.org:2222/acme/to.ols/", "git.example.org/acme/to.ols"),
        ("https://git.example.org/acme/tools", "git.example.org/acme/tools"),
        ("/srv/git/acme/tools.git", ""),
        ("file:///srv/acme/tools", ""),
        ("work:acme/tools", ""),
        ("C:/acme/tools", ""),
        ("https://github.com/acme", ""),
        ("https://github.com/a/b/c", ""),
        ("--upload-pack=x:a/b", ""),
    ],
)
def test_a_repository_is_named_by_its_address(address: str, name: str) -> None:
    assert repository_name(address)[0] == name


def test_a_fork_is_proposed_to_the_repository_that_it_came_from() -> None:
    theirs, ours = "https://github.com/acme/tools", "git@github.com:me/tools.git"
    assert names_of(ours, theirs, "") == ("acme/tools", "me")
    assert names_of(theirs, theirs, "") == ("acme/tools", "")
    assert names_of("/srv/x", theirs, "") == ("acme/tools", "")
    assert names_of("git@github.com:acme/tools", "gh:acme/tools", "") == ("acme/tools", "")
    assert names_of("/srv/x", "/srv/x", "a/b") == ("a/b", "")


def test_an_open_request_goes_before_closed_ones_and_those_of_other_forks_are_not_ours() -> None:
    def listed(number: int, state: str, owner: str, draft: str = "false") -> str:
        return (
            f'{{"number": {number}, "url": "u{number}", "state": "{state}", "isDraft": {draft},'
            f' "headRepositoryOwner": {{"login": "{owner}"}}}}'
        )

    found = ",".join([listed(3, "CLOSED", "me"), listed(2, "OPEN", "Me", "true"),
                      listed(9, "OPEN", "you")])  # fmt: skip
    assert found_in(f"[{found}]", "me") == PullRequest("u2", 2, "draft")
    assert found_in(f"[{found}]", "") == PullRequest("u9", 9, "open")
    assert found_in(f"[{listed(3, 'MERGED', 'me')}]", "me") == PullRequest("u3", 3, "merged")
    assert found_in("[]", "me") is None


@pytest.mark.parametrize("answer", ["", "no", "{}x", '[{"number": 1}]', "[1]", "3"])
def test_a_list_that_nobody_can_read_is_no_empty_one(answer: str) -> None:
    with pytest.raises(NotMadeError):
        found_in(answer, "")


def test_the_forge_sees_the_users_log_in_and_no_key_of_a_model() -> None:
    env = environment_of(
        {"HOME": "/h", "GH_TOKEN": "t", "GITHUB_TOKEN": "u", "ANTHROPIC_API_KEY": "k",
         "GH_DEBUG": "api", "GH_FORCE_TTY": "1", "TIDEGATE_FAIL": "x=kill"}
    )  # fmt: skip
    assert (env["HOME"], env["GH_TOKEN"], env["GITHUB_TOKEN"]) == ("/h", "t", "u")
    assert env["GH_PROMPT_DISABLED"] == "1"
    assert not env.keys() & {"ANTHROPIC_API_KEY", "GH_DEBUG", "GH_FORCE_TTY", "TIDEGATE_FAIL"}
