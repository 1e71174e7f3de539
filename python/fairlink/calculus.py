"""Routes of a scenario for tools of network calculus: Saihu and panco.

```python
from fairlink import calculus

network = calculus.network("scenarios/network/bounds.toml")
print(network.flows[0].delay_bound_s)          # Ours, in seconds.
network.write_saihu("network.json")            # For Saihu: TSN_Analyzer("network.json").analyze_all(...).
print(network.panco("PLP"))                    # By panco, if it can be imported: seconds by flow.
```

A class on a link is a server with a rate and a latency for all its flows together, first in, first out. So a class has
the part of the link that its scheduler guarantees, whatever other classes send. docs/network-calculus.md says what is
lost in translation, and compares the bounds.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

from ._errors import MissingExtra, Refused
from ._link import Link
from ._scenario import Scenario
from ._sources import Path
from .documents import FlowReport, NetworkReport, ServerReport

__all__ = ["Flow", "Method", "Network", "Server", "network"]

Method: TypeAlias = Literal["TFA", "SFA", "PLP", "ELP"]
"""The analysis.

- `"TFA"`: Total flow analysis: the sum of the delay bounds of the links.
- `"SFA"`: Separated flow analysis: the service that others leave, over all links.
- `"PLP"`: Linear programs of polynomial size.
- `"ELP"`: Linear programs of exponential size."""

_US = 1e6
"""Microseconds in a second. Their unit of time, as lp_solve prints few digits after the point."""


@dataclass(frozen=True)
class Server:
    """A class on a link.

    Attributes:
        name: Name as in routes: `CLASS` or `PEER:CLASS`.
        rate_bps: Guaranteed rate in bit/s.
        latency_s: Latency at that rate in seconds: the n-th packet of l bits leaves by f_n + latency, where f_n is
            max(arrival, f_(n-1)) + l / rate.
        largest_bytes: Largest packet of its flows.
        link_bps: Rate of the link in bit/s.
        propagation_s: Propagation delay of the link in seconds.
        is_last: True if the paths of all its flows end here.
    """

    name: str
    rate_bps: float
    latency_s: float
    largest_bytes: int
    link_bps: int
    propagation_s: float
    is_last: bool

    @property
    def curve_latency_s(self) -> float:
        """Latency of the service curve in seconds. Before another server a packet counts when it is complete, so that
        the latency grows by the time of a largest packet at the rate."""
        return self.latency_s if self.is_last else self.latency_s + 8 * self.largest_bytes / self.rate_bps


@dataclass(frozen=True)
class Flow:
    """A source and its path.

    Attributes:
        name: Its classes, `A > B`, with a number behind if several flows have them.
        burst_bytes: Burst of its token bucket in accounted bytes.
        rate_bps: Rate of its token bucket in bit/s of accounted bytes.
        largest_bytes: Its largest packet in accounted bytes.
        path: Names of its servers in order.
        propagation_s: Propagation delay of all its links, in seconds.
        delay_bound_s: Our bound from the arrival at the first link to the far end of the last, in seconds, with
            propagation. `None` if the path was cut, as no bound holds for the rest.
    """

    name: str
    burst_bytes: float
    rate_bps: float
    largest_bytes: int
    path: tuple[str, ...]
    propagation_s: float
    delay_bound_s: float | None


@dataclass(frozen=True)
class Network:
    """Servers and flows, without circles.

    Attributes:
        name: Name of the network.
        servers: Servers in an order in which all paths ascend.
        flows: Flows.
        left_out: What the network lacks, in words.
    """

    name: str
    servers: tuple[Server, ...]
    flows: tuple[Flow, ...]
    left_out: tuple[str, ...] = ()

    def saihu(self) -> dict[str, Any]:
        """Returns the network as an output-port network of Saihu: a JSON object in microseconds, bits and bit/us.

        Propagation is not in it, because the format has no place for it: add `Flow.propagation_s` to what is computed.
        `capacity` is the rate of the link, by which Saihu limits what a server sends to the next (`shaping`).
        """
        return {
            "network": {
                "name": self.name,
                "packetizer": True,
                "multiplexing": "FIFO",
                "analysis_option": ["IS"],
                "time_unit": "us",
                "data_unit": "b",
                "rate_unit": "Mbps",
            },
            "flows": [
                {
                    "name": flow.name,
                    "path": list(flow.path),
                    "arrival_curve": {"bursts": [8 * flow.burst_bytes], "rates": [flow.rate_bps / _US]},
                    "max_packet_length": 8 * flow.largest_bytes,
                }
                for flow in self.flows
            ],
            "servers": [
                {
                    "name": server.name,
                    "service_curve": {
                        "latencies": [server.curve_latency_s * _US],
                        "rates": [server.rate_bps / _US],
                    },
                    "capacity": server.link_bps / _US,
                }
                for server in self.servers
            ],
        }

    def write_saihu(self, path: Path) -> None:
        """Writes `saihu()` as a JSON file, which Saihu and the panco_analyzer in it read."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.saihu(), file, indent=2)
            file.write("\n")

    def to_panco(self, shaping: bool = True) -> Any:
        """Returns a `panco.descriptor.network.Network` in microseconds, bits and bit/us.

        Args:
            shaping: Limits what a server sends to the next by the rate of the link, and a largest packet.

        Raises:
            ImportError: panco cannot be imported.
        """
        curves, servers = _panco("descriptor.curves"), _panco("descriptor.server")
        flows, networks = _panco("descriptor.flow"), _panco("descriptor.network")
        numbers = {server.name: number for number, server in enumerate(self.servers)}

        def server_of(server: Server) -> Any:
            service = curves.RateLatency(server.rate_bps / _US, server.curve_latency_s * _US)
            line = curves.TokenBucket(8 * server.largest_bytes, server.link_bps / _US)
            return servers.Server([service], [line] if shaping else [])

        def flow_of(flow: Flow) -> Any:
            bucket = curves.TokenBucket(8 * flow.burst_bytes, flow.rate_bps / _US)
            return flows.Flow([bucket], [numbers[name] for name in flow.path])

        return networks.Network([server_of(server) for server in self.servers], [flow_of(flow) for flow in self.flows])

    def panco(self, method: Method = "PLP", shaping: bool = True) -> dict[str, float]:
        """Returns the bounds of panco by flow, in seconds, with propagation.

        It writes linear programs and runs lp_solve, a program of its own (Debian: lp-solve). Meanwhile the working
        directory of this process is another one.

        Args:
            method: Total flow analysis, separated flow analysis (which ignores `shaping`), or the linear programs of
                polynomial size (with TFA and SFA inside) and of exponential size.
            shaping: See `to_panco`.

        Raises:
            ImportError: panco cannot be imported.
            Refused: Another method.
            RuntimeError: lp_solve is missing, or found no bound.
        """
        if method not in ("TFA", "SFA", "PLP", "ELP"):
            raise Refused(f"method: {method!r} is not TFA, SFA, PLP or ELP")
        network = self.to_panco(shaping)
        solver = _panco("lpSolvePath").LPSOLVEPATH
        with _in_a_directory_of_its_own():
            try:
                if method == "TFA":
                    found = _panco("fifo.tfaLP").TfaLP(network).all_delays
                elif method == "SFA":
                    found = _panco("fifo.sfaLP").SfaLP(network).all_delays
                else:
                    within = method == "PLP"
                    programs = _panco("fifo.fifoLP").FifoLP(network, polynomial=within, tfa=within, sfa=within)
                    found = programs.all_delays
            except FileNotFoundError:
                raise RuntimeError(
                    f"panco runs {' '.join(solver)}, which is missing: install lp_solve (Debian: lp-solve), and set "
                    "LPSOLVEPATH in panco/lpSolvePath.py"
                ) from None
            except ValueError as error:  # The last word that lp_solve prints is not a number.
                raise RuntimeError(f"lp_solve failed on the programs of {method}: {error}") from None
        bounds = {flow.name: float(us) / _US + flow.propagation_s for flow, us in zip(self.flows, found, strict=True)}
        if not all(math.isfinite(bound) for bound in bounds.values()):
            raise RuntimeError(f"panco found no bound by {method}")
        return bounds


