"""Ten networks: our bounds, those of panco, and the longest delays that were simulated.

python compare_calculus.py            prints the table of docs/network-calculus.md
python compare_calculus.py --write    writes it there
python compare_calculus.py --runs 5   simulates each network five times instead of 60

The package has to be installed. The columns of panco need panco on PYTHONPATH and lp_solve.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import fairlink
from fairlink import calculus
from fairlink.calculus import Method

DOCS = Path(__file__).resolve().parents[1] / "docs/network-calculus.md"
BEGIN, END = "<!-- made by python/compare_calculus.py -->\n", "<!-- end -->\n"
METHODS: tuple[Method, ...] = ("TFA", "SFA", "PLP", "ELP")
RUNS = 60


@dataclass(frozen=True)
class Link:
    """A link with the class of the flows, and greedy classes beside it.

    Attributes:
        mbit: Rate.
        share: Guarantee of the flows' class.
        others: Guarantees of the other classes.
        propagation: Propagation delay.
    """

    mbit: float
    share: float
    others: tuple[float, ...] = ()
    propagation: str = "0s"

    def classes(self, own: str) -> list[str]:
        """The classes, in the form of a peer or of the scenario's own link."""
        rest = self.others or (self.mbit - self.share,)
        return [f'{{ name = "flows", guarantee = "{self.share}mbit", buffer = "9000p"{own} }}'] + [
            f'{{ name = "rest {number}", guarantee = "{mbit}mbit" }}' for number, mbit in enumerate(rest)
        ]


@dataclass(frozen=True)
class Flow:
    """A source: links that it crosses, burst in packets, rate, packet length."""

    path: str
    burst: float
    mbit: float
    packet: int = 1000


@dataclass(frozen=True)
class Case:
    """A network. The first flow is the one of the table.

    Attributes:
        name: Its name.
        scheduler: Scheduler of all links.
        links: Links by names of one letter; the first is the scenario's own.
        flows: Flows.
        why: One sentence: which bound is tighter, and why.
        curve: Real-time curve of the flows' class on all links, for H-FSC.
    """

    name: str
    scheduler: str
    links: dict[str, Link]
    flows: tuple[Flow, ...]
    why: str
    curve: str = ""
    others_packet: int = 1500
    results: dict[str, float] = field(default_factory=dict, compare=False)

    def scenario(self, seed: int = 0) -> str:
        """Returns the scenario. With a seed, each flow sends its bursts at other times; with 0, all at once."""
        dice = random.Random(seed)
        names = list(self.links)
        own = f", real_time = {self.curve}" if self.curve else ""
        lines = ['duration = "3s"', f'propagation = "{self.links[names[0]].propagation}"']
        for name, link in self.links.items():
            if name == names[0]:
                lines += [f'link.rate = "{link.mbit}mbit"', f'link.scheduler = "{self.scheduler}"']
                lines += ["class = [" + ", ".join(link.classes(own)) + "]"]
        for name, link in self.links.items():
            if name != names[0]:
                lines += ["[[peer]]", f'name = "{name}"', f'propagation = "{link.propagation}"']
                lines += [f'link.rate = "{link.mbit}mbit"', "class = [" + ", ".join(link.classes(own)) + "]"]
        for name, link in self.links.items():
            for number in range(len(link.others or (0,))):
                lines += ["[[source]]", f'class = "rest {number}"']
                lines += [f'link = "{name}"'] * (name != names[0])
                lines += ['model = "greedy"', f'packet = "{self.others_packet}B"']
        for flow in self.flows:
            lines += ["[[source]]", 'class = "flows"', f'packet = "{flow.packet}B"']
            lines += [f'link = "{flow.path[0]}"'] * (flow.path[0] != names[0])
            hops = ", ".join(f'"{name}:flows"' for name in flow.path[1:])
            lines += [f"route = [{hops}]"] * (len(flow.path) > 1)
            lines += [f'shape = {{ burst = "{flow.burst * flow.packet:.0f}B", rate = "{flow.mbit}mbit" }}']
            start = dice.randrange(60_000) if seed else 0
            lines += [f'active = ["{start}us..3s"]'] * (start > 0)
            if seed % 3 == 2:
                off = dice.randrange(20, 200)
                lines += ['model = "on_off"', f'on = "{dice.randrange(2, 60)}ms"', f'off = "{off}ms"']
                lines += [f'rate = "{self.links[flow.path[0]].mbit}mbit"']
            else:
                lines += ['model = "greedy"']
        return "\n".join(lines) + "\n"

    def network(self) -> calculus.Network:
        """Our bounds."""
        return calculus.network(self.scenario(), name=self.name)

    def measured(self, runs: int = RUNS) -> dict[str, float]:
        """Returns the longest delay of each route in seconds, over this many runs; of flows without a route, that of
        the class on their link."""
        worst: dict[str, float] = {}
        for seed in range(runs):
            found = fairlink.simulate(self.scenario(seed), seed=seed + 1).document["runs"][0]
            counted: dict[str, int] = {}
            routes = [(route["name"], route["delay_s"], route["dropped_packets"]) for route in found["routes"]]
            classes = [(row["name"], row["delay_s"], 0) for row in found["link"]["classes"] if "flows" in row["name"]]
            for name, delays, dropped in routes + classes:
                assert dropped == 0, f"{self.name}: {name} lost packets"
                counted[name] = counted.get(name, 0) + 1
                called = name if counted[name] == 1 else f"{name} #{counted[name]}"
                worst[called] = max(worst.get(called, 0.0), delays.get("max") or 0.0)
        return worst


