"""Ten networks: our bounds, those of panco, and the longest delays that were simulated.

python compare_calculus.py            prints the table of docs/network-calculus.md
python compare_calculus.py --write    writes it there
python compare_calculus.py --runs 5   simulates each network five times instead of 60
python compare_calculus.py --all      prints all flows instead
python compare_calculus.py --random 2000 --runs 6   compares delays with bounds in random networks instead

The package has to be installed. The columns of panco need panco on PYTHONPATH and lp_solve.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import fairlink
from fairlink import calculus
from fairlink.calculus import Method

DOCS = Path(__file__).resolve().parents[2] / "docs/network-calculus.md"
BEGIN, END = "<!-- made by python/tests/compare_calculus.py -->\n", "<!-- end -->\n"
METHODS: tuple[Method, ...] = ("TFA", "SFA", "PLP", "ELP")
RUNS = 60
MOST_IN_ELP = 4
"""Links of which ELP writes programs that are solved within seconds."""


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
        tighter: "ours", "theirs" or "equal": the tighter bound of the table's flow.
        why: The reason, in one sentence.
        curve: Real-time curve of the flows' class on all links, for H-FSC.
    """

    name: str
    scheduler: str
    links: dict[str, Link]
    flows: tuple[Flow, ...]
    tighter: str = ""
    why: str = ""
    curve: str = ""

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
                lines += ['model = "greedy"', 'packet = "1500B"']
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

    def flow(self, network: calculus.Network) -> calculus.Flow:
        """Returns the flow of the table: flows are in the order of their first links."""
        names = list(self.links)
        order = sorted(self.flows, key=lambda flow: names.index(flow.path[0]))
        return network.flows[next(place for place, flow in enumerate(order) if flow is self.flows[0])]

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
    Case(
        "one link",
        "hls",
        line(count=2),
        (Flow("A", 4, 1), Flow("AB", 4, 1), Flow("A", 2, 1)),
        tighter="ours",
        why="the file charges a packet at the link, for the flow that goes on; the flow of the table ends there",
    ),
    Case(
        "three links",
        "wf2q+",
        line(count=3, propagation="1ms"),
        (Flow("ABC", 8, 2),),
        tighter="equal",
        why="a flow alone has the closed form",
    ),
    Case(
        "eight links, 200 B",
        "hvt",
        line(count=8, share=2, others=(4, 3, 1)),
        (Flow("ABCDEFGH", 10, 1, 200),),
        tighter="equal",
        why="a flow alone has the closed form",
    ),
    Case(
        "four flows, one path",
        "drr",
        line(count=4, share=5),
        (Flow("ABCD", 4, 1), Flow("ABCD", 4, 1), Flow("ABCD", 8, 1, 500), Flow("ABCD", 2, 0.5, 1500)),
        tighter="equal",
        why="flows of one path are one flow, with the closed form",
    ),
    Case(
        "parking lot",
        "hls",
        line(count=4, share=5, others=(3, 2)),
        (Flow("ABCD", 4, 1), *(Flow(name, 6, 1.5, 1500) for name in "ABCD")),
        tighter="ours",
        why="its packets are shorter than the largest of the class, which the file charges at each link",
    ),
    Case(
        "overlapping pairs",
        "scfq",
        line(count=5, share=5),
        (Flow("ABCDE", 4, 1), Flow("AB", 5, 1), Flow("BC", 5, 1), Flow("CD", 5, 1), Flow("DE", 5, 1)),
        tighter="theirs",
        why=(
            "PLP follows the class in FIFO order over all links, so that a burst of others delays once; "
            "we count it at each link that it shares with the flow"
        ),
    ),
    Case(
        "sink tree",
        "wfq",
        {**line(count=4, share=3), "E": Link(10, 6), "F": Link(10, 6), "G": Link(20, 12)},
        (
            Flow("AEG", 6, 1),
            Flow("BEG", 6, 1),
            Flow("CFG", 6, 1, 1500),
            Flow("DFG", 6, 1, 1500),
            Flow("AEG", 3, 1, 400),
        ),
        tighter="theirs",
        why="FIFO order over all links, as before; the rate of the links gives a part",
    ),
    Case(
        "branches",
        "qfq",
        {"A": Link(20, 10), "B": Link(10, 5), "C": Link(10, 5), "D": Link(10, 5), "E": Link(10, 5)},
        (Flow("ABD", 6, 1.5), Flow("ABE", 6, 1.5), Flow("AC", 6, 2), Flow("AC", 6, 2, 500)),
        tighter="theirs",
        why=(
            "FIFO order over its links, which panco keeps together; it cuts paths from A to C, where ours is "
            "tighter"
        ),
    ),
    Case(
        "diamonds",
        "hfsc",
        {**line(count=2, share=6), "C": Link(10, 6), "D": Link(20, 12), "E": Link(20, 12)},
        (
            Flow("ABDE", 5, 1),
            Flow("ACD", 5, 1),
            Flow("AB", 4, 1),
            Flow("CDE", 5, 2, 700),
            Flow("BD", 5, 1, 1400),
        ),
        tighter="theirs",
        why="FIFO order over all links; bursts that meet twice grow with our bounds of the links between",
        curve='{ m1 = "0bit", d = "2ms", m2 = "5mbit" }',
    ),
    Case(
        "cut ring",
        "virtual-clock",
        line(mbit=100, share=30, count=6),
        (
            Flow("BCDE", 5, 6),
            Flow("ABC", 10, 6, 1500),
            Flow("CDE", 20, 6, 300),
            Flow("DEF", 10, 6, 1500),
            Flow("AB", 4, 3),
        ),
        tighter="theirs",
        why="FIFO order over all links; the rate of the links gives a part",
    ),
)


