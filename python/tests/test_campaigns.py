"""Campaigns: rows do not depend on the engine that makes them, nor on interruptions."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fairlink
from fairlink import Campaign, Incomplete, Refused, sweep

SCENARIO = """\
duration = "50ms"
[link]
rate = "10mbit"
[[class]]
name = "a"
weight = 2
[[class]]
name = "b"
weight = 1
[[source]]
class = "a"
model = "poisson"
rate = "6mbit"
packet = "500B"
[[source]]
class = "b"
model = "greedy"
packet = "1000B"
"""
OVER = {"link.rate": ["5mbit", "10mbit"], "seed": range(1, 21), "scheduler": ["hls", "drr"]}


@pytest.fixture(scope="module")
def digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sweep(SCENARIO, OVER).run(tmp_path_factory.mktemp("one") / "c", workers=1).digest


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("workers", [1, 5])
def test_threads_and_formats_give_one_digest(digest: str, form: str, workers: int) -> None:
    campaign = sweep(SCENARIO, OVER).run(workers=workers, format=form)
    assert (campaign.digest, campaign.jobs, campaign.rows, campaign.failed) == (digest, 80, 160, 0)


def test_the_command_makes_the_same_campaign(
    digest: str, lab_command: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    over = ["--sweep", "link.rate=5mbit,10mbit", "--sweep", "seed=1..20..1", "--scheduler", "hls", "--scheduler", "drr"]
    shard = ["--out", tmp_path / "c", "--shard", "1/2", "--format", "parquet"]
    assert "not complete" in lab_command("campaign", tmp_path / "s.toml", *over, *shard)
    # The other half is made here.
    campaign = Campaign.open(tmp_path / "c")
    assert not campaign.complete and len(campaign.files) == campaign.parts // 2
    with pytest.raises(Incomplete, match="parts are missing"):
        _ = campaign.digest
    assert campaign.run().digest == digest


def test_rows_have_the_numbers_of_a_simulation(tmp_path: Path) -> None:
    campaign = sweep(SCENARIO, {"seed": [3, 4], "scheduler": "drr"}).run(tmp_path / "c")
    rows = campaign.to_arrow().to_pylist()
    assert [(row["job"], row["set.seed"], row["class"]) for row in rows] == [
        (0, 3, "a"), (0, 3, "b"), (1, 4, "a"), (1, 4, "b"),
    ]  # fmt: skip
    for seed in (3, 4):
        run = fairlink.simulate(SCENARIO, scheduler="drr", seed=seed)
        for row in (row for row in rows if row["seed"] == seed):
            report = run[row["class"]]
            assert report.counts is not None and report.delay_s is not None
            assert row["sent_bytes"] == report.counts.sent.bytes
            assert row["delay_p99_s"] == report.delay_s.p99
            assert row["rate_bps"] == report.rates.rate_bps


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_all_readers_read_the_same(tmp_path: Path, form: str) -> None:
    campaign = sweep(SCENARIO, {"link.rate": ["5mbit", "10mbit"]}, runs=3).run(tmp_path / "c", format=form)
    table = campaign.to_arrow()
    assert table.column_names == campaign.columns and table.num_rows == campaign.rows == 12
    mean = table["rate_bps"].to_pandas().mean()
    assert campaign.to_pandas()["rate_bps"].mean() == pytest.approx(mean)
    polars = pytest.importorskip("polars")
    scanned = campaign.scan().group_by("class").agg(polars.col("rate_bps").mean()).collect()
    assert scanned["rate_bps"].mean() == pytest.approx(mean)
    pytest.importorskip("duckdb")
    assert campaign.to_duckdb().aggregate("avg(rate_bps)").fetchall()[0][0] == pytest.approx(mean)


def test_a_run_that_fails_has_the_reason_and_the_others_go_on() -> None:
    for form in ("csv", "parquet"):
        campaign = sweep(SCENARIO, {"class.a.weight": [1, 0, 3]}).run(format=form)
        assert (campaign.jobs, campaign.failed, campaign.rows) == (3, 1, 5)
        [failure] = campaign.failures()
        assert failure["job"] == 1 and failure["set.class.a.weight"] == 0
        assert "weight" in failure["error"] and "of 0 is outside 1" in failure["error"]


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"class.a.wieght": [1]}, "did you mean class.a.weight?"),
        ({"scheduler": ["hsl"]}, "hls"),
        ({"link.rate": ["fast"]}, "does not begin with a number"),
        ({"seed": [1, 1]}, "given twice"),
    ],
)
def test_a_sweep_that_is_wrong_is_refused_before_the_first_run(
    tmp_path: Path, over: dict[str, list[object]], says: str
) -> None:
    with pytest.raises(Refused, match=says.replace("?", r"\?")):
        sweep(SCENARIO, over).run(tmp_path / "c")  # type: ignore[arg-type]
    assert not (tmp_path / "c").exists()


def test_wrong_types_and_directories_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="link.rate: a text or a number"):
        sweep(SCENARIO, {"link.rate": [None]})  # type: ignore[list-item]
    with pytest.raises(ValueError, match="seed: it has no value"):
        sweep(SCENARIO, {"seed": []})
    with pytest.raises(ValueError, match="runs: 0"):
        sweep(SCENARIO, {}, runs=0)
    with pytest.raises(TypeError, match="on: "):
        sweep(SCENARIO, {}).run(tmp_path / "a", on="celery")
    with pytest.raises(FileNotFoundError, match="there is no campaign here"):
        Campaign.open(tmp_path / "none")
    sweep(SCENARIO, {"seed": [1]}).run(tmp_path / "b")
    with pytest.raises(Refused, match="another campaign, with other values"):
        sweep(SCENARIO, {"seed": [2]}).run(tmp_path / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="creating the directory"):
        sweep(SCENARIO, {}).run(tmp_path / "file")


def test_a_campaign_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    longer = SCENARIO.replace("50ms", "20s")
    program = f"""
