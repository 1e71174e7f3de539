//! Runs a gateway during an action.
#![allow(dead_code, reason = "not every suite needs all of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlink_net::{Gateway, GatewayConfig, GatewayStats, Remote};

/// Sets flags at its end, also if a test fails: otherwise the threads that heed them would be waited for.
pub(crate) struct SetAtEnd<'a, const N: usize>(pub(crate) [&'a AtomicBool; N]);

impl<const N: usize> Drop for SetAtEnd<'_, N> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}

/// Runs `config` during `during`, and returns the final statistics.
pub(crate) fn through(config: GatewayConfig, during: impl FnOnce(&Remote)) -> GatewayStats {
    let gateway = Gateway::open(config).unwrap();
    let remote = gateway.remote();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| gateway.run(&stop).unwrap());
        {
            let _stop = SetAtEnd([&stop]);
            during(&remote);
        }
        let stats = run.join().unwrap();
        assert!(stats.gateway().balanced, "{stats:?}");
        let taps = [&stats.gateway().input, &stats.gateway().output].iter().any(|name| name.starts_with("tap"));
        if crate::cables::over_af_xdp() && !taps {
            assert!(
                stats.gateway().interfaces.iter().all(|interface| interface.backend == "af_xdp"),
                "{:?}",
                stats.gateway().interfaces
            );
        }
        println!("{stats}");
        stats
    })
}

/// Maximum time that [`until`] waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the gateway's statistics fulfil the condition.
pub(crate) fn until(remote: &Remote, mut become_so: impl FnMut(&GatewayStats) -> bool) {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if become_so(&remote.stats(Duration::from_secs(10)).unwrap()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let stats = remote.stats(Duration::from_secs(10)).map(|stats| stats.to_string());
    panic!("the condition of the test did not become true within {PATIENCE:?}: {stats:?}");
}
