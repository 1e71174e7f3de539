//! Statements of Chapters 2 and 4 on other schedulers, on networks and on traffic: SCFQ, WRR, CORR, a parking lot, TCP, shaping and policing, buffers.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use fairlink_core::Nanos;
use fairlink_sim::{ClosedRun, Fate, Observer, Options, PacketSeen, Run};
use fairlink_traffic::Source;

use crate::claims::laboratory::{longest_delay, mean_delay};
use crate::claims::{ClaimError, Expected, Finding, Lab, Row, Table, Unit, Workload};
use fairlink_figures::human;

const PARKING_LOT: &str = include_str!("../../../../../scenarios/network/parking-lot.toml");

/// Adds a class of a link, and its source, to a scenario.
fn class(text: &mut String, name: &str, keys: &str, source: &str) {
    let _ = write!(text, "\n[[class]]\nname = \"{name}\"\n{keys}\n\n[[source]]\nclass = \"{name}\"\n{source}\n");
}

fn link(comment: &str, duration: &str, rate: &str, more: &str) -> String {
    format!("# {comment}\n\nduration = \"{duration}\"\n\n[link]\nrate = \"{rate}\"\nmtu = \"1500B\"\n{more}")
}

fn one(lab: &Lab<'_>, workload: &Workload, scheduler: &str) -> Result<Run, ClaimError> {
    let runs = lab.play(workload, &[scheduler], 1, &Options::default())?;
    runs.first().cloned().ok_or_else(|| ClaimError::other("no run"))
}

/// Returns the rate of a class in bit/s.
fn rate(run: &Run, class: &str) -> f64 {
    run.classes.iter().find(|found| found.name == class).map_or(f64::NAN, |found| found.rates.rate())
}

/// Sessions on the link.
const SESSIONS: [u32; 5] = [4, 8, 16, 32, 64];
const LINK_BPS: f64 = 10e6;
const LEN: f64 = 1000.0;

/// Makes a session with half of the link that sends now and then, beside others that always have packets.
fn beside(sessions: u32) -> Workload {
    let mut text = link("SCFQ by the number of sessions, all with packets of 1000 B", "20s", "10mbit", "");
    class(&mut text, "own", "guarantee = \"5mbit\"", "model = \"poisson\"\nrate = \"400kbit\"\npacket = \"1000B\"");
    for n in 1..sessions {
        let keys = format!("guarantee = \"{}bit\"", 5_000_000 / (sessions - 1));
        class(&mut text, &format!("x{n}"), &keys, "model = \"greedy\"\npacket = \"1000B\"");
    }
    Workload::new("sessions.toml", text)
}

/// Tests Section 2.3.3: the delay bound of SCFQ.
pub(super) fn scfq(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let mut table =
        Table::new("Longest wait of a session with half of the link", &["sessions", "SCFQ", "(N - 1) L / r", "WFQ"]);
    let mut waits = [Vec::new(), Vec::new()];
    let mut beyond = 0;
    for sessions in SESSIONS {
        for (of, scheduler) in ["scfq", "wfq"].into_iter().enumerate() {
            let longest = longest_delay(&one(lab, &beside(sessions), scheduler)?, "own").unwrap_or(f64::NAN);
            waits[of].push(longest - LEN * 8.0 / LINK_BPS);
        }
        let [scfq, wfq] = [0, 1].map(|of: usize| waits[of].last().copied().unwrap_or(f64::NAN));
        // Golestani: L_i / g_i for each packet of its own before it, of which bursts of a Poisson flow have some, and a
        // packet of each other.
        let others = f64::from(sessions - 1) * LEN * 8.0 / LINK_BPS;
        beyond += usize::from(scfq > others + 8.0 * LEN * 8.0 / 5e6);
        table.row([sessions.to_string(), human::time(scfq), human::time(others), human::time(wfq)]);
    }
    let [scfq, wfq] = &waits;
    let rows = vec![
        Row::new(
            "SCFQ: longest wait beside 63 sessions over that beside 3",
            Unit::Times,
            Expected::AtLeast(8.0),
            scfq[4] / scfq[0],
        ),
        Row::new(
            "SCFQ: growth from 32 to 64 sessions over that from 16 to 32",
            Unit::Times,
            Expected::Near(2.0, 0.25),
            (scfq[4] - scfq[3]) / (scfq[3] - scfq[2]),
        ),
        Row::new(
            "SCFQ: longest wait beside 63 sessions over a packet of each",
            Unit::Part,
            Expected::Between(0.5, 1.3),
            scfq[4] / (63.0 * LEN * 8.0 / LINK_BPS),
        ),
        Row::never("numbers of sessions with which the bound is exceeded", beyond),
        Row::new(
            "WFQ: longest wait beside 63 sessions over that beside 3",
            Unit::Times,
            Expected::AtMost(1.5),
            wfq[4] / wfq[0],
        ),
    ];
    let note = "A session with half of 10 Mbit/s sends packets of 1000 B at random, 400 kbit/s of them; the others have the other half and always have packets. Their tags are alike, so that under SCFQ a packet of each goes before \
                the one that comes. Under WFQ at most one does.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(beside(64).rerun("--scheduler scfq --scheduler wfq")))
}

