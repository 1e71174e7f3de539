"""The repository's scenarios, and its commands for comparison: `FAIRLINK` and the laboratory beside it, or those built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"

LINK = """[link]
rate = "10mbit"
[[class]]
name = "top"
guarantee = "6mbit"
[[class]]
name = "a"
parent = "top"
guarantee = "2mbit"
[[class]]
name = "b"
parent = "top"
guarantee = "4mbit"
[[class]]
name = "c"
guarantee = "4mbit"
ceiling = "5mbit"
"""

SCENARIO = f"""duration = "2s"
{LINK}
[[source]]
class = "a"
model = "greedy"
packet = "500B"
[[source]]
class = "b"
model = "poisson"
rate = "8mbit"
packet = "1000B"
[[source]]
class = "c"
model = "poisson"
rate = "1mbit"
packet = "200B"
"""


def program() -> str | None:
    """The command."""
    named = os.environ.get("FAIRLINK")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [Path(named)] if named else [target / "release/fairlink", target / "debug/fairlink"]
    return next((str(path) for path in found if path.is_file()), None)


def laboratory() -> str | None:
    """The laboratory's command, which is beside the other."""
    beside = program()
    return f"{beside}-lab" if beside and Path(f"{beside}-lab").is_file() else None


def command(path: str | None, package: str) -> Callable[..., str]:
    """Runs a command, and returns what it prints, also where it refuses something."""
    if path is None:
        pytest.skip(f"the command is missing: build it (cargo build -p {package}), or name it in FAIRLINK")

    def run(*arguments: str | Path, ok: bool = True) -> str:
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, cwd=ROOT)
        # 2: refused, with a document where there is one.
        assert done.returncode in (0, 1, 2), done.stderr
        return done.stdout if ok else done.stderr

    return run


@pytest.fixture(scope="session")
def fairlink_command() -> Callable[..., str]:
    """Runs fairlink."""
    return command(program(), "fairlink")


@pytest.fixture(scope="session")
def lab_command() -> Callable[..., str]:
    """Runs fairlink-lab."""
    return command(laboratory(), "fairlink-lab")
