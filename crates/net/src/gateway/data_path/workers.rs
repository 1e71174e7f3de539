//! The part of the data path for interfaces behind workers: outcomes that are known later, and frames that workers forward
//! by themselves.

use std::sync::Arc;

use fairlink_core::Nanos;

use crate::gateway::data_path::{DataPath, RealPath, count_outcome};
use crate::gateway::ports::Within;
use crate::gateway::workers::Alone;
use crate::io::backend::Backend;
use crate::io::clock::Clock;

impl<I: Backend, O: Backend, C: Clock> DataPath<I, O, C> {
    /// Makes room for packets on their way through workers, `count` each way.
    pub(crate) fn expect_under_way(&mut self, count: usize) {
        self.under_way.reserve(count);
        self.back_under_way.reserve(count);
        self.settled.reserve(count);
    }

    /// Counts packets whose outcome an interface behind workers has reported.
    pub(crate) fn settle(&mut self) {
        if !self.under_way.is_empty() {
            let mut settled = std::mem::take(&mut self.settled);
            self.output.settle(&mut settled);
            for outcome in settled.drain(..) {
                let Some(packet) = self.under_way.pop_front() else { break };
                let Self { pool, counters, tap, clock, .. } = self;
                count_outcome(&packet, outcome, pool, (counters, tap), clock);
                pool.end_reading(packet.handle as u32);
                self.moved = true;
            }
            self.settled = settled;
        }
        let (false, Some(stats)) = (self.back_under_way.is_empty(), &mut self.reverse) else { return };
        self.input.settle(&mut self.settled);
        for outcome in self.settled.drain(..) {
            let Some((frame, len)) = self.back_under_way.pop_front() else { break };
            self.pool.end_reading(frame);
            stats.settle(len, outcome);
            self.moved = true;
        }
    }

    /// Counts frames that workers forwarded and dropped by themselves.
    pub(crate) fn collect_alone(&mut self) {
        let Self { desk: Some(desk), counters, alone, reverse, .. } = self else { return };
        let back = desk.collect(|class, Alone { sent, dropped }| {
            counters.passed(class, sent, dropped);
            alone.sent += sent;
            alone.dropped += dropped;
        });
        if let Some(stats) = reverse {
            stats.received += back.sent;
            stats.received += back.dropped;
            stats.sent += back.sent;
            stats.dropped += back.dropped;
        }
    }

    /// Says how many frames workers forwarded by themselves since the last call, if any.
    pub(crate) fn told_alone(&mut self) -> Option<String> {
        self.collect_alone();
        let Alone { sent, dropped } = std::mem::take(&mut self.alone);
        (sent.packets + dropped.packets > 0).then(|| {
            format!(
                "the data thread made no turn for a while: workers forwarded {} packets past the scheduler, each class at its last rate or its guarantee, and dropped {} beyond that",
                sent.packets, dropped.packets
            )
        })
    }
}

impl RealPath {
    /// Parts that workers share with this thread.
    pub(crate) fn for_workers(&self) -> Within {
        Within { clock: self.clock, desk: self.desk.as_ref().map(|end| Arc::clone(&end.desk)) }
    }

    /// Starts the workers of the interfaces, if there are any. For `alone_for` from a turn they may forward by themselves.
    pub(crate) fn start(&self, alone_for: Nanos) {
        if let Some(crew) = self.input.crew() {
            crew.set_window(alone_for);
            crew.start();
        }
    }

    /// Ends the workers of the interfaces, if there are any, and counts what they report.
    pub(crate) fn end_workers(&mut self) {
        self.input.end();
        self.output.end();
        self.settle();
    }
}
