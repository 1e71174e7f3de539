"""Bounds over several links: beside a second computation, beside panco, and beside simulations."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from compare_calculus import BEGIN, CASES, DOCS, END, METHODS, MOST_IN_ELP, SCHEDULERS, Case, closest, row
from conftest import SCENARIOS

import fairlink
from fairlink import calculus

BOUNDS = SCENARIOS / "network/bounds.toml"
case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def missing() -> str | None:
    """The reason for which panco cannot run."""
    if importlib.util.find_spec("panco") is None:
        return "panco is not on PYTHONPATH (its sources, or those of Saihu; no package index has it)"
    if importlib.util.find_spec("numpy") is None:
        return "numpy is missing, which panco needs"
    solver: str = importlib.import_module("panco.lpSolvePath").LPSOLVEPATH[0]
    return None if shutil.which(solver) else f"lp_solve is missing: {solver} (Debian: lp-solve)"


with_panco = pytest.mark.skipif(missing() is not None, reason=str(missing()))


class Calculus:
    """Rate-latency servers and token buckets of a file for Saihu, in exact numbers: what is known of such networks in
    closed form. Microseconds, bits and bit/us."""

    def __init__(self, file: dict[str, Any]) -> None:
        self.servers = {
            server["name"]: (
                Fraction(server["service_curve"]["rates"][0]),
                Fraction(server["service_curve"]["latencies"][0]),
            )
            for server in file["servers"]
        }
        self.flows = [
            (
                Fraction(flow["arrival_curve"]["bursts"][0]),
                Fraction(flow["arrival_curve"]["rates"][0]),
                tuple(flow["path"]),
            )
            for flow in file["flows"]
        ]

    def alone(self, flow: int) -> Fraction:
        """h(alpha, beta_1 (x) beta_2 (x) ...) of a flow without others."""
        burst, _, path = self.flows[flow]
        curves = [self.servers[name] for name in path]
        return burst / min(rate for rate, _ in curves) + sum(latency for _, latency in curves)

    def at(self, name: str) -> list[int]:
        """The flows of a server."""
        return [number for number, (_, _, path) in enumerate(self.flows) if name in path]

    def tfa(self) -> list[Fraction]:
        """Total flow analysis: the delay of each server, and bursts that grow by it."""
        bursts = {(number, path[0]): burst for number, (burst, _, path) in enumerate(self.flows)}
        delays: dict[str, Fraction] = {}
        for name, (rate, latency) in self.servers.items():
            delays[name] = latency + sum(bursts[number, name] for number in self.at(name)) / rate
            for number in self.at(name):
                _, own, path = self.flows[number]
                for after in next_of(path, name):
                    bursts[number, after] = bursts[number, name] + own * delays[name]
        return [sum((delays[name] for name in path), Fraction()) for _, _, path in self.flows]

    def sfa(self) -> list[Fraction]:
        """Separated flow analysis with theta = latency + burst of the others / rate."""
        bursts = {(number, path[0]): burst for number, (burst, _, path) in enumerate(self.flows)}
        late: list[Fraction] = [Fraction()] * len(self.flows)
        least = [min(self.left(number, name) for name in path) for number, (_, _, path) in enumerate(self.flows)]
        for name, (rate, latency) in self.servers.items():
            for number in self.at(name):
                _, own, path = self.flows[number]
                held = latency + sum(bursts[other, name] for other in self.at(name) if other != number) / rate
                late[number] += held
                for after in next_of(path, name):
                    bursts[number, after] = bursts[number, name] + own * held
        return [late[number] + self.flows[number][0] / least[number] for number in range(len(self.flows))]

    def left(self, flow: int, name: str) -> Fraction:
        """The rate that the others of a server leave."""
        return self.servers[name][0] - sum(self.flows[other][1] for other in self.at(name) if other != flow)


def next_of(path: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The server behind one, or none."""
    place = path.index(name) + 1
    return path[place : place + 1]


def ours(report: Any) -> list[float]:
    """Our bounds of a report, computed again as crates/theory/src/network.rs says, for frames without overhead."""
    servers = {server.name: server for server in report.servers}
    known = [flow for flow in report.flows if flow.burst_bytes is not None]
    paths = [[hop.server for hop in flow.path] for flow in known]
    bits = [{paths[n][0]: 8 * flow.burst_bytes} for n, flow in enumerate(known)]
    held: dict[str, float] = {}
    names = list(dict.fromkeys(name for path in paths for name in path))
    while len(held) < len(names):
        for name in names:
            here = [n for n, path in enumerate(paths) if name in path]
            if name in held or not all(name in bits[n] for n in here):
                continue
            rate, latency = servers[name].rate_bps, servers[name].latency_s
            held[name] = latency + sum(bits[n][name] for n in here) / rate
            for n in here:
                others = [m for m in here if m != n]
                left = rate - sum(known[m].rate_bps for m in others)
                hop = known[n].path[paths[n].index(name)]
                packet = 8 * min(hop.largest_bytes / left, servers[name].largest_bytes / rate)
                curve = latency + sum(bits[m][name] for m in others) / rate + packet
                for after in next_of(tuple(paths[n]), name):
                    bits[n][after] = bits[n][name] + known[n].rate_bps * min(held[name], curve)
    found = []
    for n, path in enumerate(paths):
        group = [m for m, other in enumerate(paths) if other == path]
        late, least = 0.0, float("inf")
        for name in path:
            others = [m for m, other in enumerate(paths) if name in other and m not in group]
            left = servers[name].rate_bps - sum(known[m].rate_bps for m in others)
            late += servers[name].latency_s + sum(bits[m][name] for m in others) / servers[name].rate_bps
            least = min(least, left)
            if name != path[-1]:
                largest = max(known[m].path[path.index(name)].largest_bytes for m in group)
                late += 8 * min(largest / left, servers[name].largest_bytes / servers[name].rate_bps)
        once = sum(8 * known[m].burst_bytes for m in group) / least + late
        way = sum(servers[name].propagation_s for name in path)
        found.append(min(once, sum(held[name] for name in path)) + way)
    return found