/// Makes two classes that always have packets, of weights 3 and 1, and packets of these lengths.
fn two(first: u32, second: u32) -> Workload {
    let mut text = link("Two classes of weights 3 and 1 that always have packets", "5s", "10mbit", "");
    class(&mut text, "high", "weight = 3", &format!("model = \"greedy\"\npacket = \"{first}B\""));
    class(&mut text, "low", "weight = 1", &format!("model = \"greedy\"\npacket = \"{second}B\""));
    Workload::new("wrr.toml", text)
}

/// Tests Section 2.4.1: weighted round robin with packets of different lengths.
pub(super) fn wrr(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let part = |scheduler: &str, high: u32, low: u32| -> Result<f64, ClaimError> {
        let run = one(lab, &two(high, low), scheduler)?;
        Ok(rate(&run, "low") / (rate(&run, "high") + rate(&run, "low")))
    };
    let mut table =
        Table::new("What the class of weight 1 gets beside one of weight 3", &["packets of high, low", "WRR", "DRR"]);
    for (high, low) in [(1000, 1000), (500, 1000), (100, 1500), (1500, 100)] {
        table.row([
            format!("{high} B, {low} B"),
            human::percent(part("wrr", high, low)?),
            human::percent(part("drr", high, low)?),
        ]);
    }
    let rows = vec![
        Row::new("packets of one length: part of the class of weight 1 under WRR", Unit::Part, Expected::Near(0.25, 0.01), part("wrr", 1000, 1000)?)
            .judging("In every round of service, the number of packets served from a queue is proportional to its associated weight."),
        Row::new("its packets of 1500 B beside 100 B: part of the class of weight 1 under WRR", Unit::Part, Expected::AtLeast(0.5), part("wrr", 100, 1500)?),
        Row::new("the same, over 1500 / (3 x 100 + 1500)", Unit::Part, Expected::Near(1.0, 0.01), part("wrr", 100, 1500)? / (1500.0 / 1800.0))
            .judging("The reason is that the weight assigned to a session is the number of packets"),
        Row::new("the same under DRR", Unit::Part, Expected::Near(0.25, 0.02), part("drr", 100, 1500)?)
            .judging("Deficit Round Robin (DRR) [MG96] proposes a solution for packet-switched networks with variable packet length"),
    ];
    let note = "Two classes of weights 3 and 1 that always have packets on 10 Mbit/s. WRR counts packets: the class of low priority with large packets gets five sixths of the link.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(two(100, 1500).rerun("--scheduler wrr --scheduler drr")))
}

