//! Two machines with something between them, each a network namespace with the kernel's own TCP.
#![allow(dead_code, reason = "not every suite needs all of it")]

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use fairlink_core::Nanos;
use fairlink_net::{Gateway, GatewayStats, interface};
use fairlink_testbed::{TcpClient, TcpConfig, TcpError, TcpExchange, enter_private_namespace};

/// Runs `ip` in the namespace of this thread.
pub(crate) fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().map_err(|why| format!("ip: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
}

/// Turns on the default offloads of a veth.
pub(crate) fn default_offloads(names: &[&str]) {
    fairlink_testbed::default_offloads(names).unwrap();
}

/// Two machines, each a namespace, with a gateway between them: `at_gen` runs at 10.9.0.1, `at_sink` at 10.9.0.2. The
/// gateway runs until both are done.
pub(crate) fn between<A: Send, B: Send>(
    gateway: Gateway,
    at_gen: impl FnOnce() -> A + Send,
    at_sink: impl FnOnce() -> B + Send,
) -> Result<(A, B, GatewayStats), String> {
    let run = |stop: &AtomicBool| gateway.run(stop).unwrap_or_else(|error| panic!("{error}"));
    let (one, other, stats) = with_middle(run, at_gen, at_sink)?;
    println!("{stats}");
    Ok((one, other, stats))
}

/// As above, with any middle that passes frames between `in` and `out` until it is stopped.
pub(crate) fn with_middle<M: Send, A: Send, B: Send>(
    middle: impl FnOnce(&AtomicBool) -> M + Send,
    at_gen: impl FnOnce() -> A + Send,
    at_sink: impl FnOnce() -> B + Send,
) -> Result<(A, B, M), String> {
    // Into the namespace of a thread, which reports its number.
    let machine = |name: &'static str, address: &'static str| {
        let (number, moved) = (mpsc::channel::<u32>(), mpsc::channel::<()>());
        let enter = move || {
            enter_private_namespace().map_err(|error| error.to_string())?;
            let link = std::fs::read_link("/proc/thread-self").map_err(|error| error.to_string())?;
            let task = link.file_name().and_then(|name| name.to_str()?.parse().ok()).ok_or("no thread number")?;
            number.0.send(task).map_err(|error| error.to_string())?;
            moved.1.recv().map_err(|error| error.to_string())?;
            ip(&format!("addr add {address}/24 dev {name}"))?;
            ip(&format!("link set {name} up"))
        };
        (enter, number.1, moved.0)
    };
    let (enter_gen, gen_number, gen_moved) = machine("gen", "10.9.0.1");
    let (enter_sink, sink_number, sink_moved) = machine("sink", "10.9.0.2");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A machine stays until the gateway has ended; a vanishing interface would otherwise end it.
        let (finished, ended) = (mpsc::channel::<()>(), [mpsc::channel::<()>(), mpsc::channel::<()>()]);
        let [gen_ended, sink_ended] = ended;
        let (gen_finished, sink_finished) = (finished.0.clone(), finished.0);
        let gen_side = scope.spawn(move || {
            let result = enter_gen().map(|()| at_gen());
            let _ = (gen_finished.send(()), gen_ended.1.recv());
            result
        });
        let sink_side = scope.spawn(move || {
            let result = enter_sink().map(|()| at_sink());
            let _ = (sink_finished.send(()), sink_ended.1.recv());
            result
        });
        let mut wrong = Vec::new();
        for (name, number, moved) in [("gen", gen_number, gen_moved), ("sink", sink_number, sink_moved)] {
            let result = number.recv().map_err(|error| error.to_string());
            match result.and_then(|task| ip(&format!("link set {name} netns {task}"))) {
                Ok(()) => moved.send(()).unwrap_or(()),
                Err(why) => wrong.push(why),
            }
        }
        interface::set_up("in").unwrap();
        interface::set_up("out").unwrap();
        let forwarded = scope.spawn(|| middle(&stop));
        for _ in 0..2 {
            let _ = finished.1.recv();
        }
        stop.store(true, Ordering::Relaxed);
        let between = forwarded.join().unwrap();
        drop((gen_ended.0, sink_ended.0));
        let (one, other) = (gen_side.join().unwrap(), sink_side.join().unwrap());
        match (one, other, wrong.first()) {
            (Ok(one), Ok(other), None) => Ok((one, other, between)),
            (Err(why), ..) | (_, Err(why), _) => Err(why),
            (_, _, Some(why)) => Err(why.clone()),
        }
    })
}

pub(crate) fn client(port: u16, connections: u32, exchange: Option<TcpExchange>, millis: u64) -> TcpConfig {
    TcpConfig {
        to: SocketAddr::from(([10, 9, 0, 2], port)),
        connections,
        congestion_control: None,
        exchange,
        dscp: 0,
        duration: Nanos::from_millis(millis),
    }
}

/// Opens when the other side listens.
pub(crate) fn open(config: &TcpConfig) -> Result<TcpClient, TcpError> {
    let mut result = TcpClient::open(config.clone());
    for _ in 0..100 {
        if !matches!(result, Err(TcpError::Connect { .. })) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        result = TcpClient::open(config.clone());
    }
    result
}