@case
def test_a_second_computation_finds_the_same_bounds(case: Case) -> None:
    report = fairlink.Scenario.from_toml(case.scenario()).link.check().view.network
    assert report is not None
    bounds = [flow.delay_bound_s for flow in report.flows if flow.burst_bytes is not None]
    assert bounds == pytest.approx(ours(report), rel=1e-9)


@case
def test_no_packet_is_later_than_its_bound(case: Case) -> None:
    network, measured = case.network(), case.measured(8)
    for flow in network.flows:
        if len(flow.path) > 1:
            assert 0 < measured[flow.name] <= (flow.delay_bound_s or 0), flow
    report = fairlink.Scenario.from_toml(case.scenario()).link.check().view.network
    assert report is not None
    for server in report.servers:
        if server.delay_bound_s is not None:
            assert 0 < measured[server.name] <= server.delay_bound_s, server


def test_the_file_of_a_flow_alone_has_the_closed_form() -> None:
    alone = [case for case in CASES if len(case.flows) == 1]
    assert len(alone) >= 2
    for case in alone:
        network = case.network()
        found = Calculus(network.saihu()).alone(0)
        (flow,) = network.flows
        assert float(found) / 1e6 + flow.propagation_s == pytest.approx(flow.delay_bound_s, rel=1e-12)


@case
def test_a_file_has_what_the_bounds_are_made_of(case: Case, tmp_path: Path) -> None:
    network = case.network()
    network.write_saihu(tmp_path / "network.json")
    file = json.loads((tmp_path / "network.json").read_text())
    assert file == network.saihu()
    places = {server["name"]: place for place, server in enumerate(file["servers"])}
    for flow in file["flows"]:
        assert [places[name] for name in flow["path"]] == sorted(places[name] for name in flow["path"])
    for server, written in zip(network.servers, file["servers"], strict=True):
        ends = [flow["path"][-1] == server.name for flow in file["flows"] if server.name in flow["path"]]
        extra = 0 if all(ends) else 8 * server.largest_bytes / server.rate_bps
        assert written["service_curve"]["latencies"] == pytest.approx([(server.latency_s + extra) * 1e6], rel=1e-12)
    # What is exported is no tighter than what we have: TFA of the file pays for a packetizer at each link.
    for flow, tfa in zip(network.flows, Calculus(file).tfa(), strict=True):
        assert float(tfa) / 1e6 + flow.propagation_s >= (flow.delay_bound_s or 0) * (1 - 1e-9)


@with_panco
@case
def test_panco_computes_the_closed_forms_of_the_file(case: Case) -> None:
    network = case.network()
    exact = Calculus(network.saihu())
    methods: tuple[tuple[calculus.Method, list[Fraction]], ...] = (("TFA", exact.tfa()), ("SFA", exact.sfa()))
    for method, expected in methods:
        found = network.panco(method, shaping=False)
        for flow, us in zip(network.flows, expected, strict=True):
            assert found[flow.name] == pytest.approx(float(us) / 1e6 + flow.propagation_s, rel=1e-4)


@with_panco
@case
def test_no_packet_is_later_than_a_bound_of_panco(case: Case) -> None:
    network, measured = case.network(), case.measured(8)
    for method in METHODS:
        if method == "ELP" and len(network.servers) > MOST_IN_ELP:
            continue
        try:
            bounds = network.panco(method)
        except RuntimeError as error:
            assert "lp_solve failed" in str(error)
            continue
        for flow in network.flows:
            if len(flow.path) > 1:
                assert measured[flow.name] <= bounds[flow.name], (method, flow)


@with_panco
def test_panco_agrees_where_a_flow_is_alone() -> None:
    for case in CASES:
        if len({flow.path for flow in case.flows}) == 1:
            network = case.network()
            for flow in network.flows:
                assert network.panco("PLP")[flow.name] == pytest.approx(flow.delay_bound_s, rel=1e-4)