/// Tests Section 2.4.3: carry-over round robin.
pub(super) fn corr(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let weights = [23u32, 17, 41, 9, 10];
    let all: u32 = weights.iter().sum();
    let mut text = link("CORR: rates that are no whole numbers of packets a cycle", "20s", "10mbit", "");
    for (n, weight) in weights.into_iter().enumerate() {
        class(&mut text, &format!("c{n}"), &format!("weight = {weight}"), "model = \"greedy\"\npacket = \"1500B\"");
    }
    let workload = Workload::new("corr.toml", text);
    let run = one(lab, &workload, "corr")?;
    let sent: Vec<u64> = run.classes.iter().map(|class| class.counts().sent.packets).collect();
    let total: u64 = sent.iter().sum();
    let mut table = Table::new("Packets of each class in 20 s", &["weight", "sent", "its part of all"]);
    let mut most = 0.0f64;
    for (&sent, weight) in sent.iter().zip(weights) {
        let due = total as f64 * f64::from(weight) / f64::from(all);
        most = most.max((sent as f64 - due).abs());
        table.row([weight.to_string(), sent.to_string(), format!("{due:.1}")]);
    }
    let rows = vec![
        Row::new(
            "most packets by which a class is off its part after 20 s",
            Unit::Packets,
            Expected::AtMost(weights.len() as f64),
            most,
        ),
        Row::new("the same as a part of all packets", Unit::Part, Expected::AtMost(1e-3), most / total as f64),
    ];
    let note = "Five classes of weights 23, 17, 41, 9 and 10 that always have packets of one length. A cycle has a slot for each of them, so that a class has 1.15, 0.85, 2.05, 0.45 and 0.5 slots in it: in the long run each gets what it \
                is due, to within a cycle.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(workload.rerun("--scheduler corr")))
}

/// Tests Section 4.2: a parking lot.
pub(super) fn lot(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let workload = Workload::new("parking-lot.toml", PARKING_LOT);
    let mut rows = Vec::new();
    let mut table = Table::new(
        "The long way over three links, and the local traffic beside it, in Mbit/s",
        &["scheduler", "long: core", "local: first", "core", "exit"],
    );
    for scheduler in ["drr++", "drr", "hls", "wfq", "fifo"] {
        let run = one(lab, &workload, scheduler)?;
        let [long, first, core, exit] =
            ["core:long", "local", "core:local", "exit:local"].map(|name| rate(&run, name) / 1e6);
        table.row([
            scheduler.to_owned(),
            format!("{long:.3}"),
            format!("{first:.3}"),
            format!("{core:.3}"),
            format!("{exit:.3}"),
        ]);
        // The long way asks for 2.3 Mbit/s, less than its part of each link, and the local traffic for all that is left.
        let off = [(long, 2.3), (first, 7.7), (core, 7.7), (exit, 7.7)].map(|(found, due)| (found - due).abs() / due);
        let most = off.into_iter().fold(0.0, f64::max);
        if scheduler != "fifo" {
            rows.push(Row::new(
                format!("{scheduler}: largest distance of a rate from its max-min fair one"),
                Unit::Part,
                Expected::AtMost(0.03),
                most,
            ));
        }
    }
    let note = "Three links in a row: a flow of 2.3 Mbit/s over all of them, which has a quarter of the second link and half of the others, and traffic of its own at each link that takes what is left: 7.7 of 10 Mbit/s. FIFO is for \
                comparison.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(workload.rerun("--scheduler drr++ --scheduler hls --lenient")))
}

/// A flow with a buffer of `buffer` packets, by UDP or TCP.
fn transport(source: &str, buffer: u32) -> Workload {
    let mut text = link("One flow beside another of random packets", "20s", "2mbit", "");
    class(&mut text, "flow", &format!("weight = 1\nbuffer = \"{buffer}p\""), source);
    class(
        &mut text,
        "other",
        "weight = 1\nbuffer = \"30p\"",
        "model = \"poisson\"\nrate = \"900kbit\"\npacket = \"1000B\"",
    );
    Workload::new("transport.toml", text)
}