import fairlink
over = {{"link.rate": ["5mbit", "10mbit"], "seed": range(1, 21), "scheduler": ["hls", "drr"]}}
fairlink.sweep({longer!r}, over).run({str(tmp_path / "c")!r}, workers=2)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("c/*.parquet")):
        assert process.poll() is None
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in said and time.monotonic() - began < 10, said
    campaign = Campaign.open(tmp_path / "c")
    assert campaign.files and not campaign.complete
    assert campaign.run().digest == sweep(longer, OVER).run().digest


def test_a_full_disk_keeps_what_is_done(tmp_path: Path) -> None:
    # Once there is a part, files cannot become as long as one.
    *said, expected, found = in_a_process(f"""
import pathlib, resource, threading, time
from fairlink import Incomplete
most = resource.getrlimit(resource.RLIMIT_FSIZE)
plan, dir = sweep(SCENARIO.replace("50ms", "20s"), OVER), pathlib.Path({str(tmp_path / "c")!r})
def fill():
    while not list(dir.glob("*.parquet")):
        time.sleep(0.001)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most[1]))
threading.Thread(target=fill).start()
try:
    plan.run(dir, workers=1)
except Incomplete as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, most)
print(plan.run().digest, plan.run(dir).digest)
""")
    text = " ".join(said)
    assert "parts are in" in text and "File too large" in text and text.count("run the same again to go on") == 1, text
    assert not text.startswith("0 of") and found == expected


def test_progress_counts_simulations(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    sweep(SCENARIO, OVER).run(tmp_path / "c", progress=lambda done, all: seen.append((done, all)))
    assert seen[-1] == (80, 80) and seen == sorted(seen)


def in_a_process(program: str) -> list[str]:
    """Runs a program that has `SCENARIO`, `OVER` and `sweep`: engines change the signals of their process."""
    head = f"from fairlink import sweep\nSCENARIO = {SCENARIO!r}\nOVER = {OVER!r}\n"
    run = subprocess.run([sys.executable, "-c", head + program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_dask_makes_the_same_and_loses_nothing_with_a_worker(digest: str, tmp_path: Path) -> None:
    pytest.importorskip("dask.distributed")
    first, expected, found = in_a_process(f"""
import os, signal, threading
from dask.distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        print(sweep(SCENARIO, OVER).run({str(tmp_path / "c")!r}, on=client).digest)
        # A worker is killed in the middle of a longer one.
        longer = SCENARIO.replace("50ms", "20s")
        print(sweep(longer, OVER).run({str(tmp_path / "expected")!r}).digest)
        pid = next(iter(client.run(os.getpid).values()))
        threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
        print(sweep(longer, OVER).run({str(tmp_path / "d")!r}, on=client).digest)
""")
    assert (first, found) == (digest, expected)


def test_ray_makes_the_same_and_loses_nothing_with_a_worker(digest: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    first, expected, found = in_a_process(f"""
import os, pathlib, signal, threading
def kill_a_worker():
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                name = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::write_part"):
                return os.kill(int(process.name), signal.SIGKILL)
print(sweep(SCENARIO, OVER).run({str(tmp_path / "c")!r}, on="ray", workers=2).digest)
longer = SCENARIO.replace("50ms", "20s")
print(sweep(longer, OVER).run({str(tmp_path / "expected")!r}).digest)
threading.Timer(0.5, kill_a_worker).start()
print(sweep(longer, OVER).run({str(tmp_path / "d")!r}, on="ray", workers=2).digest)
""")
    assert (first, found) == (digest, expected)


# Each prints what was said and the time that it took, and at last the digest of the completed campaign.
FAILS = """
import time
from fairlink import Incomplete
def fails(**how):
    began = time.monotonic()
    try:
        sweep(SCENARIO, OVER).run(DIR, **how)
    except Incomplete as error:
        print("@" + str(error).replace(" ", "_"), f"@{time.monotonic() - began}")
"""


DASK = """
from dask.distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
"""
# As workers that the system kills for their memory.
DIES = """
import os
from fairlink import _campaigns
write = _campaigns.write_part
_campaigns.write_part = lambda dir, part: write(dir, part) if part < 5 else os._exit(137)
"""


@pytest.mark.parametrize(
    ("engine", "program"),
    [
        pytest.param("dask.distributed", DIES + DASK + "        fails(on=client)", id="a worker of Dask dies"),
        pytest.param(
            "dask.distributed",
            DASK + "        fails(on=client, progress=lambda done, all: cluster.close())",
            id="Dask goes away",
        ),
        pytest.param(
            "ray", DIES + 'if __name__ == "__main__":\n    fails(on="ray", workers=2)', id="a worker of Ray dies"
        ),
        pytest.param(
            "ray",
            "import ray\n"
            'if __name__ == "__main__":\n'
            '    fails(on="ray", workers=2, progress=lambda done, all: ray.shutdown())',
            id="Ray goes away",
        ),
    ],
)
def test_an_engine_that_fails_is_an_error_and_what_is_done_stays(
    engine: str, program: str, digest: str, tmp_path: Path
) -> None:
    pytest.importorskip(engine)
    directory = str(tmp_path / "c")
    end = "\n    print('@' + sweep(SCENARIO, OVER).run(DIR).digest)"
    said = in_a_process(f"DIR = {directory!r}\n{FAILS}{program}{end}")
    # Ray prints, too.
    text, took, found = (word[1:] for word in said if word.startswith("@"))
    assert "_parts_are_in_" in text and text.endswith("run_the_same_again_to_go_on"), text
    assert float(took) < 90 and found == digest
