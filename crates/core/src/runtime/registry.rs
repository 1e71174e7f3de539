//! All schedulers: the one table behind `fairlink schedulers` and the checks of link files.

use crate::contract::{Feature, SchedulerInfo};
use crate::schedulers::{
    cbq, corr, drr, drr_plus, drr_plus_plus, drr_plus_plus_mw00, fifo, fq_sds, hdrr, hfsc, hls, hpfq, hrr, htb, hvt,
    lqf, pifo_tree, qfq, rcsp, sced, scfq, sfq, virtual_clock, wf2q_plus, wfq, wrr,
};

/// Every scheduler, in the order in which they are listed. A `static`: a `const` would be compiled, with the constructors
/// and what they call, in every crate that uses it.
pub static SCHEDULERS: &[SchedulerInfo] = &[
    fifo::INFO,
    wrr::INFO,
    corr::INFO,
    hrr::INFO,
    drr::INFO,
    drr_plus::INFO,
    drr_plus_plus::INFO,
    drr_plus_plus_mw00::INFO,
    hdrr::INFO,
    hls::INFO,
    hvt::INFO,
    htb::INFO,
    htb::COMMON_DEFICIT,
    cbq::FORMAL,
    cbq::ANCESTOR_ONLY,
    cbq::TOP_LEVEL,
    virtual_clock::INFO,
    scfq::INFO,
    sfq::INFO,
    wfq::INFO,
    wf2q_plus::INFO,
    qfq::INFO,
    hpfq::INFO,
    pifo_tree::INFO,
    rcsp::INFO,
    sced::INFO,
    hfsc::INFO,
    fq_sds::LDF,
    fq_sds::LDF_SECOND,
    fq_sds::LTO,
    fq_sds::LTO_SECOND,
    fq_sds::LTO_LB,
    fq_sds::LTO_LB_SECOND,
    fq_sds::over_sced::LDF,
    fq_sds::over_sced::LTO,
    fq_sds::over_sced::LTO_LB,
    lqf::INFO,
];

/// Returns the scheduler with `name` as its name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static SchedulerInfo> {
    SCHEDULERS.iter().find(|info| info.is_called(name))
}

/// Returns the schedulers that support `feature`, in list order.
pub fn able(feature: Feature) -> impl Iterator<Item = &'static SchedulerInfo> {
    SCHEDULERS.iter().filter(move |info| info.supports(feature))
}
