"""Links: read from files, texts and configurations of other tools, or built by calls."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from . import _engine, _toml, documents
from ._display import class_table, html_table
from ._engine import Demand
from ._errors import Refused, problems_of
from ._results import Check, Diff, Explanation, Fluid, Result, Schedulers
from ._sources import Path, Sourced, text_or_file
from ._tables import Row, flat
from .documents import ProblemReport

Rate: TypeAlias = float | str
"""A rate: a number in bit/s, or a text such as `"10mbit"`."""
Size: TypeAlias = int | str
"""A size: a number of bytes, or a text such as `"1500B"`."""
Time: TypeAlias = float | str
"""A time: a number in seconds, or a text such as `"10ms"`."""
Demands: TypeAlias = str | Mapping[str, Rate] | Sequence[float] | Demand | None
"""Demands of the leaves: `"a=inf,b=3mbit"`, `{"a": inf, "b": 3e6}`, a number for each leaf in the order of the file,
or what `Link.demand` has read. Leaves that are not named have none. `None`: every leaf as much as possible."""



class ClassInfo(NamedTuple):
    """A class of a link."""

    name: str
    """Its name."""
    parent: str | None
    """The class above it; `None` below the link itself."""
    leaf: bool
    """True if no class is below it."""


class Link(Sourced):
    """A link and its classes. It stays read, so that its methods are fast.

    Make one by `from_file`, `from_toml`, `from_tc` and the like, or by `Tree`.

    Attributes:
        imported: What became of another tool's configuration, if the link was imported.
    """

    _link: _engine.Link
    imported: Import | None

    def __init__(self) -> None:
        raise TypeError("make a link by Link.from_file, Link.from_toml, Link.from_tc or Tree(...).link()")

    @classmethod
    def _read(cls, source: _engine.Source, made_of: tuple[str, tuple[Any, ...]]) -> Link:
        link = cls.__new__(cls)
        link._source, link._made_of = source, made_of
        link._link = _engine.Link(source)
        link.imported = None
        return link

    # Configurations of other tools.

    @classmethod
    def from_tc(
        cls, config: Path, *, rate: Rate | None = None, device: str | None = None, as_is: bool = False
    ) -> Link:
        """Imports tc commands, or the output of tc.

        Args:
            config: A file, or a text, which is a `str` with a line break.
            rate: Rate of the link in bit/s, if the configuration does not give it.
            device: The only device to import.
            as_is: Keeps the tool's own way of lending.
        """
        return _only(import_config("tc", config, rate=rate, dev=device, as_is=as_is))

    @classmethod
    def from_libreqos(
        cls,
        config: Path,
        network: Path | None = None,
        *,
        rate: Rate | None = None,
        direction: Literal["down", "up"] = "down",
        weights: Literal["guarantee", "ceiling", "equal"] = "guarantee",
        as_is: bool = False,
    ) -> Link:
        """Imports `ShapedDevices.csv` of LibreQoS, with `network.json` where there is one. See `from_tc`."""
        files = [config] if network is None else [config, network]
        made = import_config("libreqos", *files, rate=rate, direction=direction, weights=weights, as_is=as_is)
        return _only(made)

    @classmethod
    def from_mikrotik(
        cls,
        config: Path,
        *,
        rate: Rate | None = None,
        queues: Literal["tree", "simple"] | None = None,
        parent: str | None = None,
        direction: Literal["down", "up"] = "down",
        weights: Literal["guarantee", "ceiling", "equal"] = "guarantee",
        as_is: bool = False,
    ) -> Link:
        """Imports an export of RouterOS. `queues` is the kind, where the file has both; `parent` an interface or a queue
        of the tree, below which queues are imported. See `from_tc`."""
        return _only(
            import_config(
                "mikrotik",
                config,
                rate=rate,
                queues=queues,
                parent=parent,
                direction=direction,
                weights=weights,
                as_is=as_is,
            )
        )

    @classmethod
    def from_k8s(
        cls, config: Path, *, rate: Rate, node: str | None = None, direction: Literal["down", "up"] = "down"
    ) -> Link:
        """Imports bandwidth annotations of Kubernetes pods, those of `node` where there are several. See `from_tc`."""
        return _only(import_config("k8s", config, rate=rate, node=node, direction=direction))

    @classmethod
    def from_libvirt(
        cls,
        *configs: Path,
        rate: Rate | None = None,
        direction: Literal["down", "up"] = "down",
        as_is: bool = False,
    ) -> Link:
        """Imports XML of libvirt's domains and of their network. See `from_tc`."""
        return _only(import_config("libvirt", *configs, rate=rate, direction=direction, as_is=as_is))

    @classmethod
    def from_pf(
        cls, config: Path, *, rate: Rate | None = None, interface: str | None = None, as_is: bool = False
    ) -> Link:
        """Imports pf.conf with ALTQ, for `interface` alone where there are several. See `from_tc`."""
        return _only(import_config("pf", config, rate=rate, interface=interface, as_is=as_is))

    # What it is.

    @property
    def name(self) -> str | None:
        """Name of the link, if the file has one."""
        return self._link.name

    @property
    def scheduler(self) -> str:
        """Name of the scheduler."""
        return self._link.scheduler

    @property
    def rate_bps(self) -> int:
        """Rate in bit/s."""
        return self._link.rate_bps

    @cached_property
    def classes(self) -> tuple[ClassInfo, ...]:
        """The classes in the order of the file, parents first."""
        return tuple(ClassInfo(*row) for row in self._link.classes())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in the order of `rates`."""
        return tuple(row.name for row in self.classes)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Names of the classes without children, in the order of the file."""
        return tuple(row.name for row in self.classes if row.leaf)

    @cached_property
    def warnings(self) -> tuple[ProblemReport, ...]:
        """Warnings about the tree; `check` has those about a scheduler, too."""
        return problems_of(self._link.warnings())

    def __len__(self) -> int:
        """Number of classes."""
        return len(self._link)

    def to_toml(self, expanded: bool = False) -> str:
        """Returns the link file as it was read, or with templates and tables of classes written out."""
        return self._link.expanded() if expanded else self.text

    # What it does.

    def check(
        self,
        *,
        scheduler: str | None = None,
        lenient: bool = False,
        gateway: bool = False,
        demand: str | None = None,
        packet: str | None = None,
    ) -> Check:
        """Checks the link and computes the bounds that its scheduler promises.

        Args:
            scheduler: The scheduler, instead of the file's own.
            lenient: Warns of settings that the scheduler does not support, instead of refusing them.
            gateway: Names every leaf that no frame can reach.
            demand: Mean rates of latency-critical classes, such as `"voice=64kbit"`, for their mean delay under drr++.
            packet: Mean length of their packets, such as `"200B"`.

        Raises:
            Refused: Errors in the file; settings that the scheduler does not support.
        """
        return Check(self._link.check(scheduler, lenient, gateway, demand, packet))

    def fluid(self, demand: Demands = None, *, fair: bool = False) -> Fluid:
        """Computes the rates in the long run.

        Args:
            demand: What the leaves ask for, in bit/s, as in `Link.demand`.
            fair: Shares by hierarchical max-min fairness instead of the rule of the link's scheduler.

        Raises:
            Refused: A wrong demand.
        """
        return Fluid(self._link.fluid(demand, fair))

    def rates(self, demand: Demands = None) -> array[float]:
        """Returns the rates in the long run in bit/s, class by class as in `names`, without a document.

        They are those of `fluid` with the errors of `float`. `numpy.asarray` takes the array without a copy. For many
        calls with the same demand, read it once with `Link.demand`, which has the forms of a demand.

        Raises:
            Refused: A wrong demand; a scheduler whose rule gives no rates.
        """
        return self._link.rates(demand)

    def demand(self, demand: Demands) -> Demand:
        """Reads demands once, for many calls of `rates` and `fluid` of this link.

        Args:
            demand: In bit/s: a text (`"a=inf,b=3mbit"`), a dict (`{"a": inf, "b": 3e6}`), or a number for each leaf in
                the order of `leaves`. Leaves that are not named ask for nothing. `None`: each asks for all it can get.

        Raises:
            Refused: A wrong demand.
        """
        return self._link.demand(demand)

    def explain(self, name: str, demand: Demands = None, *, step: Rate | None = None) -> Explanation:
        """Explains the rate of a class: reasons, changes that raise it, and what false demands gain.

        Args:
            name: The class.
            demand: What the leaves ask for, in bit/s, as in `Link.demand`.
            step: Size of the changes that are tried, in bit/s; a tenth of the link if it is not given.

        Raises:
            Refused: An unknown class, a wrong demand.
        """
        return Explanation(self._link.explain(name, demand, step))

    def diff(self, other: Link) -> Diff:
        """Compares this link, the old one, with another."""
        if not isinstance(other, Link):
            raise TypeError(f"other: a Link is needed, not {type(other).__name__}")
        return Diff(self._link.diff(other._link))

    def __repr__(self) -> str:
        return f"<Link {self._source.name!r}: {_engine.show_rate(self.rate_bps)}, {len(self)} classes, {self.scheduler}>"

    def _repr_html_(self) -> str:
        try:
            found: Check | Fluid = self.check(lenient=True)
        except Refused:
            found = self.fluid()
        return class_table(found.document["link"], found.problems)