/// Tests Section 4.4.1: UDP instead of TCP.
pub(super) fn tcp(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    const ADJUSTS: &str = "The TCP protocol dynamically adjusts the sending rate based on acknowledgements (ACK) information coming back from the receiver.";
    let tcp = "model = \"tcp\"\nrtt = \"20ms\"\npacket = \"1500B\"";
    let udp = "model = \"cbr\"\nrate = \"1.2mbit\"\npacket = \"1500B\"";
    let offered = |workload: &Workload| -> Result<(u64, u64, f64), ClaimError> {
        let run = one(lab, workload, "drr")?;
        let flow = run.classes.iter().find(|class| class.name == "flow").ok_or_else(|| ClaimError::other("no flow"))?;
        Ok((
            flow.counts().received.packets,
            flow.counts().dropped.packets,
            mean_delay(&run, "flow").unwrap_or(f64::NAN),
        ))
    };
    let (short, long) = (transport(udp, 5), transport(udp, 500));
    let (udp_short, udp_long) = (offered(&short)?, offered(&long)?);
    let run = one(lab, &transport(tcp, 5), "drr")?;
    let Some(ClosedRun::Tcp { sent_packets, delivered_packets, lost_packets, .. }) = run.closed.first() else {
        return Err(ClaimError::other("no TCP flow"));
    };
    let (tcp_short, tcp_long) = (offered(&transport(tcp, 5))?, offered(&transport(tcp, 500))?);
    let mut table =
        Table::new("What a flow sends by the room for its packets", &["flow", "room", "sent", "dropped", "mean delay"]);
    for (words, room, of) in
        [("UDP", 5, udp_short), ("UDP", 500, udp_long), ("TCP", 5, tcp_short), ("TCP", 500, tcp_long)]
    {
        table.row([words.to_owned(), room.to_string(), of.0.to_string(), of.1.to_string(), human::time(of.2)]);
    }
    let rows = vec![
        Row::new("UDP: packets sent with room for 5 over those with room for 500", Unit::Part, Expected::Within(1.0, 0.0), udp_short.0 as f64 / udp_long.0 as f64)
            .judging("In contrast, UDP does not retransmit a lost fragment because the UDP protocol does not use acknowledgements for each packet to confirm reception."),
        Row::new("UDP: packets dropped with room for 5", Unit::Packets, Expected::AtLeast(1.0), udp_short.1 as f64)
            .judging("In some real time applications, e.g. voice and video, a small degree of loss is much more tolerable than increased delay."),
        Row::new("TCP: packets sent beyond those that arrived, with room for 5", Unit::Packets, Expected::AtLeast(*lost_packets as f64 * 0.5), sent_packets.saturating_sub(*delivered_packets) as f64)
            .judging("If one fragment is lost, it is retransmitted according to the TCP protocol, which results in an increased delay for the whole packet."),
        Row::new("TCP: losses that it answers, with room for 5", Unit::Packets, Expected::AtLeast(1.0), *lost_packets as f64).judging(ADJUSTS),
        Row::new("TCP: packets sent with room for 500 over those with room for 5", Unit::Times, Expected::AtLeast(1.01), tcp_long.0 as f64 / tcp_short.0 as f64).judging(ADJUSTS),
    ];
    let note = "A flow on half of 2 Mbit/s under DRR, beside random packets of another: 1.2 Mbit/s by UDP, or TCP (cubic, 20 ms beside the link). UDP sends what it sends; TCP sends again what is lost, and by the room there is. What \
                the text says of packets that TCP joins is the sender's matter: a packet of this model is a segment.";
    Ok(Finding::new(note, rows)
        .with_table(table)
        .with_rerun(transport(tcp, 5).rerun("--scheduler drr"))
        .with_rerun(short.rerun("--scheduler drr")))
}

/// A check of an arrival curve, packet by packet: nanoseconds and bytes.
type Check = fn(&[(u64, u64)]) -> usize;

/// Returns the most bytes in any window of `every` nanoseconds that ends with a packet. The window is half open.
fn windows(packets: &[(u64, u64)], every: u64, most: u64) -> usize {
    let (mut first, mut bytes, mut over) = (0, 0, 0);
    for &(at, len) in packets {
        bytes += len;
        while packets[first].0 + every <= at {
            bytes -= packets[first].1;
            first += 1;
        }
        over += usize::from(bytes > most);
    }
    over
}