def network(
    scenario: Scenario | Path, *, scheduler: str | None = None, lenient: bool = False, name: str = "fairlink"
) -> Network:
    """Makes the network of a scenario with routes.

    A flow is a source whose arrival curve (`shape` or `police`) is known; of several limits that of the least rate
    counts. A path is cut where a server has no rate for all traffic, or other flows without a limit.

    Args:
        scenario: A scenario, its text (a `str` with a line break) or its file.
        scheduler: The scheduler, instead of the scenario's own.
        lenient: Ignores settings that the scheduler does not support.
        name: Name of the network.

    Raises:
        Refused: Errors in the scenario; no route in it; no flow that can be written; lengths that links count
            differently.
    """
    link: Link = Scenario.of(scenario).link
    report = link.check(scheduler=scheduler, lenient=lenient).view.network
    if report is None:
        raise Refused("the scenario has no routes, or errors that sim names: add route = [\"PEER:CLASS\"] to a source")
    return _made(report, name)


def _made(report: NetworkReport, name: str) -> Network:
    servers = {server.name: server for server in report.servers}
    lost: list[str] = []
    ends = _ends(report, servers)
    flows: list[Flow] = []
    seen: dict[str, int] = {}
    last: dict[str, bool] = {}
    for flow, end in zip(report.flows, ends, strict=True):
        seen[flow.name] = seen.get(flow.name, 0) + 1
        called = flow.name if seen[flow.name] == 1 else f"{flow.name} #{seen[flow.name]}"
        if end < len(flow.path):
            why = flow.why_not or "a class there has a promise for conforming traffic only"
            lost.append(f"{called}: {'from ' + flow.path[end].server + ' on, ' if end else ''}no server: {why}")
        if end == 0:
            continue
        path = flow.path[:end]
        ratio = path[0].ratio
        if any(hop.ratio != ratio for hop in path):
            raise Refused(f"{called}: its links have different overheads, and a flow has one burst there")
        assert flow.burst_bytes is not None and flow.rate_bps is not None
        for hop in path:
            last[hop.server] = last.get(hop.server, True) and hop is path[-1]
        flows.append(
            Flow(
                name=called,
                burst_bytes=flow.burst_bytes * ratio,
                rate_bps=flow.rate_bps * ratio,
                largest_bytes=max(hop.largest_bytes for hop in path),
                path=tuple(hop.server for hop in path),
                propagation_s=sum(servers[hop.server].propagation_s for hop in path),
                delay_bound_s=flow.delay_bound_s if end == len(flow.path) else None,
            )
        )
    if not flows:
        raise Refused("no flow can be written: " + "; ".join(lost))
    made = [_server(servers[name], last[name]) for name in _ascending(flows)]
    return Network(name=name, servers=tuple(made), flows=tuple(flows), left_out=tuple(lost))