class Import(Result["documents.ImportDocument"]):
    """Links made of another tool's configuration: `fairlink import --json`."""

    _kind = documents.ImportDocument

    @property
    def links(self) -> dict[str, Link]:
        """The links by their names."""
        links: dict[str, Link] = {}
        for file in self.view.files:
            links[file.name.removesuffix(".toml")] = Link.from_toml(file.text, name=file.name)
        for link in links.values():
            link.imported = self
        return links

    @property
    def kept(self) -> list[str]:
        """Settings kept unchanged, in words."""
        return self.view.kept

    @property
    def changed(self) -> list[ProblemReport]:
        """Settings that changed in meaning, at their places."""
        return self.view.changed

    @property
    def left_out(self) -> list[ProblemReport]:
        """Settings that were not translated, at their places."""
        return self.view.left_out

    @property
    def tables(self) -> tuple[str, ...]:
        return ("links", "notes", "rates")

    def table(self, name: str | None = None) -> list[Row]:
        """Returns the rows of `links`, of `notes` (what changed and what was left out), or of `rates`.

        A row of `rates` is a class in a case: `before_bps` in the tool and `after_bps` here, while all classes are busy
        or while the branch `pauses` is idle. There are none without `compare`.
        """
        chosen = self._chosen(name)
        if chosen == "links":
            return [flat(link) for link in self.document["links"]]
        if chosen == "rates":
            return [
                {"link": link["name"], "pauses": case.get("pauses"), "class": one["name"], **_before_after(one)}
                for link in self.document["links"]
                for case in link.get("cases", [])
                for one in case["classes"]
            ]
        changed, left_out = self.document["changed"], self.document["left_out"]
        return [{"outcome": "changed", **note} for note in changed] + [
            {"outcome": "left out", **note} for note in left_out
        ]

    def _repr_html_(self) -> str:
        return html_table(self.table()) + html_table(self.table("notes"))