/// Sections 4.4.4: three models of shaped traffic, and shaping against policing.
pub(super) fn curves(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // (sigma, rho) = (4 kB, 1 Mbit/s): no interval has more than sigma + rho u.
    let bucket: Check = |packets| {
        let (mut held, mut last, mut over) = (0.0f64, 0, 0);
        for &(at, len) in packets {
            held = (held - (at - last) as f64 / 8000.0).max(0.0) + len as f64;
            last = at;
            over += usize::from(held > 4000.0 + 1e-3);
        }
        over
    };
    // (r, T) = (1 Mbit/s, 50 ms): 6250 B.
    let sliding: Check = |packets| windows(packets, 50_000_000, 6250);
    // (Xmin, Xave, I, Smax) = (2 ms, 6 ms, 300 ms, 1000 B).
    let spaced: Check = |packets| {
        let near = packets.windows(2).filter(|pair| pair[1].0 - pair[0].0 < 2_000_000).count();
        let ones: Vec<(u64, u64)> = packets.iter().map(|&(at, _)| (at, 1)).collect();
        near + windows(&ones, 300_000_000, 50) + packets.iter().filter(|packet| packet.1 > 1000).count()
    };
    let curves: [(&str, &str, &str, Check); 3] = [
        (
            "(sigma, rho)",
            "{ burst = \"4kB\", rate = \"1mbit\" }",
            "A traffic stream satisfies the (σ, ρ) model if during any interval of length u, the number of bits in that interval is less than σ + ρu",
            bucket,
        ),
        (
            "(r, T)",
            "{ rate = \"1mbit\", every = \"50ms\" }",
            "Similarly, a traffic satisfies (r, T) model if no more than r · T bits are transmitted during any interval of length T",
            sliding,
        ),
        (
            "(Xmin, Xave, I, Smax)",
            "{ xmin = \"2ms\", xave = \"6ms\", i = \"300ms\", smax = \"1000B\" }",
            "A traffic stream satisfies the (Xmin, Xave, I, Smax) model if the inter-arrival time between any two packets in the stream is more than Xmin, the average packet inter-arrival time during any interval of length I is more than Xave, and the maximum packet size is less than Smax",
            spaced,
        ),
    ];
    let seconds = lab.by_effort(30, 300);
    let mut rows = Vec::new();
    let mut table = Table::new(
        "A source of 1.5 Mbit/s behind each curve",
        &["curve", "bare: breaks it", "shaped: packets", "breaks it", "policed: packets", "breaks it"],
    );
    let mut example = None;
    for (name, curve, sentence, check) in curves {
        let packets = |key: &str| -> Result<Vec<(u64, u64)>, ClaimError> {
            let mut text = link("A source behind an arrival curve", &format!("{seconds}s"), "10mbit", "");
            let source = "model = \"poisson\"\nrate = \"1.5mbit\"\npacket = { uniform = [\"40B\", \"1000B\"] }";
            class(&mut text, "flow", "weight = 1", &format!("{source}{key}"));
            let workload = Workload::new("curve.toml", text);
            let scenario = workload.read("fifo")?;
            let spec = scenario.sources.first().ok_or_else(|| ClaimError::other("no source"))?;
            let sent = Source::new(spec, scenario.seed, 0, scenario.duration).map_err(ClaimError::other)?;
            if key.starts_with("\nshape") {
                example.get_or_insert(workload);
            }
            Ok(sent
                .map(|packet| {
                    let Nanos(at) = packet.at;
                    (at, u64::from(packet.len))
                })
                .collect())
        };
        let mut packets = packets;
        let (bare, shaped, policed) =
            (packets("")?, packets(&format!("\nshape = {curve}"))?, packets(&format!("\npolice = {curve}"))?);
        table.row([
            name.to_owned(),
            check(&bare).to_string(),
            shaped.len().to_string(),
            check(&shaped).to_string(),
            policed.len().to_string(),
            check(&policed).to_string(),
        ]);
        rows.push(
            Row::never(format!("{name}: packets behind the shaper that break it"), check(&shaped)).judging(sentence),
        );
        rows.push(
            Row::never(format!("{name}: packets behind the policer that break it"), check(&policed)).judging(sentence),
        );
        rows.push(
            Row::new(
                format!("{name}: packets of the bare source that break it"),
                Unit::Packets,
                Expected::AtLeast(1.0),
                check(&bare) as f64,
            )
            .judging(sentence),
        );
        let delayed = shaped.iter().zip(&bare).filter(|(shaped, bare)| shaped.0 > bare.0).count();
        rows.push(Row::new(
            format!("{name}: packets that the policer drops, as a part of all"),
            Unit::Part,
            Expected::AtLeast(0.01),
            1.0 - policed.len() as f64 / bare.len() as f64,
        ));
        rows.push(Row::new(
            format!("{name}: packets that the shaper delays, as a part of all"),
            Unit::Part,
            Expected::AtLeast(0.01),
            delayed as f64 / bare.len() as f64,
        ));
        rows.push(Row::never(
            format!("{name}: packets that the shaper passes with another length"),
            shaped.iter().zip(&bare).filter(|(shaped, bare)| shaped.1 != bare.1).count(),
        ));
    }
    let note = format!(
        "A Poisson source of 1.5 Mbit/s with packets of 40 to 1000 B for {seconds} s, bare, behind a shaper and behind a policer of each model. What comes out is checked packet by packet by code that has nothing of the shaper's. A shaper's \
         packets are those of the source, in their order, and later."
    );
    let finding = Finding::new(note, rows).with_table(table);
    Ok(match example {
        Some(example) => finding.with_rerun(crate::claims::finding::Rerun {
            command: "traffic curve.toml --runs 1".to_owned(),
            ..example.rerun("")
        }),
        None => finding,
    })
}