@with_panco
def test_ours_is_tighter_where_panco_cuts_a_path() -> None:
    (branches,) = [case for case in CASES if case.name == "branches"]
    network = branches.network()
    panco = network.panco("PLP")
    cut = [flow for flow in network.flows if flow.path[-1] == "C:flows"]
    assert len(cut) == 2 and all((flow.delay_bound_s or 0) < panco[flow.name] for flow in cut)


def table() -> list[list[str]]:
    """The rows of the manual's table, by cells."""
    text = DOCS.read_text().split(BEGIN)[1].split(END)[0]
    return [[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in text.splitlines()[2:]]


def test_the_manual_has_ten_networks_with_our_bounds() -> None:
    rows = table()
    assert len(rows) == len(CASES) == 10
    for found, case in zip(rows, CASES, strict=True):
        network = case.network()
        assert found[0].startswith(case.name) and found[2] == f"{(case.flow(network).delay_bound_s or 0) * 1e3:.2f}"


def test_the_manual_sums_the_table_up() -> None:
    less = [
        1 - min(float(cell) for cell in cells[3:7] if cell != "-") / float(cells[2])
        for cells in table()
        if cells[8].startswith("theirs: ")
    ]
    summary = f"PLP is tighter in five of the ten, by {100 * min(less):.0f} to {100 * max(less):.0f} %"
    assert len(less) == 5 and summary in DOCS.read_text()


@with_panco
@case
def test_the_manual_has_the_bounds_of_panco(case: Case) -> None:
    (found,) = [cells for cells in table() if cells[0].startswith(case.name)]
    expected = [cell.strip() for cell in row(case, runs=0).strip("| \n").split(" | ")]
    # The measured delays are those of more runs.
    assert found[:7] == expected[:7] and found[8:] == expected[8:]


def test_no_packet_of_a_random_network_is_later_than_its_bound() -> None:
    parts = closest(range(60), runs=6)
    assert set(parts) == set(SCHEDULERS)
    assert all(0.2 < part <= 1 for part in parts.values()), parts


def test_a_path_is_cut_where_no_bound_holds() -> None:
    text = BOUNDS.read_text().replace('shape = { burst = "6kB", rate = "2mbit" }\n', "")
    network = calculus.network(text)
    (flow,) = network.flows
    assert flow.path == ("control",) and flow.delay_bound_s is None and flow.propagation_s == 0.001
    assert any("from core:control on, no server" in lost and "add shape or police" in lost for lost in network.left_out)
    with pytest.raises(fairlink.Refused, match="htb promises .* no rate with a latency"):
        calculus.network(BOUNDS, scheduler="htb")


def test_the_propagation_of_the_last_link_counts() -> None:
    plain = BOUNDS.read_text().split("[[expect]]")[0]
    far = plain.replace('name = "exit"', 'name = "exit"\npropagation = "50ms"')
    (near, later) = (calculus.network(text).flows[0].delay_bound_s or 0 for text in (plain, far))
    assert later - near == pytest.approx(0.05, rel=1e-12)
    (route,) = fairlink.simulate(far).document["runs"][0]["routes"]
    assert near < 0.05 < route["delay_s"]["max"] <= later


@pytest.mark.parametrize("scheduler", ["hls", "hvt"])
def test_latency_critical_classes_have_a_bound_where_bursts_fit(scheduler: str) -> None:
    def critical(burst: str) -> str:
        keys = f'latency_critical = true, burst = "{burst}"'
        text = BOUNDS.read_text().split("[[expect]]")[0].replace('"hls"', f'"{scheduler}"')
        text = text.replace('{ name = "control",', f'{{ name = "control", {keys},')
        text = text.replace('name = "control"\n', 'name = "control"\n' + keys.replace(", ", "\n") + "\n")
        return text.replace('model = "poisson"\nrate = "1.5mbit"', 'model = "greedy"')

    def first(text: str) -> Any:
        report = fairlink.Scenario.from_toml(text).link.check().view.network
        assert report is not None
        return report.flows[0]

    fits = first(critical("30kB"))
    (route,) = fairlink.simulate(critical("30kB")).document["runs"][0]["routes"]
    assert 0 < route["delay_s"]["max"] <= fits.delay_bound_s < 0.02
    assert "may arrive at once: set burst =" in first(critical("3kB")).why_not
    with pytest.raises(fairlink.Refused, match="no flow can be written: .* for conforming traffic only"):
        calculus.network(critical("30kB"))


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(fairlink.Refused, match="has no routes"):
        calculus.network(SCENARIOS / "exp1.toml")
    text = BOUNDS.read_text().replace('link.rate = "20mbit"', 'link.rate = "20mbit"\nlink.overhead = "ethernet"')
    with pytest.raises(fairlink.Refused, match="different overheads"):
        calculus.network(text)
    with pytest.raises(fairlink.Refused, match="is not TFA, SFA, PLP or ELP"):
        calculus.network(BOUNDS).panco("LUDB")  # type: ignore[arg-type]


@pytest.mark.skipif(importlib.util.find_spec("panco") is not None, reason="panco is there")
def test_without_panco_the_error_says_where_it_is() -> None:
    with pytest.raises(ImportError, match="PYTHONPATH"):
        calculus.network(BOUNDS).panco()