def line(mbit: float = 10, share: float = 4, count: int = 3, **more: object) -> dict[str, Link]:
    """Equal links in a row: A, B, ..."""
    return {chr(ord("A") + n): Link(mbit, share, **more) for n in range(count)}  # type: ignore[arg-type]


CASES: tuple[Case, ...] = (
    Case("one link", "hls", line(count=2), (Flow("A", 4, 1), Flow("AB", 4, 1), Flow("A", 2, 1)), ""),
    Case("three links", "wf2q+", line(count=3, propagation="1ms"), (Flow("ABC", 8, 2),), ""),
    Case("eight links, 200 B", "hvt", line(count=8, share=2, others=(4, 3, 1)), (Flow("ABCDEFGH", 10, 1, 200),), ""),
    Case(
        "four flows, one path",
        "drr",
        line(count=4, share=5),
        (Flow("ABCD", 4, 1), Flow("ABCD", 4, 1), Flow("ABCD", 8, 1, 500), Flow("ABCD", 2, 0.5, 1500)),
        "",
    ),
    Case(
        "parking lot",
        "hls",
        line(count=4, share=5, others=(3, 2)),
        (Flow("ABCD", 4, 1), *(Flow(name, 6, 1.5, 1500) for name in "ABCD")),
        "",
    ),
    Case(
        "overlapping pairs",
        "scfq",
        line(count=5, share=5),
        (Flow("ABCDE", 4, 1), Flow("AB", 5, 1), Flow("BC", 5, 1), Flow("CD", 5, 1), Flow("DE", 5, 1)),
        "",
    ),
    Case(
        "sink tree",
        "wfq",
        {**line(count=4, share=3), "E": Link(10, 6), "F": Link(10, 6), "G": Link(20, 12)},
        (Flow("AEG", 6, 1), Flow("BEG", 6, 1), Flow("CFG", 6, 1, 1500), Flow("DFG", 6, 1, 1500), Flow("AEG", 3, 1, 400)),
        "",
    ),
    Case(
        "branches",
        "qfq",
        {"A": Link(20, 10), "B": Link(10, 5), "C": Link(10, 5), "D": Link(10, 5), "E": Link(10, 5)},
        (Flow("ABD", 6, 1.5), Flow("ABE", 6, 1.5), Flow("AC", 6, 2), Flow("AC", 6, 2, 500)),
        "",
    ),
    Case(
        "diamonds",
        "hfsc",
        {**line(count=2, share=6), "C": Link(10, 6), "D": Link(20, 12), "E": Link(20, 12)},
        (Flow("ABDE", 5, 1), Flow("ACD", 5, 1), Flow("AB", 4, 1), Flow("CDE", 5, 2, 700), Flow("BD", 5, 1, 1400)),
        "",
        curve='{ m1 = "0bit", d = "2ms", m2 = "5mbit" }',
    ),
    Case(
        "cut ring",
        "virtual-clock",
        line(mbit=100, share=30, count=6),
        (Flow("BCDE", 5, 6), Flow("ABC", 10, 6, 1500), Flow("CDE", 20, 6, 300), Flow("DEF", 10, 6, 1500), Flow("AB", 4, 3)),
        "",
    ),
)


def theirs(network: calculus.Network) -> dict[str, dict[str, float]]:
    """Returns panco's bounds by method and flow; a method ends in `/` with the limit of the line."""
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        for shaping in (False, True):
            if method == "SFA" and shaping:
                continue
            found[method + "/" * shaping] = network.panco(method, shaping)
    return found


def main() -> None:
    """Prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    asked = parser.parse_args()
    for case in CASES:
        network = case.network()
        measured = case.measured(asked.runs)
        foreign = theirs(network)
        for flow in network.flows:
            print(
                f"{case.name:22} {case.scheduler:8} {flow.name[:34]:34} ours {flow.delay_bound_s * 1e3:8.3f}",
                *(f"{method} {bounds[flow.name] * 1e3:.3f}" for method, bounds in foreign.items()),
                f"measured {measured.get(flow.name, 0) * 1e3:.3f}",
            )


if __name__ == "__main__":
    sys.exit(main())