/// Tests Table 3.3: FreeBuffer.
pub(super) fn free_buffer(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let scenario = |full: &str| {
        let more = format!("buffer = \"40p\"\nwhen_full = \"{full}\"\n");
        let mut text =
            link("A shared buffer of 40 packets: one flow sends more than the link carries", "20s", "2mbit", &more);
        class(&mut text, "flood", "weight = 1", "model = \"saturating\"\nrate = \"6mbit\"\npacket = \"1000B\"");
        for n in 0..3 {
            class(
                &mut text,
                &format!("x{n}"),
                "weight = 1",
                "model = \"poisson\"\nrate = \"300kbit\"\npacket = \"1000B\"",
            );
        }
        Workload::new("buffer.toml", text)
    };
    let mut table = Table::new(
        "Part of the packets lost where one flow floods a shared buffer",
        &["when full", "flood", "the others"],
    );
    let mut others = Vec::new();
    for full in ["push_out", "drop_arrival"] {
        let run = one(lab, &scenario(full), "drr++-mw00")?;
        let lost = |name: &str| {
            let of: Vec<_> = run.classes.iter().filter(|class| class.name.starts_with(name)).collect();
            let sum = |of: &[&fairlink_report::ClassReport], value: fn(&fairlink_report::ClassReport) -> u64| {
                of.iter().map(|class| value(class)).sum::<u64>() as f64
            };
            sum(&of, |class| class.counts().dropped.packets) / sum(&of, |class| class.counts().received.packets)
        };
        table.row([full.to_owned(), human::percent(lost("flood")), human::percent(lost("x"))]);
        others.push(lost("x"));
    }
    let rows = vec![
        Row::new(
            "part of the packets of the other flows that is lost, with FreeBuffer",
            Unit::Part,
            Expected::AtMost(0.001),
            others[0],
        ),
        Row::new(
            "the same without it, where what comes to a full buffer is dropped",
            Unit::Part,
            Expected::AtLeast(0.1),
            others[1],
        )
        .judging("All of the packets share resources, including buffers and bandwidth."),
    ];
    let note = "A buffer of 40 packets that four flows share under the DRR++ of Table 3.3. One sends three times what the link carries. FreeBuffer makes room with a packet of the flow that has most; the table does not say whose gives way \
                (`when_full = \"push_out\"`).";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(scenario("push_out").rerun("--scheduler drr++-mw00")))
}