def _server(server: ServerReport, is_last: bool) -> Server:
    assert server.rate_bps is not None and server.latency_s is not None
    return Server(
        name=server.name,
        rate_bps=server.rate_bps,
        latency_s=server.latency_s,
        largest_bytes=server.largest_bytes,
        link_bps=server.link_bps,
        propagation_s=server.propagation_s,
        is_last=is_last,
    )


def _ends(report: NetworkReport, servers: dict[str, ServerReport]) -> list[int]:
    """Returns the number of servers at the beginning of each path that can be written: those that have a rate for all
    traffic, and flows only that could be written up to there."""
    at: dict[str, list[tuple[FlowReport, int]]] = {}
    for flow in report.flows:
        for place, hop in enumerate(flow.path):
            at.setdefault(hop.server, []).append((flow, place))

    def sound(server: ServerReport) -> bool:
        limited = all(flow.burst_bytes is not None for flow, _ in at.get(server.name, []))
        return limited and server.conforming is None and server.delay_bound_s is not None

    fine = {name: sound(server) for name, server in servers.items()}
    # What is behind a server that is not, is not either.
    changed = True
    while changed:
        changed = False
        for flow in report.flows:
            for before, hop in zip(flow.path, flow.path[1:]):
                if fine[hop.server] and not fine[before.server]:
                    fine[hop.server], changed = False, True

    def end(flow: FlowReport) -> int:
        return next((n for n, hop in enumerate(flow.path) if not fine[hop.server]), len(flow.path))

    return [end(flow) for flow in report.flows]


def _ascending(flows: list[Flow]) -> list[str]:
    """Returns the servers of all paths in an order in which each path ascends."""
    before: dict[str, set[str]] = {name: set() for flow in flows for name in flow.path}
    for flow in flows:
        for first, second in zip(flow.path, flow.path[1:]):
            before[second].add(first)
    order: dict[str, None] = {}
    while len(order) < len(before):
        free = [name for name, first in before.items() if name not in order and first <= order.keys()]
        if not free:
            raise Refused("the routes form a circle")
        order.update(dict.fromkeys(free))
    return list(order)


def _panco(module: str) -> Any:
    try:
        return import_module(f"panco.{module}")
    except ImportError as error:
        if error.name == "numpy":
            raise MissingExtra("numpy", "calculus", "panco") from None
        if error.name is None or error.name.split(".")[0] != "panco":
            raise
        raise ImportError(
            "panco cannot be imported. No package index has it: add the directory above panco/ to PYTHONPATH, from its "
            "own sources or from those of Saihu",
            name="panco",
        ) from None


@contextmanager
def _in_a_directory_of_its_own() -> Iterator[None]:
    """panco writes its programs into the working directory."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            yield
        finally:
            os.chdir(here)
