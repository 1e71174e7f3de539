"""Runs every notebook in a fresh kernel, and checks that the files have no outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python/notebooks").glob("*.ipynb"))
SECONDS = 300
"""Most of one cell, on a busy machine."""


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    """The cells of a kind."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def test_the_manual_lists_all_notebooks() -> None:
    listed = re.findall(r"^\| `([a-z-]+\.ipynb)` \|", (ROOT / "docs/python.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.name for path in NOTEBOOKS] and len(NOTEBOOKS) == 9


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_file_has_no_outputs(path: Path) -> None:
    book = json.loads(path.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert set(book["metadata"]) == {"kernelspec", "language_info"}
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert book["metadata"]["language_info"] == {"name": "python"}
    names = [cell["id"] for cell in book["cells"]]
    assert len(set(names)) == len(names)
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None and cell["metadata"] == {}, cell["id"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_asserts_and_says_how_to_get_the_package(path: Path) -> None:
    code = ["".join(cell["source"]) for cell in cells(path, "code")]
    assert sum(bool(re.search(r"^ *assert ", text, re.MULTILINE)) for text in code) >= 2
    first = "".join(cells(path, "markdown")[0]["source"])
    assert first.startswith("# ") and "For " in first and "pip install" in first
    assert all(len(line) <= 120 for cell in cells(path, "markdown") for line in "".join(cell["source"]).splitlines())
    assert all(len(line) <= 120 for text in code for line in text.splitlines())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("nbclient", "ipykernel", "matplotlib", "pandas", "polars", "pyarrow"):
        pytest.importorskip(package, reason=f"{package} is missing: pip install 'fairlink[notebooks]'")
    import nbclient
    import nbformat

    # Kernels and settings of the user are not meant.
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(book, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = [output["data"] for output in outputs if re.match("<(Figure|Picture)", _plain(output))]
    assert pictures and all("image/png" in data for data in pictures)
    assert not [output["text"] for output in outputs if output.output_type == "stream" and output.name == "stderr"]


def _plain(output: dict[str, Any]) -> str:
    return str(output.get("data", {}).get("text/plain", ""))


@pytest.mark.parametrize("folder", [".", "docs", "python/notebooks"])
def test_notebooks_find_the_scenarios_from_any_directory(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    import matplotlib

    monkeypatch.chdir(ROOT / folder)
    found = 0
    with matplotlib.rc_context({"backend": "agg"}):
        for path in NOTEBOOKS:
            setup = "".join(cells(path, "code")[0]["source"])
            names: dict[str, Any] = {}
            exec(setup, names)
            for name in ("scenarios", "examples"):
                if name in names:
                    found += 1
                    assert names[name].is_relative_to(ROOT / "scenarios")
    assert found >= 5
