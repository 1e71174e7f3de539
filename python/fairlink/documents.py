"""Views of the documents of fairlink: a dataclass for each object of the JSON schema.

Made by python/generate.py from the schemas of documents of the commands; do not edit. Keys end in their units: `_bps` is bit/s of
accounted bytes, `_s` seconds, `_bytes` bytes. A value that a document lacks was not measured or computed; it is `None`
here, as one that is known to be none. `Result.document` keeps the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ._view import View

SpanKind = Literal["interval", "phase", "window"]
"""The kind of a span.

- `"interval"`: The time between two observations of a running link.
- `"phase"`: The time between two changes of the link or of a source's activity in a simulation.
- `"window"`: A part of a time series."""
LimitCause = Literal["demand", "ceiling", "parent", "link", "pool", "processor"]
"""The reason why a class got no more.

- `"demand"`: The class requested no more.
- `"ceiling"`: A limit of the class itself: a ceiling, an upper limit, a rate beyond which it may not borrow.
- `"parent"`: The class above it has no more to share.
- `"link"`: The link has no more to share.
- `"pool"`: The pool that it shares with classes of other links has no more.
- `"processor"`: The data thread or the output was late, so that link time was lost."""
Severity = Literal["error", "warning"]
"""Severity of a problem.

- `"error"`: The text is refused.
- `"warning"`: The text is usable all the same."""
MethodReport = Literal["each_link", "bursts_once"]
"""The analysis that gives a bound.

- `"each_link"`: The sum of the delay bounds of the links.
- `"bursts_once"`: The service of all links together, where the burst counts once."""
DiffKind = Literal["new", "gone", "changed", "affected"]
"""The state of a link or a class in the new file.

- `"new"`: Only the new file has it.
- `"gone"`: Only the old file has it.
- `"changed"`: Both have it, and keys differ.
- `"affected"`: Both have it with the same keys, and it is given something else."""
Setting = int | float | str
"""A value of a key that a sweep sets: in base units if it is a number with or without a unit, otherwise as written."""
Unit = Literal["B", "s", "bit/s", "packets", "part", "times", "count", ""]
"""The unit of a number. JSON has it in the base unit.

- `"B"`: Bytes.
- `"s"`: Seconds.
- `"bit/s"`: Bits per second.
- `"packets"`: Packets.
- `"part"`: A part of something: 0.02 is 2 %.
- `"times"`: A number of times: one quantity over another.
- `"count"`: A number of things.
- `""`: A number without unit."""
Verdict = Literal["shown", "agrees", "explained", "weaker", "undecided", "disagrees"]
"""The verdict on a comparison.

- `"shown"`: No claim: shown for the reader.
- `"agrees"`: Agrees with the paper.
- `"explained"`: Differs from the paper, for the row's reason, by the amount that the reason predicts.
- `"weaker"`: The direction is the paper's, but the size is less than in its sentence.
- `"undecided"`: The confidence interval of the quantity spans its criterion: values at its ends would be judged
  otherwise.
