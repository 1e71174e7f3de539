"""Documents are those of the command; views, tables and pictures are made of them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import LINK, ROOT, SCENARIO, SCENARIOS, program

import fairlink

Command = Callable[..., str]


def files() -> list[str]:
    """All link and scenario files."""
    return sorted(str(path.relative_to(SCENARIOS)) for path in SCENARIOS.rglob("*.toml"))


@pytest.mark.parametrize("name", files())
def test_check_and_fluid_are_the_commands(name: str, fairlink_command: Command) -> None:
    path = SCENARIOS / name
    printed = fairlink_command("check", path, "--json")
    try:
        link = fairlink.Link.from_file(path)
        assert json.loads(printed) == link.check().document
    except fairlink.Refused as refused:
        if not printed:
            return
        problems = json.loads(printed)["problems"]
        assert [problem["message"] for problem in problems] == [problem.message for problem in refused.problems]
        return
    assert json.loads(fairlink_command("fluid", path, "--json")) == link.fluid().document
    assert json.loads(fairlink_command("fluid", path, "--fair", "--json")) == link.fluid(fair=True).document
    name = link.leaves[-1]
    explained = fairlink_command("explain", path, "--class", name, "--json")
    assert json.loads(explained) == link.explain(name).document
    assert link.check().view.valid and link.fluid().view.rule


def simulated() -> list[str]:
    """Scenarios with sources that run for at most half a minute of simulated time on a link of at most 1 Gbit/s."""
    names = []
    for name in files():
        text = (SCENARIOS / name).read_text()
        if "duration" in text and "[[source]]" in text and "gbit" not in text:
            names.append(name)
    return names


@pytest.mark.parametrize("name", simulated())
def test_a_simulation_is_the_commands(name: str, fairlink_command: Command) -> None:
    path = SCENARIOS / name
    printed = fairlink_command("sim", path, "--json")
    if printed:
        assert json.loads(printed) == fairlink.simulate(path).document
    else:
        with pytest.raises(fairlink.Refused):
            fairlink.simulate(path)


def test_options_of_a_simulation_are_the_commands(fairlink_command: Command) -> None:
    path = SCENARIOS / "exp1.toml"
    arguments = ["--scheduler", "htb", "--window", "1s", "--lenient", "--metrics"]
    printed = json.loads(fairlink_command("sim", path, *arguments, "--json"))
    found = fairlink.simulate(path, scheduler="htb", window="1s", lenient=True, metrics=True)
    assert printed == found.document and len(found.table("windows")) > 100
    assert found.view.runs[0].metrics


def test_schedulers_diff_and_imports_are_the_commands(fairlink_command: Command) -> None:
    assert json.loads(fairlink_command("schedulers", "--json")) == fairlink.schedulers().document
    wanted = fairlink_command("schedulers", "--for", "tree,delay-bound", "--json")
    assert json.loads(wanted) == fairlink.schedulers(["tree", "delay-bound"]).document
    old, new = SCENARIOS / "simple.toml", SCENARIOS / "simple-after.toml"
    diff = fairlink.Link.from_file(old).diff(fairlink.Link.from_file(new))
    assert json.loads(fairlink_command("diff", old, new, "--json")) == diff.document and not diff.same
    config = SCENARIOS / "import/eth0.show"
    printed = json.loads(fairlink_command("import", "tc", config, "--allow-unmatched", "--json"))
    made = fairlink.import_config("tc", config, compare=True)
    # What this machine's gateway moves is no part of it.
    for link in printed["links"]:
        link.pop("gateway_bps", None)
        link.pop("problems", None)
    assert printed == made.document and made.table("links")[0]["classes"] == len(next(iter(made.links.values())))


def test_two_hundred_runs_are_the_commands(fairlink_command: Command, tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    scenario = fairlink.Scenario.from_file(path)
    equal = 0
    for scheduler in ("hls", "htb"):
        printed = fairlink_command("sim", path, "--scheduler", scheduler, "--runs", "100", "--json")
        for run in json.loads(printed)["runs"]:
            assert scenario.simulate(scheduler=scheduler, seed=run["seed"]).document["runs"] == [run]
            equal += 1
    assert equal == 200


def test_views_are_made_of_the_commands_schema() -> None:
    path = program()
    if path is None:
        pytest.skip("the command is missing")
    module = ROOT / "python/fairlink/documents.py"
    made = subprocess.run([sys.executable, ROOT / "python/generate.py", path], capture_output=True, text=True)
    assert made.stdout == module.read_text(), "run python/generate.py FAIRLINK --write"


def test_a_class_has_a_row_with_attributes() -> None:
    found = fairlink.simulate(SCENARIO, seed=7)
    row = found["a"]
    assert row.counts is not None and row.counts.sent.packets > 0 and row.counts.received.bytes > 0
    assert row.delay_s is not None and row.delay_s.p99 is not None and row.delay_s.p99 > 0
    assert "a" in found and "d" not in found and len(found) == 4
    with pytest.raises(KeyError):
        found["d"]
    first = found.table()[1]
    assert first["class"] == "a" and first["sent_packets"] == row.counts.sent.packets
    assert first["delay_p99_s"] == row.delay_s.p99 and first["rate_bps"] > 0 and first["seed"] == 7
    link = fairlink.Link.from_toml(LINK)
    check = link.check()["a"]
    assert check.bounds is not None and check.terms is not None and check.terms.guarantee_bps == 2_000_000
    assert check.bounds.delay_bound_s is None or check.bounds.delay_bound_s > 0
    ideal = link.fluid({"a": "inf", "c": 1e6})["a"].ideal
    assert ideal is not None and ideal.allocation_bps == 9e6 and ideal.limited_by == "top"
    assert link.explain("a").text.strip() and link.explain("a").table()[0]["class"] == "link"


def test_absent_and_none_differ_in_the_document() -> None:
    row = fairlink.Link.from_toml(LINK).fluid().document["link"]["classes"][0]
    assert row["parent"] is None and "counts" not in row


def test_frames_of_other_packages() -> None:
    found = fairlink.simulate(SCENARIO, window=0.5)
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame["class"]) == ["top", "a", "b", "c"]
    polars = pytest.importorskip("polars")
    windows = found.to_polars("windows")
    assert isinstance(windows, polars.DataFrame) and windows["rate_bps"].dtype == polars.Float64 and len(windows) == 16
    pyarrow = pytest.importorskip("pyarrow")
    table = found.to_arrow("phases")
    assert isinstance(table, pyarrow.Table) and table.schema.field("rate_bps").metadata == {b"unit": b"bit/s"}
    xarray = pytest.importorskip("xarray")
    dataset = found.to_xarray("windows")
    assert isinstance(dataset, xarray.Dataset) and dict(dataset.sizes) == {"start_s": 4, "class": 4}
    assert dataset["rate_bps"].attrs == {"units": "bit/s"}
    assert float(dataset["rate_bps"].sel({"class": "a"}).isel(start_s=1)) == found.table("windows")[5]["rate_bps"]
    assert fairlink.Link.from_toml(LINK).check().to_xarray()["guarantee_bps"].dims == ("class",)
    with pytest.raises(ValueError, match="classes, phases, windows"):
        found.to_pandas("packets")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("to_pandas", "fairlink[pandas]"),
        ("to_polars", "fairlink[polars]"),
        ("to_arrow", "fairlink[arrow]"),
        ("to_xarray", "fairlink[xarray]"),
        ("plot", "fairlink[plot]"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(call: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "polars", "pyarrow", "xarray", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, package, None)
    found = fairlink.Link.from_toml(LINK).check()
    with pytest.raises(fairlink.MissingExtra) as error:
        getattr(found, call)()
    assert says in str(error.value) and isinstance(error.value, ImportError)


def test_notebooks_show_trees_and_tables() -> None:
    link = fairlink.Link.from_toml(LINK.replace('"c"', '"<c>"'))
    html = link._repr_html_()
    assert html.startswith("<table>") and "&lt;c&gt;" in html and "<c>" not in html and "2 Mbit/s" in html
    found = fairlink.simulate(SCENARIO, window=0.5)
    for shown in (found, link.fluid(), link.check(), link.explain("a"), link.diff(link), fairlink.schedulers()):
        assert "<" in shown._repr_html_() and repr(shown).startswith("<")
    # Columns without a value are left out, and texts keep their columns.
    changed = link.diff(fairlink.Link.from_toml(LINK.replace('"c"', '"<c>"').replace("5mbit", "6mbit")))
    assert all(row["link"] is None for row in changed.table())
    assert "<th>class</th>" in changed._repr_html_() and "<th>link</th>" not in changed._repr_html_()
    assert "white-space:pre" in link.explain("a")._repr_html_()
    many = fairlink.Tree("1gbit")
    for number in range(300):
        many.add(f"c{number}")
    assert "100 more classes" in many.link()._repr_html_()


def test_pictures_have_the_colours_of_the_command() -> None:
    pytest.importorskip("matplotlib")
    from fairlink import _plots

    figure = ROOT / "crates/figures/src/figure.rs"
    assert all(colour in figure.read_text() for colour in _plots.COLOURS)
    found = fairlink.simulate(SCENARIO, window=0.5)
    link = fairlink.Link.from_toml(LINK)
    for drawn in (found.plot(), fairlink.simulate(SCENARIO).plot(), link.check().plot(), link.fluid().plot()):
        assert drawn.axes and drawn.axes[0].get_xlabel() or drawn.axes[0].get_ylabel()
        drawn.canvas.draw()


def test_notebooks_show_pictures() -> None:
    pytest.importorskip("matplotlib")
    drawn = fairlink.Link.from_toml(LINK).check().plot()
    png, size = drawn._repr_png_()  # type: ignore[attr-defined]
    assert png.startswith(b"\x89PNG") and size == {"width": 800, "height": round(100 * drawn.get_size_inches()[1])}
    # Twice the dots: width and height are in the header.
    assert int.from_bytes(png[16:20], "big") == 1600
    many = fairlink.Tree("1gbit")
    for number in range(20):
        many.add(f"subscriber {number}")
    greedy = {f"subscriber {number}": {"model": "cbr", "rate": 1e6, "packet": 1000} for number in range(20)}
    windows = fairlink.Scenario.from_link(many, greedy, duration=1).simulate(window=0.5)
    # The legend has rows of its own, above the curves.
    assert windows.plot().get_size_inches()[1] > 5


def test_pictures_of_ones_own_have_the_look_of_the_package() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    from fairlink import _plots

    with matplotlib.rc_context(fairlink.plot_style()):
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(_plots.COLOURS)
        assert not matplotlib.rcParams["axes.spines.top"] and not matplotlib.rcParams["legend.frameon"]


def test_the_package_is_typed() -> None:
    found = importlib.util.find_spec("fairlink")
    assert found is not None and found.origin is not None
    assert Path(found.origin).with_name("py.typed").is_file()