def _before_after(one: dict[str, Any]) -> Row:
    """Returns the rates of a class before and after; `None` where one is not known."""
    return {key: one.get(key) for key in ("before_bps", "after_bps")}


def _only(made: Import) -> Link:
    """Returns the link of an import that has one."""
    links = made.links
    if len(links) != 1:
        raise Refused(
            f"there are {len(links)} links ({', '.join(links)}): choose one by the device, interface or parent, or take "
            f"all of them with fairlink.import_config({made.view.tool!r}, ...).links"
        )
    return next(iter(links.values()))


def import_config(tool: str, *configs: Path, compare: bool = False, **options: Rate | bool | None) -> Import:
    """Imports the configuration of another tool, whole or not at all.

    Args:
        tool: The tool, as `fairlink import` names it.
        configs: Its files, or texts, which are `str` with a line break.
        compare: Compares the rates of classes before and after, which takes a simulation.
        options: The options of `fairlink import TOOL`, with `_` for `-`: `rate`, in bit/s or with a unit, `direction`,
            `weights`, `as_is` and others. `None` is as if the option were not there.

    Raises:
        OSError: A file cannot be opened.
        Refused: What is wrong with a text, at its place; an option or a value that the tool does not have.
    """
    names = dict(_engine.IMPORTS).get(tool) or [f"text of {tool}"]
    sources = [text_or_file(config, names[min(at, len(names) - 1)]) for at, config in enumerate(configs)]
    return Import(_engine.import_configuration(tool, sources, options, compare))


