"""Simulations: steps, changes, packets, threads, signals."""

from __future__ import annotations

import csv
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import LINK, SCENARIO, SCENARIOS

import fairlink
from fairlink import Refused, Scenario, Simulation


def test_steps_are_one_run() -> None:
    whole = fairlink.simulate(SCENARIO)
    run = Simulation(Scenario.from_toml(SCENARIO, "scenario.toml"))
    with pytest.raises(Refused):
        run.report()
    times = [0.1, "250ms", 0.25, 1.3, 1.9999, 5.0]
    for at in times:
        run.step_until(at)
    assert run.done and run.now == run.duration == 2.0
    assert run.report() == whole and run.report().document == whole.document
    assert whole != fairlink.simulate(SCENARIO, seed=2)


def test_a_scenario_is_made_of_a_link_and_traffic() -> None:
    tree = fairlink.Tree("10mbit").add("voice", guarantee=1e6, latency_critical=True).add("web", guarantee=9e6)
    traffic = {
        "voice": {"model": "on_off", "rate": 2e6, "packet": 200, "on": 0.5, "off": 0.25},
        "web": [
            {"model": "greedy", "packet": {"uniform": [40, 1400], "header": 40}, "active": ["0s..1s"]},
            {"model": "cbr", "rate": "3mbit", "packet": 1000, "burst": 2, "shape": {"burst": 4000, "rate": 4e6}},
        ],
    }
    made = Scenario.from_link(tree, traffic, duration=2, warmup="100ms", seed=7)
    written = """duration = "2s"
warmup = "100ms"
seed = 7
[link]
rate = "10mbit"
[[class]]
name = "voice"
guarantee = "1mbit"
latency_critical = true
[[class]]
name = "web"
guarantee = "9mbit"
[[source]]
class = "voice"
model = "on_off"
rate = "2mbit"
packet = "200B"
on = "500ms"
off = "250ms"
[[source]]
class = "web"
model = "greedy"
packet = { uniform = ["40B", "1400B"], header = "40B" }
active = ["0s..1s"]
[[source]]
class = "web"
model = "cbr"
rate = "3mbit"
packet = "1000B"
burst = "2p"
shape = { burst = "4kB", rate = "4mbit" }
"""
    found = made.simulate()
    assert found == fairlink.simulate(written) and found.runs[0].seed == 7
    # A link that was read, and one of another tool.
    assert Scenario.from_link(tree.link(), traffic, duration=2, warmup=0.1, seed=7).simulate() == found
    assert pickle.loads(pickle.dumps(made)).simulate() == found
    imported = fairlink.Link.from_tc(SCENARIOS / "import/eth0.show")
    run = Scenario.from_link(imported, {"1:10": {"model": "greedy", "packet": 1000}}, duration="1s").simulate()
    assert run["1:10"].rates.rate_bps == pytest.approx(50e6, rel=0.01)


def test_a_scenario_refuses_traffic_that_has_no_meaning() -> None:
    tree = fairlink.Tree("10mbit").add("a")
    for sources, says in (
        ({"b": {"model": "greedy", "packet": 100}}, '"b"'),
        ({"a": {"model": "greddy", "packet": 100}}, "greedy"),
        ({"a": {"model": "cbr", "packet": 100, "rat": 1e6}}, "rate"),
    ):
        with pytest.raises(Refused, match=says):
            Scenario.from_link(tree, sources, duration=1).simulate()
    with pytest.raises(TypeError, match="Link or a Tree"):
        Scenario.from_link(SCENARIO, {}, duration=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sources\\['a'\\]"):
        Scenario.from_link(tree, {"a": ["greedy"]}, duration=1)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="duration"):
        Scenario.from_link(tree, {}, duration=float("inf"))