SCHEDULERS = ("hls", "hvt", "drr", "wfq", "wf2q+", "scfq", "sfq", "qfq", "virtual-clock", "rcsp", "sced", "fq-ldf")


def drawn(seed: int) -> Case:
    """Returns a random network."""
    dice = random.Random(seed)
    names = "ABCDE"[: dice.randrange(2, 6)]
    links = {name: Link(dice.choice((10, 20, 50)), 6, propagation=f"{dice.randrange(5)}ms") for name in names}
    flows = []
    for _ in range(dice.randrange(1, 6)):
        path = "".join(name for name in names if dice.random() < 0.6) or dice.choice(names)
        flows.append(Flow(path, dice.randrange(1, 9), dice.choice((0.4, 0.7, 1)), dice.randrange(100, 1500)))
    flows.append(Flow(names, 4, 1))
    return Case(f"random {seed}", SCHEDULERS[seed % len(SCHEDULERS)], links, tuple(flows))


def closest(seeds: range, runs: int) -> dict[str, float]:
    """Returns the largest part of a bound that a packet of a route was delayed in random networks, by scheduler."""
    parts: dict[str, float] = {}
    for seed in seeds:
        case = drawn(seed)
        measured = case.measured(runs)
        for flow in case.network().flows:
            if len(flow.path) > 1:
                part = measured[flow.name] / (flow.delay_bound_s or 0.0)
                parts[case.scheduler] = max(parts.get(case.scheduler, 0.0), part)
    return parts


def theirs(network: calculus.Network) -> dict[Method, dict[str, float]]:
    """Returns panco's bounds in seconds by method and flow, with the limit of the line where a method has it. Methods
    whose programs lp_solve does not solve are absent."""
    found: dict[Method, dict[str, float]] = {}
    for method in METHODS:
        if method == "ELP" and len(network.servers) > MOST_IN_ELP:
            continue
        try:
            found[method] = network.panco(method)
        except RuntimeError as error:
            if "lp_solve failed" not in str(error):
                raise
            print(f"{network.name}: {error}", file=sys.stderr)
    return found


def row(case: Case, runs: int = RUNS) -> str:
    """Returns the row of a network in the manual's table."""
    network = case.network()
    flow = case.flow(network)
    ours = flow.delay_bound_s or 0.0
    foreign = {method: bounds[flow.name] for method, bounds in theirs(network).items()}
    least = min(foreign.values())
    # lp_solve prints few digits.
    same = abs(least - ours) < 1e-4 * ours
    tighter = "equal" if same else "ours" if ours < least else "theirs"
    assert tighter == case.tighter, f"{case.name}: {tighter}, and {case.tighter} is written"
    measured = f"{case.measured(runs)[flow.name] * 1e3:.2f}" if runs else "-"

    def cell(method: Method) -> str:
        return f"{foreign[method] * 1e3:.2f}" if method in foreign else "-"

    links = "".join(sorted(set("".join(flow.path for flow in case.flows))))
    flows = "1 flow" if len(case.flows) == 1 else f"{len(case.flows)} flows"
    name = f"{case.name} ({len(links)} links, {flows})"
    cells = [name, case.scheduler, f"{ours * 1e3:.2f}", *map(cell, METHODS), measured, f"{tighter}: {case.why}"]
    return "| " + " | ".join(cells) + " |\n"


HEAD = """| network | scheduler | ours | TFA | SFA | PLP | ELP | longest simulated | tighter |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def main() -> None:
    """Prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="into docs/network-calculus.md")
    parser.add_argument("--runs", type=int, default=RUNS, help="simulations of each network")
    parser.add_argument("--all", action="store_true", help="prints all flows and methods instead")
    parser.add_argument("--random", type=int, default=0, help="simulates as many random networks instead")
    asked = parser.parse_args()
    if asked.random:
        for scheduler, part in closest(range(asked.random), asked.runs).items():
            print(f"{scheduler}: delays of up to {part:.3f} of a bound")
        return
    if asked.all:
        for case in CASES:
            every(case, asked.runs)
        return
    made = HEAD + "".join(row(case, asked.runs) for case in CASES)
    if not asked.write:
        print(made, end="")
        return
    text = DOCS.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOCS.write_text(before + BEGIN + made + END + after)


def every(case: Case, runs: int) -> None:
    """Prints the bounds of all flows of a network in milliseconds."""
    network = case.network()
    measured = case.measured(runs)
    for flow in network.flows:
        bounds = {"ours": flow.delay_bound_s or 0.0}
        bounds.update({method: found[flow.name] for method, found in theirs(network).items()})
        bounds["simulated"] = measured.get(flow.name, 0.0)
        print(f"{case.name}: {flow.name}:", *(f"{name} {bound * 1e3:.3f}" for name, bound in bounds.items()))


if __name__ == "__main__":
    main()