/// Lengths of the packets of three flows of one class, which identify them, and their start times in seconds.
const FLOWS: [(u32, u32); 3] = [(1000, 0), (999, 4), (998, 8)];

/// Makes a class whose flows come as they like, beside another class. The first flow sends all that it may.
fn arriving(per: &str) -> Workload {
    let mut text = link(
        "Flows that become classes by themselves: three come to one class, one after the other",
        "12s",
        "6mbit",
        "",
    );
    let _ = write!(text, "\n[[class]]\nname = \"best effort\"\nweight = 1\nbuffer = \"60p\"\n{per}\n");
    class(&mut text, "other", "weight = 1", "model = \"greedy\"\npacket = \"1000B\"");
    for (len, start) in FLOWS {
        let model = if start == 0 {
            "model = \"saturating\"\nrate = \"12mbit\""
        } else {
            "model = \"cbr\"\nrate = \"900kbit\""
        };
        let _ = write!(
            text,
            "\n[[source]]\nclass = \"best effort\"\n{model}\npacket = \"{len}B\"\nactive = [\"{start}s..12s\"]\n"
        );
    }
    Workload::new("flows.toml", text)
}

/// Bytes of each flow that left from second `from` to second `to`.
struct Lengths {
    from: u64,
    to: u64,
    sums: [u64; 3],
    found: Arc<Mutex<[u64; 3]>>,
}

impl Observer for Lengths {
    fn went(&mut self, packet: &PacketSeen, fate: Fate) {
        if let (Fate::Sent { done: Nanos(done), .. }, 1) = (fate, packet.class.0)
            && (self.from..self.to).contains(&done)
            && let Some(flow) = FLOWS.iter().position(|flow| flow.0 == packet.frame)
        {
            self.sums[flow] += u64::from(packet.frame);
        }
    }
}

impl Drop for Lengths {
    fn drop(&mut self) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = self.sums;
    }
}

/// Rates of the three flows in a span of seconds, in bit/s.
fn flow_rates(lab: &Lab<'_>, workload: &Workload, from: u64, to: u64) -> Result<[f64; 3], ClaimError> {
    let found = Arc::new(Mutex::new([0; 3]));
    let nanos = |seconds: u64| seconds * 1_000_000_000;
    let observer = || -> Box<dyn Observer> {
        Box::new(Lengths { from: nanos(from), to: nanos(to), sums: [0; 3], found: Arc::clone(&found) })
    };
    lab.watched(workload, &["drr"], 1, &Options::default(), Some(&observer))?;
    let sums = *found.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(sums.map(|bytes| bytes as f64 * 8.0 / (to - from) as f64))
}