def test_metrics_are_a_table() -> None:
    found = fairlink.simulate(SCENARIO, metrics=True)
    rows = {row["class"]: row for row in found.table("metrics")}
    assert list(rows) == ["top", "a", "b", "c"] and all(row["seed"] == 1 for row in rows.values())
    measured = found.runs[0].metrics
    assert measured is not None
    for one in measured:
        row = rows[one.name]
        assert row["conforms"] == one.conforms and row["burst_rate_bps"] == one.burst_rate_bps
        assert row["delay_measured_s"] == (one.delay_s and one.delay_s.measured)
        assert row["fairness_bound_bytes"] == (one.fairness_bytes and one.fairness_bytes.bound)
        assert row["transmission_gap_margin_s"] == (one.transmission_gap_s and one.transmission_gap_s.margin)
    assert fairlink.simulate(SCENARIO).table("metrics") == []


def test_a_run_can_be_changed_and_packets_offered() -> None:
    run = Simulation(SCENARIO)
    run.step_until(1.0)
    assert run.now == 1.0 and not run.done
    before = run.report()["a"].rates
    run.offer("c", 1500)
    run.offer("c", 700, at="1.5s")
    run.change(fairlink.Link.from_toml(LINK.replace('"2mbit"', '"1mbit"')))
    with pytest.raises(Refused, match="it must come after"):
        run.change(LINK)
    run.step_until(1.2)
    run.change(LINK, scheduler="hvt")
    after = run.run()
    assert before is not None and after.view.runs[0].changes is not None and len(after.view.runs[0].changes) == 2
    for wrong in (lambda: run.offer("a", 100), lambda: run.offer("nobody", 100), lambda: run.change("[link]\n")):
        with pytest.raises(Refused):
            wrong()
    with pytest.raises(Refused, match="without changes"):
        windowed = Simulation(SCENARIO, window=0.1)
        windowed.step_until(1.0)
        windowed.change(LINK)


def test_results_travel_without_their_packets() -> None:
    found = fairlink.simulate(SCENARIO, trace=True)
    assert len(found.trace) > 100
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.traces == {}
    with pytest.raises(ValueError, match="trace=True"):
        again.trace  # noqa: B018
    scenario = pickle.loads(pickle.dumps(Scenario.from_toml(SCENARIO)))
    assert scenario.simulate(trace=True) == found and len(scenario.simulate(trace=True).trace) == len(found.trace)


def test_expectations_are_judged() -> None:
    found = fairlink.simulate(SCENARIOS / "expect.toml")
    assert found.expectations and found.met == all(one.met for one in found.expectations)


def test_warnings_are_those_of_the_scenario() -> None:
    text = SCENARIO.replace('guarantee = "4mbit"\nceiling', 'guarantee = "4mbit"\nceiling_burst = "200B"\nceiling', 1)
    run = Simulation(text, scheduler="hls")
    assert any("burst" in warning.message for warning in run.warnings)


