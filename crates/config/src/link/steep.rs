//! A curve that becomes steeper and does not start flat: refused with its place, its numbers, and one that can be had.

use fairlink_core::{ClassId, Feature, Nanos};

use super::LinkFile;
use crate::problem::{Problem, ProblemKind};
use crate::units::{show_rate, show_time};

impl LinkFile {
    /// Returns the error for a convex curve of `class` whose first slope is above zero: it does not stay two pieces
    /// (\[hfsc\] Section 4). Not for an upper limit, which may not start flat either.
    pub(super) fn steep_curve(&self, class: ClassId) -> Option<Problem> {
        let config = self.tree.config(class);
        let curves = [
            ("real_time", config.real_time, Feature::ServiceCurves),
            ("link_share", config.link_share, Feature::LinkCurves),
        ];
        let (key, m1, d, m2, feature) = curves.into_iter().find_map(|(key, curve, feature)| {
            let curve = curve.filter(|curve| curve.d > Nanos::ZERO && curve.m1 < curve.m2)?;
            Some((key, curve.m1?, curve.d, curve.m2?, feature))
        })?;
        // m1 d = m2 (d - flat): rounded up, so that the curve is never above the one written.
        let flat = u128::from(d.0) * u128::from(m2.bps() - m1.bps());
        let flat = Nanos(flat.div_ceil(u128::from(m2.bps())) as u64);
        let message = format!(
            "\"{}\" has a convex {key} curve that does not start flat: {} for {}, then {}. No scheduler supports it, because it does not stay two pieces. A supported curve, equal from {} on: {{ m1 = \"0bit\", d = \"{}\", m2 = \"{}bit\" }}",
            self.names.name(class),
            show_rate(m1),
            show_time(d),
            show_rate(m2),
            show_time(d),
            key_time(flat),
            m2.bps()
        );
        Some(Problem::error(&self.source, self.feature_span(class, feature), ProblemKind::Refused { message }))
    }
}

/// A time as a link file writes it.
fn key_time(time: Nanos) -> String {
    show_time(time).replace(' ', "")
}