/// Tests Section 4.1: AddFlow.
pub(super) fn add_flow(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    let (with, without) = (arriving("per = \"flow\""), arriving(""));
    let mut table =
        Table::new("Rates of the flows of a class with half of 6 Mbit/s", &["", "first, floods", "second", "third"]);
    let mut found = Vec::new();
    for (words, workload, from, to) in [
        ("per = \"flow\", 1 to 4 s", &with, 1, 4),
        ("5 to 8 s", &with, 5, 8),
        ("9 to 12 s", &with, 9, 12),
        ("without, 9 to 12 s", &without, 9, 12),
    ] {
        let rates = flow_rates(lab, workload, from, to)?;
        let mut cells = vec![words.to_owned()];
        cells.extend(rates.map(human::rate));
        table.row(cells);
        found.push(rates);
    }
    let rows = vec![
        Row::new(
            "the first flow alone, over half of the link",
            Unit::Part,
            Expected::Near(1.0, 0.02),
            found[0][0] / 3e6,
        ),
        Row::new(
            "a second flow, which comes by itself: its rate over what it sends",
            Unit::Part,
            Expected::Near(1.0, 0.02),
            found[1][1] / 9e5,
        ),
        Row::new("a third flow: its rate over what it sends", Unit::Part, Expected::Near(1.0, 0.02), found[2][2] / 9e5),
        Row::new(
            "the first flow then, over what the others leave of the class",
            Unit::Part,
            Expected::Near(1.0, 0.02),
            found[2][0] / 1.2e6,
        ),
        Row::new(
            "without per: the third flow's rate over what it sends",
            Unit::Part,
            Expected::AtMost(0.8),
            found[3][2] / 9e5,
        )
        .judging("DRR++ provides protection so that one flow is not able to steal bandwidth from others."),
    ];
    let note = "A class with half of 6 Mbit/s under DRR. Its first flow sends four times that without end; at 4 s and at 8 s others of 900 kbit/s come, of which no file says anything. With `per = \"flow\"` each has its part at once; in \
                the gateway flows are told apart by addresses, protocol and ports, in `sim` each source is one.";
    Ok(Finding::new(note, rows).with_table(table).with_rerun(with.rerun("--scheduler drr --window 1s")))
}

/// Tests Section 4.4.1: pictures in fragments.
pub(super) fn fragments(lab: &Lab<'_>) -> Result<Finding, ClaimError> {
    // Each I picture of 15000 B, three a second: whole, or in frames of an MTU of 1500 B, which come together.
    let pictures = |whole: bool| {
        let more = if whole { "whole_frames = true" } else { "packet = \"1500B\"" };
        let text = format!(
            "# Pictures of 15000 B as one packet each, or in fragments of 1500 B\n\nduration = \"20s\"\n\n[link]\nrate = \"1.2mbit\"\nmtu = \"15000B\"\n\n[[class]]\nname = \"lc\"\nquantum = \"15000B\"\n\
             latency_critical = true\n\n[[class]]\nname = \"be\"\nquantum = \"2000B\"\n\n[[source]]\nclass = \"lc\"\nmodel = \"mpeg\"\ngop = \"I\"\ngops_per_second = 3\ni = {{ uniform = [\"15000B\", \"15000B\"] }}\n\
             p = {{ uniform = [\"1000B\", \"1000B\"] }}\nb = {{ uniform = [\"1000B\", \"1000B\"] }}\n{more}\n\n[[source]]\nclass = \"be\"\nmodel = \"greedy\"\npacket = \"1000B\"\n"
        );
        Workload::new("pictures.toml", text)
    };
    let of = |workload: &Workload| -> Result<(u64, f64), ClaimError> {
        let run = one(lab, workload, "drr++")?;
        let class = run.classes.iter().find(|class| class.name == "lc").ok_or_else(|| ClaimError::other("no video"))?;
        Ok((class.counts().received.packets, class.delay().max.unwrap_or(f64::NAN)))
    };
    let (whole, cut) = (of(&pictures(true))?, of(&pictures(false))?);
    let rows = vec![
        Row::new(
            "packets of a picture of 15000 B with an MTU of 1500 B",
            Unit::Packets,
            Expected::Within(10.0, 0.0),
            cut.0 as f64 / whole.0 as f64,
        ),
        Row::new(
            "longest delay of a picture's last fragment over that of a whole picture",
            Unit::Times,
            Expected::Near(1.0, 0.1),
            cut.1 / whole.1,
        )
        .judging("They are re-assembled by the IP layer in the DRRServer."),
    ];
    let note = "Pictures of 15000 B, three a second, as the latency-critical flow beside a best-effort flow that always has packets on 1.2 Mbit/s. In fragments of 1500 B a picture is there with its last one. Headers of fragments are not \
                counted, as in the text's ten frames. The gateway keeps the fragments of a datagram in the class and flow of the first one.";
    Ok(Finding::new(note, rows).with_rerun(pictures(false).rerun("--scheduler drr++")))
}
