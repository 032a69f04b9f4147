"""Random output of agents and tests on each surface: nothing acts, and nothing is hidden."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from driver.terminal.markdown import cell, code, fenced, inline
from driver.terminal.safe_text import (
    html_text,
    json_text,
    log_line,
    log_text,
    safe_line,
    safe_text,
    shortened,
    workflow_message,
    workflow_property,
    xml_text,
)

HOSTILE = (
    *("\x1b[2J", "\x1b]8;;http://x.example\x07link\x1b]8;;\x07", "\x9b31m", "\r", "\0", "\x07"),
    *("::error::forged", "  ::set-output name=a::b", "##[error]forged", "x ##[add-mask]y"),
    *("\u202eevil", "\u2066a\u2069", "\u200b", "\ufeff", "\u00ad", "\u3164", "\u115f", "\ud800"),
    *("\udfff", "\ufffe", "\uffff", "\u2028", "\u0085", "\u000b", "\U000e0041", "\U000e0100"),
    *("<script>alert(1)</script>", "<img src=x onerror=y>", "&lt;", "]]>", "<!--", "\"' onload='"),
    *("[a](http://x.example)", "![a](http://x.example/i.png)", "http://x.example", "www.x.example"),
    *(
        "@everyone",
        "#12",
        "GH-7",
        "a@x.example",
        "```\n# heading",
        "~~~",
        "|",
        "`",
        "\\",
        "- [ ] x",
    ),
    *("\n", "\r\n", "\t", "<http://x.example>", "javascript:alert(1)", "%0A::error::x", "%", ","),
)
BATCH = 100
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 100))]


def outputs(seed: int) -> Iterator[str]:
    """Random bytes as Tidegate decodes them, some with hostile parts."""
    chance = random.Random(seed)
    for _ in range(BATCH):
        noise = chance.randbytes(chance.randrange(60)).decode("utf-8", "replace")
        parts = [noise, *chance.choices(HOSTILE, k=chance.randrange(6))]
        parts += [chr(chance.randrange(0x110000)) for _ in range(chance.randrange(8))]
        chance.shuffle(parts)
        yield "".join(parts)


def is_plain(text: str, also: str = "") -> bool:
    return all(char.isprintable() or char in also for char in text)


def commands(text: str) -> list[str]:
    """The lines that the runner of GitHub Actions would take for a command."""
    return [line for line in text.split("\n") if line.strip().startswith("::") or "##[" in line]


class Elements(HTMLParser):
    """What a page with foreign text consists of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {sorted(name for name, _ in attrs)}")

    def handle_data(self, data: str) -> None:
        self.data += data

    def handle_comment(self, data: str) -> None:
        self.tags.append(f"comment {data}")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_surface_shows_more_than_printable_text(seed: int) -> None:
    for text in outputs(seed):
        assert is_plain(safe_line(text))
        assert is_plain(log_line(text))
        assert is_plain(safe_text(text), "\n\t")
        assert is_plain(log_text(text), "\n\t")
        assert is_plain(html_text(text), "\n\t")
        assert is_plain(cell(text))
        assert is_plain(fenced(text, 2_000), "\n\t")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_text_is_a_command_to_a_job(seed: int) -> None:
    for text in outputs(seed):
        assert commands(log_line(text)) == []
        assert commands(log_text(text)) == []
        assert commands(json_text(f'["{text.encode("unicode_escape").decode()}"]')) == []
        ours = f"::error file={workflow_property(text)}::{workflow_message(text)}"
        head, _, message = ours.removeprefix("::error file=").partition("::")
        assert not set(head) & set(":,\n")
        assert "##[" not in message
        assert not re.search(r"%(?!25|3A|2C)", head)
        assert "%" not in message.replace("%25", "")


@pytest.mark.parametrize("seed", SEEDS)
def test_markup_is_text(seed: int) -> None:
    for text in outputs(seed):
        found = Elements(f'<p title="{html_text(text)}">{html_text(text)}</p>')
        assert found.tags == ["p ['title']"]
        assert found.data == safe_text(text)
        element = ET.fromstring(f"<p title='{xml_text(text)}'>{xml_text(text)}</p>")
        assert (element.text or "") == safe_text(text)


@pytest.mark.parametrize("seed", SEEDS)
def test_markdown_is_code_and_calls_nobody(seed: int) -> None:
    for text in outputs(seed):
        one = cell(text)
        assert one == "-" or (one[0] == one[-1] == "`" and not set(one[1:-1]) & set("`|\n"))
        lines = fenced(text, 2_000).split("\n")
        fence = lines[0].removesuffix("text")
        assert set(fence) == {"`"}
        assert lines[-1] == fence
        assert all(line.startswith("    ") and fence not in line for line in lines[1:-1])
        for shown in (one, "\n".join(lines)):
            assert not re.search(r"@\w|(?<!`)#\w|://|\bGH-\d|www\.\w", shown, re.IGNORECASE)


def kinds_in(blocks: Any) -> set[str]:
    """The kinds of all parts of a page of Markdown."""
    return {part.type for block in blocks for part in (block, *(block.children or ()))}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_markdown_parser_finds_code_only(seed: int) -> None:
    parser = (
        pytest.importorskip("markdown_it", reason="needs markdown-it-py")
        .MarkdownIt("commonmark", {"html": True})
        .enable("table")
    )
    for text in outputs(seed):
        page = f"| a | b |\n| --- | --- |\n| {cell(text)} | x |\n\n- {code(text, 300)}\n\n"
        page += fenced(text, 2_000)
        kinds = {
            token.type for block in parser.parse(page) for token in (block, *(block.children or ()))
        }
        allowed = {"inline", "text", "code_inline", "fence", "softbreak"}
        shapes = ("table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item")
        allowed |= {
            f"{shape}_{end}" for shape in (*shapes, "paragraph") for end in ("open", "close")
        }
        assert kinds <= allowed, page


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_of_a_markdown_file_has_no_link_picture_or_element(seed: int) -> None:
    parser = pytest.importorskip("markdown_it", reason="needs markdown-it-py").MarkdownIt(
        "commonmark", {"html": True}
    )
    for text in outputs(seed):
        found = kinds_in(parser.parse(f"- item {inline(text)}\n\n[b]: x\n"))
        assert not found & {"link_open", "image", "html_inline", "html_block"}, inline(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("set the limit in the settings", "set the limit in the..."),
        ("set the limits of the settings", "set the limits of the..."),
        ("short", "short"),
        ("x" * 40, "x" * 21 + "..."),
        ("a " + "x" * 40, "a " + "x" * 19 + "..."),
        (5, 5),
    ],
)
def test_a_shortened_text_ends_with_a_whole_word(text: Any, shown: Any) -> None:
    assert shortened(text, 24) == shown