- `"disagrees"`: Disagrees with the paper."""


@dataclass(frozen=True, kw_only=True, repr=False)
class CheckDocument(View):
    """The document of `check`.

    Attributes:
        valid: True; that of a file that is refused is `RefusedDoc`.
        link: The link with its bounds; its notes give the reasons for absent numbers.
        theorems: Theorems as the texts print them, and values that depend on curves and load.
        unreachable: The leaves that no frame can reach; the shares are those while they are idle.
        problems: Warnings.
        admission: Absent if no service curves are to be guaranteed.
        flood: Delay of a frame in the gateway while other frames flood it. Absent without `--gateway`.
        gateway_bps: Capacity of the gateway on this machine in bit/s. Absent if it was not measured.
        longest_piece_bytes: Longest piece of a super-frame that is scheduled as one packet, in accounted bytes.
            Bounds are for packets of this length. Absent if there is none.
        network: Bounds over several links, of a scenario with routes.
        on_cores: The bounds on several cores, if several share the link.
        shorter_delays: A scheduler with the same shares and shorter delay bounds, if those of some leaves are
            long.
    """

    valid: Literal[True]
    link: LinkReport
    theorems: Theorems
    unreachable: list[str]
    problems: list[ProblemReport]
    admission: Admission | None = None
    flood: Flood | None = None
    gateway_bps: int | None = None
    longest_piece_bytes: int | None = None
    network: NetworkReport | None = None
    on_cores: OnCores | None = None
    shorter_delays: ShorterDelays | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkReport(View):
    """A link. `C` is the list of its classes: a vector, or a list that is written one by one. `X` is an object with
    additional keys of one producer, beside the link's own.

    Attributes:
        classes: The classes, parents before their children.
        bounds: Bounds that the scheduler promises.
        capacity_bps: Its rate in bit/s; if it changes, the first. Absent if it is unknown.
        counters: Counters of the scheduler for the link by name, such as rounds.
        counts: Packets and bytes of all classes since the start.
        delay_s: Delays of all sent packets.
        memory_bytes: Most bytes that the scheduler takes with its queues.
        name: Its name. Absent if it has none.
        notes: Reasons for absent numbers, and other remarks.
        rates: Rates over the whole measurement.
        scheduler: Its scheduler. Absent if it is unknown.
        spans: Spans of time.
        utilisation: Share of the measured time in which the link was sending.
    """

    classes: list[ClassReport]
    bounds: LinkBounds | None = None
    capacity_bps: int | None = None
    counters: dict[str, int] | None = None
    counts: Counts | None = None
    delay_s: Delay | None = None
    memory_bytes: int | None = None
    name: str | None = None
    notes: list[str] | None = None
    rates: Rates | None = None
    scheduler: str | None = None
    spans: list[Span] | None = None
    utilisation: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassReport(View):
    """A class: its position in the tree, its terms, and its measurements. An inner class has the sums of its leaves.

    Attributes:
        name: Its name.
        parent: The class above it; `None` directly below the link.
        leaf: True for a class with packets of its own. Sums over leaves count each packet once.
        bounds: Bounds that the scheduler promises.
        classid: Its handle in the kernel, such as `1:2`.
        counters: Counters of the scheduler for this class by name, such as `borrowed_bytes`.
        counts: Packets and bytes since the start.
        delay_s: Delays of sent packets.
        ideal: The fluid ideal for a demand.
        lost_at_source_packets: Packets that shapers and policers dropped before they were offered. Absent
            without any.
        rates: Rates over the whole measurement.
        terms: Its configured terms.
    """

    name: str
    parent: str | None
    leaf: bool
    bounds: ClassBounds | None = None
    classid: str | None = None
    counters: dict[str, int] | None = None
    counts: Counts | None = None
    delay_s: Delay | None = None
    ideal: Ideal | None = None
    lost_at_source_packets: int | None = None
    rates: Rates | None = None
    terms: Terms | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassBounds(View):
    """Bounds that a scheduler promises to a class. Bounds that are not promised or not computed are absent, except
    `delay_bound_s`.

    Attributes:
        delay_bound_s: Longest delay of a packet in seconds, for traffic within `delay_bound_for`; `None` if
            none is promised.
        delay_bound_for: Traffic that the delay bound holds for: all of these limits. Absent if it is not given.
        fairness_bytes: Maximum deviation of the class from its part of a sibling's service while both stay
            backlogged, in bytes.
        fairness_s: The same as time at the class's rate when all are busy, in seconds.
        hosts_apart_bytes: Maximum difference in service of two backlogged hosts of the leaf, in bytes.
        transmission_gap_s: Longest wait of a backlogged leaf for its next visit, if a ceiling makes it longer
            than the link's.
        weight: Weight that the scheduler runs with, in its own unit: bytes for hls.
        weight_error: Relative error of the share that this weight gives.
        worst_case_bytes: Maximum lag of a backlogged class behind its share of the link's service, in bytes.
    """

    delay_bound_s: float | None
    delay_bound_for: list[TrafficLimit] | None = None
    fairness_bytes: float | None = None
    fairness_s: float | None = None
    hosts_apart_bytes: int | None = None
    transmission_gap_s: float | None = None
    weight: float | None = None
    weight_error: float | None = None
    worst_case_bytes: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class TrafficLimit(View):
    """A limit of traffic that a delay bound holds for. One of: Token bucket: at most `burst_bytes` plus `rate_bps` in
    any time. At most `bytes` in any time of `every_s`. At most `packets` in any time of `every_s`. Packets of at
    most `largest_bytes`, `min_gap_s` apart, and `mean_gap_s` apart on average over any `every_s`. Traffic that
    comes over a line of this rate.

    Attributes:
        burst_bytes: Burst in bytes.
        rate_bps: Rate in bit/s.
        bytes: Bytes.
        every_s: Length of the window in seconds.
        packets: Packets.
        min_gap_s: Smallest gap in seconds.
        mean_gap_s: Mean gap in seconds.
        largest_bytes: Largest packet in bytes.
        line_bps: Rate in bit/s.
    """

    burst_bytes: int | None = None
    rate_bps: int | None = None
    bytes: int | None = None
    every_s: float | None = None
    packets: int | None = None
    min_gap_s: float | None = None
    mean_gap_s: float | None = None
    largest_bytes: int | None = None
    line_bps: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Counts(View):
    """Packets and accounted bytes of a class or a link: received = sent + dropped + queued. In a `Span` all but
    `queued` are those of the span, and `queued` is the queue at its end.

    Attributes:
        received: Arrived.
        sent: Given to the link.
        dropped: Dropped, for all causes.
        marked: Marked as having met congestion (CE). These are also sent, dropped or queued.
        queued: Queued.
        dropped_by: Dropped, by cause. Absent if the causes are not counted.
    """

    received: Amount
    sent: Amount
    dropped: Amount
    marked: Amount
    queued: Amount
    dropped_by: ByCause | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Amount(View):
    """Packets and their accounted bytes.

    Attributes:
        packets: Packets.
        bytes: Their accounted bytes.
    """

    packets: int
    bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class ByCause(View):
    """Dropped packets and bytes by cause; only causes that have occurred.

    Attributes:
        checksum: Dropped: checksum cannot be computed.
        class_removed: Dropped: class removed.
        congestion: Dropped: congestion.
        joined: Dropped: joined by an offload and cannot be split.
        not_a_leaf: Dropped: not a leaf class.
        purged: Dropped: purged.
        pushed_out: Dropped: pushed out of the longest queue.
        queue_bytes: Dropped: queue full (bytes).
        queue_packets: Dropped: queue full (packets).
        refused_by_interface: Dropped: refused by the interface.
        runt: Dropped: no whole Ethernet header.
        shed: Dropped: shed: arrivals faster than the processor.
        shed_early: Dropped: shed before they were fetched.
        stale: Dropped: held while the gateway paused.
        too_long: Dropped: longer than the mtu.
        total_packets: Dropped: all queues full.
    """

    checksum: Amount | None = None
    class_removed: Amount | None = None
    congestion: Amount | None = None
    joined: Amount | None = None
    not_a_leaf: Amount | None = None
    purged: Amount | None = None
    pushed_out: Amount | None = None
    queue_bytes: Amount | None = None
    queue_packets: Amount | None = None
    refused_by_interface: Amount | None = None
    runt: Amount | None = None
    shed: Amount | None = None
    shed_early: Amount | None = None
    stale: Amount | None = None
    too_long: Amount | None = None
    total_packets: Amount | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Delay(View):
    """Delays in seconds. Statistics that were not recorded are absent; without packets all are.

    Attributes:
        packets: Number of packets measured.
        max: Longest, in seconds.
        mean: Mean, in seconds.
        min: Shortest, in seconds.
        p50: Median, in seconds.
        p99: 99th percentile, in seconds.
        p999: 99.9th percentile, in seconds.
    """

    packets: int
    max: float | None = None
    mean: float | None = None
    min: float | None = None
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Ideal(View):
    """The rate of a class in the fluid ideal for a demand.

    Attributes:
        request_bps: Requested rate in bit/s; `None` for unlimited demand.
        allocation_bps: Allocated rate in bit/s.
        satisfied: True if the class's request is met.
        limited_by: The class whose capacity limits it, `link` for the link; `None` if there is none.
        exact_bps: The same without rounding, as a fraction of whole numbers. Absent if rates are computed in
            floating point.
    """

    request_bps: int | None
    allocation_bps: float
    satisfied: bool
    limited_by: str | None
    exact_bps: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Rates(View):
    """Rates in bit/s of accounted bytes. A rate that was not measured or computed is absent.

    Attributes:
        demand_bps: Demand: the backlog at the beginning and the arrivals, without packets that no scheduler
            could have sent.
        fair_bps: Hierarchical max-min fair rate for the demand.
        ideal_bps: Long-run rate for the demand by the scheduler's own rule. If it is absent, the notes of the
            link give the reason.
        rate_bps: Sent.
        settled_bps: Sent after the settling time of a phase.
    """

    demand_bps: float | None = None
    fair_bps: float | None = None
    ideal_bps: float | None = None
    rate_bps: float | None = None
    settled_bps: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Terms(View):
    """The terms that a class is configured with.

    Attributes:
        guarantee_bps: Guaranteed rate in bit/s; `None` if the class has none.
        weight: Configured weight; `None` if the share is a guarantee.
        ceiling_bps: Highest rate in bit/s; `None` if the class has no ceiling.
        share_all_busy_bps: Rate in bit/s while every leaf is greedy, rounded down. Absent if it is not
            computed.
    """

    guarantee_bps: int | None
    weight: int | None
    ceiling_bps: int | None
    share_all_busy_bps: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkBounds(View):
    """Bounds that a scheduler promises for the whole link. Bounds that are not promised are absent.

    Attributes:
        fairness_between: The siblings for which `fairness_s` is largest.
        fairness_bytes: Definition 1 of [hls], with the weights as run.
        fairness_s: The same as time at the guarantee, in seconds.
        longest_round_s: Longest round, as in Table II of [hls].
        next_packet_of: The leaf with that wait.
        next_packet_s: Longest wait of a backlogged leaf until its next packet leaves, from any instant on.
            Excludes leaves below ceilings.
        transmission_gap_s: Longest wait of a backlogged leaf for its next visit.
    """

    fairness_between: list[str] | None = None
    fairness_bytes: float | None = None
    fairness_s: float | None = None
    longest_round_s: float | None = None
    next_packet_of: str | None = None
    next_packet_s: float | None = None
    transmission_gap_s: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Span(View):
    """A span of time.

    Attributes:
        kind: Its kind.
        start_s: Its start in seconds since the link began to work.
        end_s: Its end in seconds since the link began to work.
        classes: The classes, in the order of the link's. A class without a measurement in the span is absent.
        counts: Packets and bytes of the whole link.
        delay_s: Delays of all packets that left.
        forfeited_s: Lost link time in seconds beyond the part that is made up for.
        limit: The reason.
        limited_by: The class whose limit it is, `link` for the link; `None` if no class limits it.
        limited_for_s: Time for which the limit has lasted, in seconds, as far as it was observed.
        pauses: Number of times that the data thread did not run for more than 300 ms.
        rates: Rates of the whole link.
    """

    kind: SpanKind
    start_s: float
    end_s: float
    classes: list[ClassSpan]
    counts: Counts | None = None
    delay_s: Delay | None = None
    forfeited_s: float | None = None
    limit: LimitCause | None = None
    limited_by: str | None = None
    limited_for_s: float | None = None
    pauses: int | None = None
    rates: Rates | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassSpan(View):
    """A class in a span.

    Attributes:
        name: Its name.
        rates: Rates of the span.
        counts: Packets and bytes of the span.
        delay_s: Delays of packets that left in the span.
        dropped_packets: Packets dropped, if their bytes are not counted.
        limit: The reason.
        limited_by: The class whose limit it is, `link` for the link; `None` if no class limits it.
        limited_for_s: Time for which the limit has lasted, in seconds, as far as it was observed.
        queue_packets: Length of its queue.
    """

    name: str
    rates: Rates
    counts: Counts | None = None
    delay_s: Delay | None = None
    dropped_packets: int | None = None
    limit: LimitCause | None = None
    limited_by: str | None = None
    limited_for_s: float | None = None
    queue_packets: QueueLength | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class QueueLength(View):
    """Length of a queue over a window, in packets.

    Attributes:
        mean: Mean over time, in packets.
        max: Longest, in packets.
    """

    mean: float
    max: float


@dataclass(frozen=True, kw_only=True, repr=False)
class Theorems(View):
    """Theorems beside the bounds.

    Attributes:
        as_printed: Theorems that do not hold as printed.
        deadlines_missed_by_s: By how much a deadline is missed at most.
        inner_curves: Inner classes whose curve is not always met; absent if the scheduler has none.
        mean_delays: Of latency-critical classes, if a load was given.
        virtual_times: Absent if the scheduler has no virtual times.
    """

    as_printed: list[AsPrinted] | None = None
    deadlines_missed_by_s: float | None = None
    inner_curves: list[InnerCurve] | None = None
    mean_delays: list[MeanDelayEstimate] | None = None
    virtual_times: VirtualTimes | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class AsPrinted(View):
    """A theorem as printed in its text, if it does not hold as printed.

    Attributes:
        theorem: Its name.
        quantity: `fairness_bytes`, `transmission_gap_s` or `delay_s`.
        class_: Of which class; `None` for the link.
        value: The value, in the unit of the quantity.
        caution: The reason why it does not hold as printed.
    """

    theorem: str
    quantity: str
    class_: str | None
    value: float
    caution: str


@dataclass(frozen=True, kw_only=True, repr=False)
class InnerCurve(View):
    """An inner class whose curve is not always met.

    Attributes:
        class_: Its name.
        from_s: Earliest time of a shortfall, in seconds after it gets packets.
        short_by_bytes: `None` if it grows without limit.
        at_s: When it is short by so much, in seconds after it gets packets.
        at_most_bytes: Upper bound under any arrivals, including link-sharing; `None` without a bound.
    """

    class_: str
    from_s: float
    short_by_bytes: float | None
    at_s: float
    at_most_bytes: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class MeanDelayEstimate(View):
    """The mean delay of a latency-critical class under a load, [drrpp] Theorem 1.

    Attributes:
        class_: Its name.
        load: The part of its rate that the class uses while all classes have packets.
        round_bytes: Bytes of a round.
        packets_per_round: Number of packets of the class in a round.
        mean_delay_s: Absent if its error is unknown; `why_none` has the reason.
        times_too_long: By which factor the theorem is too long, at least and at most.
        why_none: Reason for no estimate.
    """

    class_: str
    load: float
    round_bytes: float
    packets_per_round: int
    mean_delay_s: float | None = None
    times_too_long: list[Any] | None = None
    why_none: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class VirtualTimes(View):
    """Largest difference of the virtual times of siblings, [hfsc] Theorem 3.

    Attributes:
        bound_s: The largest difference of children of one class; `None` if there is no bound.
        class_: The parent of these children, or the class that prevents a bound.
        why_none: Reason for no bound.
        why_useless: Reason for a bound that is too long to be of use.
    """

    bound_s: float | None
    class_: str
    why_none: str | None
    why_useless: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ProblemReport(View):
    """One problem.

    Attributes:
        severity: Severity.
        code: The kind of problem in one word, such as `unknown_key`.
        message: The message.
        help: The remedy; `None` if none is known.
        column: Column in characters, from 1.
        file: Name of the text. Absent if the error is not in a text.
        length: Length of the place in characters.
        line: Line, from 1. Absent, as are the next two, if the problem concerns the whole text.
    """

    severity: Severity
    code: str
    message: str
    help: str | None
    column: int | None = None
    file: str | None = None
    length: int | None = None
    line: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Admission(View):
    """True if the link can guarantee the service curves that its classes ask for, [hfsc] Section 2.1.

    Attributes:
        admitted: True if it can.
        fails_at_s: After how many seconds all classes together ask for more than the link carries, if all
            become backlogged at once; `None` for never.
    """

    admitted: bool
    fails_at_s: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Flood(View):
    """Limits of what a flood does to a frame of another class in the gateway.

    Attributes:
        frames: Number of frames that may be in front of it until it is classified.
        by_class: True if the kernel drops by class what is more than the gateway fetches; else it drops frames
            of any class.
        delay_s: Time for these at the measured capacity, in seconds. Absent if that was not measured.
        why_not: The reason, if it does not drop by class.
    """

    frames: int
    by_class: bool
    delay_s: float | None = None
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class NetworkReport(View):
    """The classes that a scenario's sources cross, and bounds over all links of each source's route. By network
    calculus: `fairlink_theory::network`.

    Attributes:
        servers: Classes on links, in the order of the links.
        flows: Sources, in the order of their links; those without a route cross one class.
    """

    servers: list[ServerReport]
    flows: list[FlowReport]


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerReport(View):
    """A class on a link as a server.

    Attributes:
        name: Its name as in routes: `CLASS` of the scenario's own link, `PEER:CLASS` of another.
        link_bps: Rate of the link in bit/s.
        propagation_s: Propagation delay of the link in seconds.
        largest_bytes: Largest packet of its flows in accounted bytes.
        conforming: Traffic that rate and latency hold for, if they hold for no other: a packet then leaves
            within burst / rate + latency. Absent if they hold for all traffic.
        delay_bound_s: Longest delay of a packet here in seconds, for the traffic that arrives. Absent if there
            is no bound.
        latency_s: Latency at that rate in seconds.
        rate_bps: Guaranteed rate in bit/s, with `latency_s`: the n-th packet of l bits leaves by f_n + latency,
            where f_n is max(arrival, f_(n-1)) + l / rate. Absent if the scheduler promises none.
    """

    name: str
    link_bps: int
    propagation_s: float
    largest_bytes: int
    conforming: Conforming | None = None
    delay_bound_s: float | None = None
    latency_s: float | None = None
    rate_bps: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Conforming(View):
    """A token bucket in accounted bytes.

    Attributes:
        burst_bytes: Largest burst in bytes.
        rate_bps: Highest rate in bit/s.
    """

    burst_bytes: float
    rate_bps: float


@dataclass(frozen=True, kw_only=True, repr=False)
class FlowReport(View):
    """A source and its route.

    Attributes:
        name: The classes of its route, as in the report of a simulation; one class if it has no route.
        path: The servers that it crosses, in order.
        burst_bytes: Burst of its arrival curve in bytes of frames without overhead. Absent if no curve limits
            it.
        delay_bound_s: Longest time in seconds from the arrival at the first link to that at the far end of the
            last, with the propagation of all links, while no packet is dropped. Absent if there is no bound.
        method: `bursts_once` if the service of all links together gives the bound, `each_link` if it is the sum
            of the bounds of the links. Absent without a bound.
        rate_bps: Rate of that curve in bit/s.
        why_not: The reason, if there is no bound.
    """

    name: str
    path: list[HopReport]
    burst_bytes: float | None = None
    delay_bound_s: float | None = None
    method: MethodReport | None = None
    rate_bps: float | None = None
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class HopReport(View):
    """A server on the path of a flow.

    Attributes:
        server: Name of the server.
        ratio: Accounted bytes for each byte of a frame; 1 without an overhead.
        largest_bytes: Largest packet of the flow in accounted bytes.
        burst_bytes: Burst of the flow as it arrives here, in accounted bytes. Absent if it is not bounded.
    """

    server: str
    ratio: float
    largest_bytes: int
    burst_bytes: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class OnCores(View):
    """The bounds of a link on several cores.

    Attributes:
        cores: Number of cores.
        split: The way in which they share the link.
        exact: True if packets leave in the order of one scheduler, whose bounds then hold.
        pass_s: Longest time between two passes of a core, in seconds.
        notes: Conditions, and reasons for absent numbers.
        classes: By class, in the order of the file. Empty where there are no such bounds.
        hub_keeps_up_from_bytes: Mean length of packets, in accounted bytes, from which one hub keeps up with
            the full link. Absent if the time of a packet was not given, and where no hub is compared.
        hubs: Number of hubs, if several share the link.
        interface_bytes: Most bytes in the network interface. Absent if nothing bounds it.
        ring_delay_s: The time that these packets take, in seconds. Absent if the time of a packet was not
            given.
        ring_packets: With a hub that keeps up: most packets that it handles from the time at which a packet is
            pushed into a receive ring to the time at which it is in a transmit ring, without its wait in the
            scheduler.
    """

    cores: int
    split: str
    exact: bool
    pass_s: float
    notes: list[str]
    classes: list[ClassOnCores] | None = None
    hub_keeps_up_from_bytes: int | None = None
    hubs: int | None = None
    interface_bytes: int | None = None
    ring_delay_s: float | None = None
    ring_packets: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassOnCores(View):
    """The bounds of a class on several cores.

    Attributes:
        name: Its name.
        delay_bound_s: Of a leaf: longest delay of a packet, in seconds, while it sends no more than its
            guarantee and one largest packet.
        fairness_bytes: Most bytes by which its service differs from that of a sibling, in proportion to their
            weights, in any time in which both are on: they have packets and do not wait for what they have sent
            out of turn. Absent without siblings, and where a ceiling may hold either back.
        guarantee_lag_bytes: Of a leaf: the bytes by which what the link carries of it may be below its
            guarantee, in any time in which it has packets and the classes above it are on.
    """

    name: str
    delay_bound_s: float | None = None
    fairness_bytes: float | None = None
    guarantee_lag_bytes: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ShorterDelays(View):
    """A scheduler that shares as the link's does, and has shorter delay bounds.

    Attributes:
        scheduler: Its name.
        leaves: Leaves with a delay bound of more than three of the link's largest packets at their rates, and a
            shorter one under it.
        class_: Of these, the leaf whose bound becomes shortest in proportion.
        delay_bound_s: Its delay bound in seconds.
        shorter_s: That under the other scheduler.
    """

    scheduler: str
    leaves: int
    class_: str
    delay_bound_s: float
    shorter_s: float


@dataclass(frozen=True, kw_only=True, repr=False)
class DiffDocument(View):
    """Two files compared.

    Attributes:
        same: True if there is no difference.
        links: The links that differ.
    """

    same: bool
    links: list[LinkDiff]


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkDiff(View):
    """A difference of one link.

    Attributes:
        change: Its state.
        classes: The classes that differ or get something else: in the order of the new file, then those that
            are gone.
        keys: Keys of `[link]`.
        name: Its name in the new file, or else in the old one.
    """

    change: DiffKind
    classes: list[ClassDiff] | None = None
    keys: list[KeyDiff] | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassDiff(View):
    """A difference of one class.

    Attributes:
        name: Its name.
        change: Its state.
        delay_bound_s: Bound on the delay of a packet, if the scheduler promises one, for the traffic of the
            bounds.
        keys: Keys of `[[class]]`.
        most_bps: The most that it can get, rounded down: its rate while its leaves are greedy and all others
            are idle. Absent if the rule of the scheduler gives no rates then.
        share_all_busy_bps: Share when all leaves have traffic.
    """

    name: str
    change: DiffKind
    delay_bound_s: ValueDiff | None = None
    keys: list[KeyDiff] | None = None
    most_bps: ValueDiff | None = None
    share_all_busy_bps: ValueDiff | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ValueDiff(View):
    """Two values that differ; one that is absent is not known, or there is no such class.

    Attributes:
        new: Value in the second file, in the same unit.
        old: Value in the first file, in the unit with which the key ends.
    """

    new: int | None | float = None
    old: int | None | float = None


@dataclass(frozen=True, kw_only=True, repr=False)
class KeyDiff(View):
    """A key with other values. A value that is absent is the default.

    Attributes:
        key: Its name.
        new: Value in the second file.
        old: Value in the first file.
    """

    key: str
    new: str | None = None
    old: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ExplainDocument(View):
    """The document of `explain`. If the scheduler's rule gives no rates, it has only notes.

    Attributes:
        class_: The class.
        notes: Reasons for absent values.
        problems: Warnings.
        changes: Changes that raise its rate. Absent if no formula has its rate: `notes` give the reason.
        limited_by: The class that limits it, the one that limits that one, and so on.
        steps: From the link to the class.
        strategy: Gain of false demands and rearranged guarantees. Absent for the link.
        text: All of it in words.
    """

    class_: str
    notes: list[str]
    problems: list[ProblemReport]
    changes: Improvements | None = None
    limited_by: list[str] | None = None
    steps: list[StepReport] | None = None
    strategy: Strategy | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Improvements(View):
    """The member `changes`.

    Attributes:
        step_bps: Size of a change, in bit/s.
        helpful: The most helpful first.
        useless: Changes that give the class nothing.
        untried_siblings: Number of siblings whose reduced demand was not tried, because there are too many.
    """

    step_bps: int
    helpful: list[Improvement]
    useless: list[Improvement]
    untried_siblings: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Improvement(View):
    """A rate before and after a change.

    Attributes:
        change: `link`, `guarantee`, `weight`, `asks_less`, `no_limit` or `asks_more`.
        class_: The changed class; `link` for the link.
        gain_bps: Rate that the explained class gains, in bit/s.
        fits: False if siblings give up guarantees for it, because the class above has no room.
        from_bps: Rate before, in bit/s. `None` for no limit, and for unlimited demand of leaves.
        from_weight: Weight before.
        gain_per_bps: Of a small change; `None` if there is none.
        gain_per_weight: Bit/s gained by one more unit of weight.
        to_bps: Rate after, in bit/s; `None` as before.
        to_weight: Weight after.
    """

    change: str
    class_: str
    gain_bps: float
    fits: bool
    from_bps: int | None = None
    from_weight: int | None = None
    gain_per_bps: float | None = None
    gain_per_weight: float | None = None
    to_bps: int | None = None
    to_weight: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class StepReport(View):
    """A class on the way from the link to the class that is explained.

    Attributes:
        name: Its name.
        terms: The terms that it is configured with.
        limit_bps: Limit of its rate in bit/s, regardless of the link; `None` without a limit.
        limit: The setting that gives this limit.
        wants_bps: Demand of the leaves below it together in bit/s; `None` for as much as possible.
        ideal: Its request and its allocation.
        fair_share_per_weight: Of its parent: bit/s per unit of weight. If weights are guarantees in bit/s, it
            is a dimensionless factor of guarantees.
        entitled_bps: Rate that its weight alone gives, in bit/s: its weight times the fair share per weight.
        siblings: The classes that it shares with.
        weight_part: Its part of the weights of all that share with it. Absent if the scheduler shares by the
            weights of the file.
    """

    name: str
    terms: Terms
    limit_bps: int | None
    limit: str | None
    wants_bps: int | None
    ideal: Ideal
    fair_share_per_weight: float | None
    entitled_bps: float | None
    siblings: Siblings
    weight_part: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Siblings(View):
    """Classes that share with another.

    Attributes:
        satisfied: Siblings that get their whole request.
        unsatisfied: Siblings that get less.
        idle: Siblings without a request.
    """

    satisfied: list[str]
    unsatisfied: list[str]
    idle: list[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Strategy(View):
    """The member `strategy`.

    Attributes:
        misreport: Gain of its leaves from understating or overstating their demand.
        rearrange: Gain of other guarantees below it; `None` for a leaf.
        not_searched: Reason for no search.
    """

    misreport: Rules | None
    rearrange: Rules | None
    not_searched: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Rules(View):
    """Rules of a document.

    Attributes:
        hmm: Under hierarchical max-min fairness.
        htb: `None` if HTB would refuse the file.
    """

    hmm: Found
    htb: Found | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Found(View):
    """Found of a document.

    Attributes:
        truthful_bps: Rate with the true demand and the guarantees of the file, in bit/s.
        best_bps: Rate with the best strategy, in bit/s.
        gain_bps: The difference, in bit/s.
        tried: Number of allocations that were computed.
        with_: Changes of the best strategy; empty if nothing is better.
    """

    truthful_bps: float
    best_bps: float
    gain_bps: float
    tried: int
    with_: list[Changed]


@dataclass(frozen=True, kw_only=True, repr=False)
class Changed(View):
    """Changed of a document.

    Attributes:
        class_: The class.
        bps: Its stated demand, or its guarantee, in bit/s; `None` for as much as possible, and for a weight.
        weight: In thousandths of the weight as written, if there is no guarantee.
    """

    class_: str
    bps: int | None
    weight: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class FluidDocument(View):
    """The document of `fluid`.

    Attributes:
        rule: The rule: a scheduler, or `max-min fairness`.
        link: The link; its notes give the reasons for absent numbers.
        problems: Warnings.
    """

    rule: str
    link: LinkReport
    problems: list[ProblemReport]


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportDocument(View):
    """The document of `import`. The command line has a document of its own, which also compares what classes get
    before and after.

    Attributes:
        tool: The tool.
        files: Link files.
        links: The links, in the same order.
        kept: Settings kept unchanged, in words.
        changed: Settings that changed in meaning.
        left_out: Settings that were left out.
        ran: Messages about a script that was run. Absent if none was.
    """

    tool: str
    files: list[ImportedFile]
    links: list[ImportedLinkReport]
    kept: list[str]
    changed: list[ProblemReport]
    left_out: list[ProblemReport]
    ran: list[str] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportedFile(View):
    """A file that was made.

    Attributes:
        name: Its name.
        text: Its text.
    """

    name: str
    text: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ImportedLinkReport(View):
    """A link that was made.

    Attributes:
        name: Its name.
        capacity_bps: Its rate in bit/s.
        classes: Number of its classes.
        scheduler: Its scheduler.
        before: The scheduler that models the tool, `kernel-htb` for the kernel's HTB; `None` if the tool has no
            rule.
        unreachable: Classes that no frame can reach.
        cases: Rates of the classes before and after the import; none if they were not compared.
        gateway_bps: Bits per second that the gateway moves on this machine. Absent if it was not measured.
        plans: Rates by plan. Absent if the tool has no plans, or nothing was compared.
        problems: Warnings of the link as a whole.
    """

    name: str
    capacity_bps: int
    classes: int
    scheduler: str
    before: str | None
    unreachable: list[str]
    cases: list[Case]
    gateway_bps: int | None = None
    plans: list[PlanShare] | None = None
    problems: list[ProblemReport] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Case(View):
    """A set of busy leaves, and the rates of all classes.

    Attributes:
        pauses: The class without busy leaves below it; `None` if all are busy.
        packets: Its packets; 0 if there was none.
        apart: Largest difference between a class's rates in the two halves of the packets, as a part of the
            larger. Above 0.02 there were too few packets for stable rates.
        classes: The busy leaves, in the order of the link file.
    """

    pauses: str | None
    packets: int
    apart: float
    classes: list[Share]


@dataclass(frozen=True, kw_only=True, repr=False)
class Share(View):
    """A leaf.

    Attributes:
        name: Its name.
        before_bps: Its rate under the other tool; `None` if that has no rule.
        after_bps: Its rate under the replacement; `None` if that has no rule.
    """

    name: str
    before_bps: float | None
    after_bps: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanShare(View):
    """The classes with one ceiling, and their rates while all classes are busy.

    Attributes:
        ceiling_bps: The ceiling in bit/s; `None` for none.
        classes: Number of classes.
        least_bps: The lowest rate in bit/s.
        mean_bps: The mean rate in bit/s.
        most_bps: The highest rate in bit/s.
    """

    ceiling_bps: int | None
    classes: int
    least_bps: float
    mean_bps: float
    most_bps: float


@dataclass(frozen=True, kw_only=True, repr=False)
class KeysDocument(View):
    """The document of `keys`.

    Attributes:
        link: Keys of `[link]`.
        class_: Keys of `[[class]]`.
    """

    link: list[KeyReport]
    class_: list[KeyReport]


@dataclass(frozen=True, kw_only=True, repr=False)
class KeyReport(View):
    """A key of a link file.

    Attributes:
        name: Its name.
        leaf_only: True if only a class without children has it.
        description: The description in Markdown.
        default: The default in Markdown. Absent if there is none.
        schedulers: The schedulers that honour it. Absent if all do.
    """

    name: str
    leaf_only: bool
    description: str
    default: str | None = None
    schedulers: list[str] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SchedulersDocument(View):
    """The document of `schedulers`.

    Attributes:
        schedulers: Schedulers with all of them, the best choice first; all in the order of the registry if none
            are wanted.
        nearest: If no scheduler has all features: the schedulers that lack fewest, with the missing features.
        wanted: The wanted features. Absent without any.
    """

    schedulers: list[SchedulerReport]
    nearest: list[Nearest] | None = None
    wanted: list[str] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SchedulerReport(View):
    """A scheduler.

    Attributes:
        name: Its name in link files.
        paper: The key of its paper in docs/papers.md.
        summary: One sentence about it.
        hierarchy: True if it shares by a tree.
        ceiling: True if it supports ceilings.
        priority: True if it supports priorities.
        service_curves: True if it guarantees service curves.
        latency_class: True if it supports latency-critical classes.
        features: All it honours, in words.
        work_conserving: True if it sends whenever it has packets.
        cost: The cost of a packet.
        bounds: The kinds of bounds that it promises.
    """

    name: str
    paper: str
    summary: str
    hierarchy: bool
    ceiling: bool
    priority: bool
    service_curves: bool
    latency_class: bool
    features: list[str]
    work_conserving: str
    cost: str
    bounds: list[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Nearest(View):
    """A scheduler that has almost all.

    Attributes:
        name: Its name.
        lacks: The missing features.
    """

    name: str
    lacks: list[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class SimDocument(View):
    """The document of simulations.

    Attributes:
        runs: The runs, scheduler by scheduler and seed by seed.
        differences: Differences of schedulers, run by run. Absent without several runs of several schedulers.
        expectations: Absent if the scenario has no expectations.
        summary: Means of several runs of each scheduler, with confidence intervals. Absent if each ran once.
    """

    runs: list[RunDocument]
    differences: list[Difference] | None = None
    expectations: list[Judged] | None = None
    summary: list[Summary] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class RunDocument(View):
    """The document of one run.

    Attributes:
        seed: The seed.
        duration_s: Time for which the sources ran, in seconds.
        warmup_s: The part of it that is left out of averages, in seconds.
        link: The link with its classes, those of further links as `LINK:CLASS`; its spans are phases and
            windows.
        memory_bound_bytes: Maximum memory of the packets in flight and the measurements, in bytes.
        changes: Changes of the link while it ran.
        closed: The sources that receive feedback on their packets.
        further_links: The other links that ran beside it, without their classes.
        metrics: Measurements of the scheduler's promises, by class.
        misplaced: Traffic of the wrong leaves.
        routes: The sources whose packets go over several links.
        sweep: Settings of this run that differ from the scenario, by key.
    """

    seed: int
    duration_s: float
    warmup_s: float
    link: LinkReport
    memory_bound_bytes: int
    changes: list[ChangeRun] | None = None
    closed: list[ClosedRun] | None = None
    further_links: list[LinkReport] | None = None
    metrics: list[ClassMetrics] | None = None
    misplaced: Misplaced | None = None
    routes: list[RouteRun] | None = None
    sweep: dict[str, Setting] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ChangeRun(View):
    """A change of a link while it ran.

    Attributes:
        at_s: When.
        name: Its name, such as that of a file.
        scheduler: The scheduler from then on.
        capacity_bps: The link's rate from then on.
        kept_classes: Number of classes that were there before and after, those with children included.
        removed_classes: Number of classes that were there before only.
        removed_packets: Packets that those had queued. They were dropped.
        split_classes: Number of leaves that have classes below them since.
        split_packets: Packets that those had queued. They were dropped.
        new_classes: Number of classes that are there since.
        unfit_packets: Packets of other classes that were dropped because the new limits have no room for them.
    """

    at_s: float
    name: str
    scheduler: str
    capacity_bps: float
    kept_classes: int
    removed_classes: int
    removed_packets: int
    split_classes: int
    split_packets: int
    new_classes: int
    unfit_packets: int


@dataclass(frozen=True, kw_only=True, repr=False)
class ClosedRun(View):
    """The results of a source that receives feedback on its packets. One of: A source with a window. Requests and
    responses.

    Attributes:
        model: Its form.
        class_: Its class.
        goodput_bps: Mean rate of acknowledged packets over the whole run, in bit/s of frames.
        sent_packets: Packets sent.
        delivered_packets: Acknowledged packets.
        lost_packets: Packets taken for lost.
        marks: Number of marks of congestion.
        timeouts: Number of timeouts.
        largest_window: Largest window, in packets.
        mean_rtt_s: Mean time from sending a packet to hearing of it.
        max_rtt_s: Longest such time.
        answered: Number of requests that were answered.
        answered_per_second: The same in each second of the run.
        repeated: Number of requests that were sent again.
        mean_s: Mean time from the first packet of a request to the end of its response.
        max_s: Longest such time.
    """

    model: Literal["tcp"] | Literal["request_response"]
    class_: str
    goodput_bps: float | None = None
    sent_packets: int | None = None
    delivered_packets: int | None = None
    lost_packets: int | None = None
    marks: int | None = None
    timeouts: int | None = None
    largest_window: float | None = None
    mean_rtt_s: float | None = None
    max_rtt_s: float | None = None
    answered: int | None = None
    answered_per_second: float | None = None
    repeated: int | None = None
    mean_s: float | None = None
    max_s: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassMetrics(View):
    """Measurements of a scheduler's promises to a class. docs/measuring.md has the definitions.

    Attributes:
        name: The class.
        fairness_bytes: Definition 1 of [hls]: deviation from its part of a sibling's service while both were
            backlogged. Not of classes with limits.
        worst_case_bytes: Lag behind its share of the link's service while it was backlogged.
        transmission_gap_s: Definition 2 of [hls], between packets instead of visits. Of leaves.
        gps_lag_bytes: Lag behind fluid GPS of all leaves. Of leaves.
        hmm_lag_bytes: Lag behind fluid hierarchical max-min sharing. Not in trees of more than 1,024 classes.
        deadline_miss_s: Largest miss of a deadline of its service curve. Of leaves with a curve.
        burst_bytes: The burstiness sigma of its arrivals, beside the burst of its delay bound, or its own.
        burst_rate_bps: The rate at which sigma is measured, in bit/s.
        delay_s: The longest delay. Without a bound if the arrivals exceeded its assumption.
        conforms: True if its traffic conforms to the assumption of its delay bound; `None` if it has none.
    """

    name: str
    fairness_bytes: Measured | None
    worst_case_bytes: Measured | None
    transmission_gap_s: Measured | None
    gps_lag_bytes: Measured | None
    hmm_lag_bytes: Measured | None
    deadline_miss_s: Measured | None
    burst_bytes: Measured | None
    burst_rate_bps: int | None
    delay_s: Measured | None
    conforms: bool | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Measured(View):
    """A measurement beside its bound. Both cover the whole run, the warmup included.

    Attributes:
        measured: The worst that happened, in the unit with which its key ends.
        bound: The scheduler's promise in this unit, if there is one and it is computed.
        margin: The bound minus the measurement, in this unit: below zero if it was exceeded.
    """

    measured: float
    bound: float | None
    margin: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Misplaced(View):
    """Traffic of the wrong leaves: bytes of leaves beyond the fluid max-min ideal of the same arrivals, as a part of
    what the link sent.

    Attributes:
        windows: In windows of 1, 10 and 100 ms, as far as the run has complete ones.
        class_: The leaf that was farthest from the ideal in a window of any length.
        farthest_bytes: Its distance there, in bytes.
    """

    windows: list[MisplacedIn]
    class_: str
    farthest_bytes: float


@dataclass(frozen=True, kw_only=True, repr=False)
class MisplacedIn(View):
    """The same in windows of one length.

    Attributes:
        window_s: The length in seconds.
        mean: Mean over all windows, as a part of the traffic.
        worst: The part in the worst window.
    """

    window_s: float
    mean: float
    worst: float


@dataclass(frozen=True, kw_only=True, repr=False)
class RouteRun(View):
    """The counts of a source whose packets cross several links.

    Attributes:
        name: Its name.
        offered_packets: Packets that the source sent.
        received_packets: Packets given to the last link.
        dropped_packets: Packets dropped at any link. The others are queued or between two links at the end.
        delay_s: Delay from the arrival at the first link to the end of the last, of packets that got there
            after the warmup.
        hops: The links in order.
    """

    name: str
    offered_packets: int
    received_packets: int
    dropped_packets: int
    delay_s: Delay
    hops: list[HopRun]


@dataclass(frozen=True, kw_only=True, repr=False)
class HopRun(View):
    """The counts of a source at one of several links.

    Attributes:
        link: The link.
        class_: The leaf there.
        arrived_packets: Packets that arrived.
        sent_packets: Packets given to the link.
        dropped_packets: Packets dropped.
        delay_s: Delay from the arrival to the departure of the last bit, of packets that left after the warmup.
    """

    link: str
    class_: str
    arrived_packets: int
    sent_packets: int
    dropped_packets: int
    delay_s: Delay


@dataclass(frozen=True, kw_only=True, repr=False)
class Difference(View):
    """A scheduler less another, run by run on the same arrivals.

    Attributes:
        scheduler: The scheduler.
        against: The other, which was named first.
        runs: Number of pairs of runs.
        classes: The leaves.
        sweep: Values changed from the scenario.
    """

    scheduler: str
    against: str
    runs: int
    classes: list[ClassDifference]
    sweep: dict[str, Setting] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassDifference(View):
    """The difference of a leaf's results under two schedulers.

    Attributes:
        name: The leaf.
        rate_bps: Difference of the mean rate.
        delay_s: Difference of the delay.
        lost: Difference of the part of its packets that was lost.
    """

    name: str
    rate_bps: Paired | None
    delay_s: DelayDifference
    lost: Paired | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Paired(View):
    """A mean of differences of pairs.

    Attributes:
        mean: Mean of the values, in their unit.
        ci95: Half of the width of the 95 % confidence interval by Student's t with n - 1 degrees of freedom: t
            s / sqrt(n). `None` for a single value.
        ci95_normal: The same by the normal distribution, in the same unit: 1.96 s / sqrt(n), the thesis'
            formula. Too narrow for a few values.
        n: Number of values: fewer than runs if some had none.
        different: True if the interval by Student's t leaves out zero.
    """

    mean: float
    ci95: float | None
    ci95_normal: float | None
    n: int
    different: bool | None


@dataclass(frozen=True, kw_only=True, repr=False)
class DelayDifference(View):
    """Differences of delays.

    Attributes:
        mean: Difference of the mean.
        p99: Difference of the 99th percentile.
    """

    mean: Paired | None
    p99: Paired | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Judged(View):
    """An expectation of one run.

    Attributes:
        line: Its line in the scenario file.
        class_: The class; `None` for a quantity of the link.
        value: The quantity, by its name in files.
        phase_s: Start and end of the phase, in seconds; `None` for the whole run.
        scheduler: The scheduler of the run.
        seed: The seed of the run.
        measured: The measurement, in bit/s, seconds, packets or as a part; `None` if there is none, such as the
            delay without packets.
        at_least: The least that is expected, in the unit of `measured`.
        at_most: The most that is expected, in the unit of `measured`.
        met: True if the expectation is met. False without a measurement.
    """

    line: int
    class_: str | None
    value: str
    phase_s: list[float] | None
    scheduler: str
    seed: int
    measured: float | None
    at_least: float | None
    at_most: float | None
    met: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class Summary(View):
    """All runs of one scheduler on one scenario.

    Attributes:
        scheduler: The scheduler's name.
        runs: Number of runs.
        warmup_s: Left out of each from the start.
        link_utilisation: Share of the time after the warmup in which the link was sending.
        classes: The leaves, in the order of `Run::classes`.
        phases: The phases.
        sweep: Values changed from the scenario.
    """

    scheduler: str
    runs: int
    warmup_s: float
    link_utilisation: Estimate
    classes: list[ClassSummary]
    phases: list[PhaseSummary]
    sweep: dict[str, Setting] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(View):
    """The mean of a few independent values and its uncertainty.

    Attributes:
        mean: Mean of the values, in their unit.
        ci95: Half of the width of the 95 % confidence interval by Student's t with n - 1 degrees of freedom: t
            s / sqrt(n). `None` for a single value.
        ci95_normal: The same by the normal distribution, in the same unit: 1.96 s / sqrt(n), the thesis'
            formula. Too narrow for a few values.
        n: Number of values: fewer than runs if some had none.
    """

    mean: float
    ci95: float | None
    ci95_normal: float | None
    n: int


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassSummary(View):
    """The results of a leaf in all runs.

    Attributes:
        name: The leaf.
        rate_bps: Mean rate after the warmup.
        delay_s: Delays.
        lost: The part of the offered packets that was dropped; `None` if none was offered.
    """

    name: str
    rate_bps: Estimate
    delay_s: DelaySummary
    lost: Estimate | None


@dataclass(frozen=True, kw_only=True, repr=False)
class DelaySummary(View):
    """Delays in all runs: estimates of the runs' measurements. `None` if no run had packets.

    Attributes:
        mean: Estimate of the mean.
        p50: Estimate of the median.
        p99: Estimate of the 99th percentile.
        p999: Estimate of the percentile 99.9.
        max: Estimate of the maximum.
    """

    mean: Estimate | None
    p50: Estimate | None
    p99: Estimate | None
    p999: Estimate | None
    max: Estimate | None


@dataclass(frozen=True, kw_only=True, repr=False)
class PhaseSummary(View):
    """A phase in all runs.

    Attributes:
        start_s: Its start.
        end_s: Its end.
        jain_index: Jain's index of rates relative to max-min fair rates.
        classes: The leaves.
    """

    start_s: float
    end_s: float
    jain_index: Estimate | None
    classes: list[RateSummary]


@dataclass(frozen=True, kw_only=True, repr=False)
class RateSummary(View):
    """A leaf's rate in a phase, in all runs.

    Attributes:
        name: The leaf.
        settled_bps: Its rate after the phase has settled.
        fair_bps: Its max-min fair rate, the mean over the runs.
        ideal_bps: Its rate by the scheduler's own rule, the mean over the runs. Absent if it is not computed.
    """

    name: str
    settled_bps: Estimate
    fair_bps: float
    ideal_bps: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ReproduceDocument(View):
    """The document of `reproduce`.

    Attributes:
        claims: The claims, in the order of the papers.
        quick: True if runs were fewer and shorter.
        interrupted: True if it was interrupted; claims are missing then.
    """

    claims: list[ClaimReport]
    quick: bool
    interrupted: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class ClaimReport(View):
    """A claim, and what was found of it. Its numbers are those of the quantity that agrees least.

    Attributes:
        id: Its id, such as `hls.alpha`.
        paper: The key of its paper.
        place: Its place in the paper.
        about: Its subject.
        says: The value that the paper gives, in words.
        sentence: The sentence that is judged.
        expected: The number of the paper in `unit`; `None` if it gives none.
        measured: The number that was measured, in `unit`; `None` if the claim could not be tried.
        ci95: Half of the 95 % confidence interval of `measured`, in `unit`; `None` for a single run.
        low: The lower end of the interval, in `unit`; `None` also where it is infinite.
        high: The upper end of the interval, in `unit`; `None` also where it is infinite.
        unit: The unit of these numbers.
        agrees: True if the verdict is that it agrees.
        verdict: The verdict.
        note: Reasons, and how it was run.
        checks: All quantities.
    """

    id: str
    paper: str
    place: str
    about: str
    says: str
    sentence: str
    expected: float | None
    measured: float | None
    ci95: float | None
    low: float | None
    high: float | None
    unit: Unit | None
    agrees: bool
    verdict: Verdict
    note: str
    checks: list[QuantityReport]


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantityReport(View):
    """One quantity of a claim.

    Attributes:
        what: The quantity.
        sentence: The sentence that it judges.
        paper: The value of the paper, in words.
        expected: The number of the paper in `unit`; `None` if it gives none.
        measured: The number that was measured, in `unit`.
        ci95: Half of the 95 % confidence interval of `measured`, in `unit`; `None` for a single run.
        low: The lower end of the interval, in `unit`; `None` also where it is infinite.
        high: The upper end of the interval, in `unit`; `None` also where it is infinite.
        unit: The unit of these numbers.
        verdict: The verdict.
    """

    what: str
    sentence: str
    paper: str
    expected: float | None
    measured: float
    ci95: float | None
    low: float | None
    high: float | None
    unit: Unit
    verdict: Verdict
