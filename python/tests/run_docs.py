"""Runs the Python lines of pages: python tests/run_docs.py [--extras] PAGE...

The blocks of a page are one program, in the root of the repository. Blocks marked `extras` need packages that an empty
environment lacks. What a line with a comment `# -> TEXT` prints must be that text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```python(,extras)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
WANTED = re.compile(r"# -> (.*)$", re.MULTILINE)


def run(page: Path, extras: bool) -> int:
    """Runs the blocks of a page, and returns their number."""
    text = page.read_text()
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = 0
    for block in BLOCK.finditer(text):
        if block.group(1) and not extras:
            continue
        blocks += 1
        line = text[: block.start(2)].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block.group(2), str(page), "exec"), names)
        wanted = WANTED.findall(block.group(2))
        found = printed.getvalue().splitlines()
        if wanted and found != wanted:
            raise SystemExit(f"{page}:{line}: printed {found}, and the page says {wanted}")
    return blocks


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--extras"]
    os.chdir(Path(__file__).resolve().parents[2])
    for name in arguments:
        print(f"{name}: {run(Path(name), '--extras' in sys.argv)} blocks ran")
