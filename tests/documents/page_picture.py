"""Shows an HTML page as an SVG picture: the page itself, in a frame of a fixed size."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

_ALONE = {"meta", "br", "hr", "img", "link", "input"}
# A page's elements stand below the frame's own.
_STYLE = re.compile(r"(?<![\w.-])(:root|html|body)(?![\w-])")


def page_picture(page: str, width: int, height: int, title: str) -> str:
    """The top of the page, as a viewer of SVG shows it: light or dark as its reader likes."""
    reader = _Reader()
    reader.feed(page)
    style = _STYLE.sub(".page", reader.style)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{escape(title)}</title>\n<style>{escape(style, quote=False)}</style>\n'
        f'<foreignObject width="{width}" height="{height}">\n'
        f'<div xmlns="http://www.w3.org/1999/xhtml" class="page"'
        f' style="height:{height}px;overflow:hidden">{"".join(reader.body)}</div>\n'
        "</foreignObject>\n</svg>\n"
    )


class _Reader(HTMLParser):
    """Keeps the style and the body, as XML has them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.style = ""
        self.body: list[str] = []
        self._is_style = self._is_body = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_style = tag == "style"
        if self._is_body:
            # The names of attributes are lower-case here; SVG has one that is not.
            given = "".join(
                f' {"viewBox" if name == "viewbox" else name}="{escape(value or name)}"'
                for name, value in attrs
            ).replace(" preserveaspectratio=", " preserveAspectRatio=")
            space = ' xmlns="http://www.w3.org/2000/svg"' if tag == "svg" else ""
            self.body.append(f"<{tag}{space}{given}{'/' if tag in _ALONE else ''}>")
        self._is_body = self._is_body or tag == "body"

    def handle_endtag(self, tag: str) -> None:
        self._is_style = False
        self._is_body = self._is_body and tag != "body"
        if self._is_body and tag not in _ALONE:
            self.body.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self.style += data
        elif self._is_body:
            text = escape(data, quote=False)
            self.body.append(text.encode("ascii", "xmlcharrefreplace").decode())
