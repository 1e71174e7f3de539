//! Variants in which tests of the gateway run again.

use fairlink_testbed::PrivateNamespace;

use crate::cables;
use crate::support::Also;

/// Further runs of these tests: with gateways that use AF_XDP, and with gateways on two cores.
pub(crate) fn over_af_xdp_and_on_two_cores(tests: &'static [&'static str]) -> Vec<Also> {
    vec![
        Also { over: "over_af_xdp", variables: &[(cables::BACKEND, "af_xdp")], why_not: cables::why_no_af_xdp, tests },
        on_two_cores(tests),
    ]
}

/// A further run of these tests with gateways on two cores: one worker.
pub(crate) fn on_two_cores(tests: &'static [&'static str]) -> Also {
    Also { over: "on_two_cores", variables: &[(cables::CORES, "2")], why_not: why_no_two_cores, tests }
}

/// A further run of these tests with gateways on two cores that use AF_XDP.
pub(crate) fn over_af_xdp_on_two_cores(tests: &'static [&'static str]) -> Also {
    let why_not = |namespace: &_| why_no_two_cores(namespace).or_else(|| cables::why_no_af_xdp(namespace));
    let variables = &[(cables::BACKEND, "af_xdp"), (cables::CORES, "2")];
    Also { over: "over_af_xdp_on_two_cores", variables, why_not, tests }
}

/// A further run of these tests with gateways on three cores: two workers. Some threads may share a processor.
pub(crate) fn on_three_cores(tests: &'static [&'static str]) -> Also {
    Also { over: "on_three_cores", variables: &[(cables::CORES, "3")], why_not: |_| None, tests }
}

/// Returns the reason why two cores do not share a link here; `None` if they do.
pub(crate) fn why_no_two_cores(_: &PrivateNamespace) -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors < 2).then(|| format!("this process may use {processors} processor"))
}