def schedulers(needs: Sequence[str] = ()) -> Schedulers:
    """Lists the schedulers that have all `needs`, the best choice first; all of them without needs.

    Words are those of `fairlink schedulers --for`: `tree`, `ceilings`, `delay-bound` and so on.

    Raises:
        Refused: A word that is not known; the message has all.
    """
    if isinstance(needs, str):
        raise TypeError(f"needs: a list such as [{needs!r}] is needed, not a str")
    return Schedulers(_engine.schedulers_json(list(needs)))


class Tree:
    """A link that is built by calls.

    ```python
    tree = Tree("100mbit")
    tree.add("voice", guarantee="10mbit", latency_critical=True)
    tree.add("data", guarantee=90e6)
    link = tree.link()
    ```

    Numbers are in bit/s, bytes, seconds and packets; texts have units as in link files.
    """

    def __init__(
        self,
        rate: Rate,
        *,
        scheduler: str | None = None,
        name: str | None = None,
        in_: str | None = None,
        out: str | None = None,
        egress: str | None = None,
        mtu: Size | None = None,
        overhead: Size | None = None,
        gso: Time | None = None,
        cores: int | None = None,
        split: str | None = None,
        hubs: int | None = None,
        default: str | None = None,
        buffer: int | str | None = None,
        when_full: str | None = None,
        rounds: str | None = None,
        memory: Size | None = None,
        transmit_queue: int | str | None = None,
        transmit_priority: bool | None = None,
    ) -> None:
        """Begins a link. The arguments are the keys of `[link]` in a link file (docs/link-files.md has all of each).

        Args:
            rate: Its rate in bit/s.
            scheduler: The scheduler; `hls` if it is not given.
            name: Its name.
            in_: The gateway's interface on which frames arrive.
            out: The gateway's interface on which they leave.
            egress: Instead of both: the interface on which the machine sends its own traffic.
            mtu: Longest accepted frame in bytes.
            overhead: Bytes that the link layer adds to each frame; or `"ethernet"`, `"docsis"`, `"ptm"`, `"atm"`.
            gso: Seconds of a super-frame that are scheduled as one packet; or `"split"`.
            cores: Number of cores that share the link.
            split: How they share it: `"one"`, `"hub"`, `"shared"`.
            hubs: Number of cores that schedule.
            default: The class of frames that no `match` takes.
            buffer: Largest number of packets in all queues together.
            when_full: What is dropped then: `"drop_arrival"` or `"push_out"`.
            rounds: Length of the rounds of HLS: `"short"` or `"long"`.
            memory: Limit in bytes of the memory of the scheduler with its queues.
            transmit_queue: Packets of the queue between the scheduler and the link.
            transmit_priority: Sends packets of latency-critical classes first from it.
        """
        given = {key.rstrip("_"): value for key, value in locals().items() if key != "self"}
        self._link = _table("link", given, _LINK)
        self._classes: list[str] = []

    def add(
        self,
        name: str,
        *,
        parent: str | None = None,
        guarantee: Rate | None = None,
        weight: int | None = None,
        ceiling: Rate | None = None,
        burst: Size | None = None,
        ceiling_burst: Size | None = None,
        priority: int | None = None,
        bounded: bool | None = None,
        isolated: bool | None = None,
        latency_critical: bool | None = None,
        quantum: Size | None = None,
        contract: Mapping[str, Any] | None = None,
        real_time: Mapping[str, Any] | None = None,
        link_share: Mapping[str, Any] | None = None,
        upper_limit: Mapping[str, Any] | None = None,
        max_delay: Time | None = None,
        leaky_bucket: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        buffer: int | str | None = None,
        queue: str | None = None,
        ecn: bool | None = None,
        per: str | None = None,
        hosts: int | None = None,
        match: str | Sequence[str] | None = None,
        pool: str | None = None,
        classid: str | None = None,
    ) -> Tree:
        """Adds a class; a parent comes before its children. Returns the tree, so that calls can be chained.

        Args:
            name: Its name.
            parent: The class above it.
            guarantee: Rate that it always gets, in bit/s; also its weight.
            weight: Instead of a guarantee: a number relative to its siblings, without unit.
            ceiling: The most that it gets, in bit/s.
            burst: Bytes of the bucket of its guarantee.
            ceiling_burst: Bytes of the bucket of its ceiling.
            priority: Its priority, without unit: 0 is served first.
            bounded: CBQ: it does not borrow.
            isolated: CBQ: it neither borrows nor lends.
            latency_critical: Its packets are sent first, within its share.
            quantum: Bytes served in one turn.
            contract: DRR+: `{"bytes": 3000, "every": 1.0}`.
            real_time: H-FSC: its guaranteed service curve, `{"burst": 160, "delay": 0.005, "rate": 64e3}` or
                `{"m1": 6.6e6, "d": 0.01, "m2": 2e6}`.
            link_share: H-FSC: the curve by which siblings share spare bandwidth.
            upper_limit: H-FSC: the curve that it does not exceed.
            max_delay: FQ-LTO: target delay in seconds.
            leaky_bucket: FQ-LTO: `{"burst": 10000, "peak": 2e6, "rate": 1e6}`, or up to 4 of them.
            buffer: Limit of its queue: packets, or a text in bytes or as time.
            queue: Its queue discipline: `fifo`, `codel` or `fq_codel`.
            ecn: Marks packets instead of dropping them.
            per: Hosts or flows that share it equally.
            hosts: Largest number of hosts with a queue of their own.
            match: Frames that belong to it.
            pool: The pool that it borrows from.
            classid: Its number for tc.
        """
        given = {key: value for key, value in locals().items() if key != "self"}
        self._classes.append(_table("[class]", given, _CLASS))
        return self

    def to_toml(self) -> str:
        """Returns the link file."""
        return "\n".join([self._link, *self._classes])

    def link(self, name: str = "tree.toml") -> Link:
        """Reads the link; `name` is that of its text in messages.

        Raises:
            Refused: What is wrong, with its place in `to_toml`.
        """
        return Link.from_toml(self.to_toml(), name)

    def __repr__(self) -> str:
        return f"<Tree of {len(self._classes)} classes>"


_LINK, _CLASS = (dict(keys) for keys in _engine.key_units())


def _table(head: str, given: dict[str, Any], units: dict[str, str]) -> str:
    """Returns a table of TOML with the keys that were given."""
    lines = (f"{key} = {_toml.value(key, value, units[key])}" for key, value in given.items() if value is not None)
    return "\n".join([f"[{head}]", *lines]) + "\n"
