"""Write the documents that are made from the code: `python tests/documents/write_documents.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.documents.made import made  # noqa: E402 - run as a file


def main() -> None:
    """Writes each document whose text has changed, and names it."""
    for path, text in made().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