@pytest.mark.parametrize("name", ["exp1.toml", "network/parking-lot.toml", "voice.toml"])
def test_a_trace_is_the_commands(name: str, fairlink_command: Callable[..., str], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = SCENARIOS / name
    fairlink_command("sim", path, "--trace", tmp_path / "t.csv", "--json")
    found = fairlink.simulate(path, trace=True)
    for link, trace in found.traces.items():
        file = tmp_path / ("t.csv" if link == "link" else f"t-{link}.csv")
        rows = sorted(csv.DictReader(io.StringIO(file.read_text())), key=lambda row: int(row["packet"]))
        frame = polars.DataFrame(trace)
        assert frame.columns == trace.columns == list(rows[0]) and len(frame) == len(trace) == len(rows)
        for column in frame.columns:
            written = [row[column] for row in rows]
            if column in ("class", "dropped"):
                values = [value or "" for value in frame[column].cast(polars.String).to_list()]
                assert values == written, column
            else:
                read = [float(text) if text else None for text in written]
                assert frame[column].cast(polars.Float64).to_list() == read, column


def test_arrow_is_read_by_all_without_a_copy() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = fairlink.simulate(SCENARIOS / "exp1.toml", trace=True)
    one, two = pyarrow.table(found.trace), pyarrow.table(found.trace)
    assert one.num_rows == len(found.trace) and one.column("arrival_s").num_chunks > 1
    # Two readers are given the same memory.
    for column in ("packet", "arrival_s", "start_s", "bytes", "queueing_delay_s"):
        first, second = one.column(column).chunk(0), two.column(column).chunk(0)
        assert first.buffers()[1].address == second.buffers()[1].address, column
    assert pyarrow.schema(found.trace) == one.schema
    assert one.schema.field("arrival_s").metadata == {b"unit": b"s"}
    packets = len(found.trace)
    sent = found["A1"].counts
    assert sent is not None
    polars = pytest.importorskip("polars")
    assert len(polars.DataFrame(found.trace).filter(polars.col("class") == "A1")) == sent.received.packets
    assert found.trace.to_polars().shape == (packets, 10)
    pytest.importorskip("pandas")
    frame = found.trace.to_pandas()
    assert len(frame) == packets and frame["class"].nunique() == 5
    duckdb = pytest.importorskip("duckdb")
    trace = found.trace  # DuckDB finds it by its name.
    assert duckdb.sql("select count(*), sum(bytes) from trace").fetchall() == [(packets, int(frame["bytes"].sum()))]
    del found, trace
    assert one.column("bytes").to_pylist() == two.column("bytes").to_pylist()


def test_a_trace_grows_with_the_run() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    run = Simulation(SCENARIO, trace=True)
    run.step_until(0.5)
    early = pyarrow.table(run.trace())
    rows = early.num_rows
    before = early.to_pylist()
    run.step_until(1.0)
    assert len(run.trace()) > rows and early.num_rows == rows and early.to_pylist() == before
    queued = [row for row in before if row["departure_s"] is None and row["dropped_s"] is None]
    assert queued and all(row["start_s"] is None and row["dropped"] is None for row in queued)


def test_packets_beyond_the_limit_are_an_error() -> None:
    with pytest.raises(Refused, match="more than 100 packets, the limit; simulate a shorter time"):
        fairlink.simulate(SCENARIO, trace=100)
    with pytest.raises(Refused, match="trace=True"):
        Simulation(SCENARIO).trace()
    with pytest.raises(Refused, match="is not a \\[\\[peer\\]\\]"):
        Simulation(SCENARIO, trace=True).trace("other")


def test_progress_is_called_until_the_end() -> None:
    calls: list[tuple[float, float]] = []
    fairlink.simulate(SCENARIO, progress=lambda now, end: calls.append((now, end)))
    assert calls[-1] == (2.0, 2.0) and calls == sorted(calls)

    def stop(now: float, end: float) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        fairlink.simulate(SCENARIO, progress=stop)


def test_a_bar_is_shown_if_there_is_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    fairlink.simulate(SCENARIO, progress=True)
    assert "2/2 s simulated" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(fairlink.MissingExtra, match="fairlink\\[progress\\]"):
        fairlink.simulate(SCENARIO, progress=True)


LONG = SCENARIO.replace("2s", "100000s")
"""Hours of work."""


def test_other_threads_go_on_while_a_run_lasts() -> None:
    run = Simulation(LONG)
    counted = 0
    done = threading.Event()

    def work() -> None:
        run.step_until(30.0)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
        time.sleep(0)
    thread.join()
    assert run.now == 30.0 and counted > 10


def test_threads_may_share_a_run() -> None:
    run = Simulation(SCENARIO)
    threads = [threading.Thread(target=run.step_until, args=(2.0,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.report() == fairlink.simulate(SCENARIO)


def test_a_run_stops_at_ctrl_c_and_can_continue() -> None:
    run = Simulation(LONG)
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    late = []
    for _ in range(5):
        timer = threading.Timer(0.2, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run.step_until(100_000)
        late.append(time.monotonic() - sent[-1])
    # A busy machine may be late once.
    assert sorted(late)[2] < 0.1, late
    before = run.now
    run.step_until(before + 0.01)
    assert run.now == pytest.approx(before + 0.01, abs=2e-9)


def test_an_import_is_quick_and_needs_no_other_package() -> None:
    code = "import fairlink, sys; print(sorted({'numpy','pandas','polars','pyarrow','tqdm','matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
