//! Starting a gateway. Everything that can be checked is checked here, before a frame moves, and all memory is reserved.

use std::sync::Arc;

use fairlink_core::{Driver, Members, Metered, Pacer};

use crate::gateway::account::{DelayTable, MAX_HISTOGRAMS, Passage};
use crate::gateway::config::{GatewayConfig, Processor};
use crate::gateway::data_path::RealPath;
use crate::gateway::liveness::Liveness;
use crate::gateway::needs::{Needs, check_classes, fit_largest_packet};
use crate::gateway::open_error::OpenError;
use crate::gateway::ports::{Looked, Ports};
use crate::gateway::queue_lengths::QueueLengths;
use crate::gateway::reload::Present;
use crate::gateway::remote::Publisher;
use crate::gateway::run::Gateway;
use crate::gateway::stats::{EdgeCounters, MemoryBound};
use crate::io::af_packet::AfPacket;
use crate::io::clock::MonotonicClock;
use crate::io::frame_pool::{FramePool, HEADROOM};
use crate::io::pacing::DEFAULT_CATCH_UP;
use crate::io::sys;
use crate::wire::classify::Classifier;
use crate::wire::labels::Labels;

impl Gateway {
    /// Checks the configuration and the interfaces, opens both, and reserves all memory. Frames that arrive from now on wait
    /// in the kernel's buffers until [`Gateway::run`].
    ///
    /// # Errors
    /// [`OpenError`], each with what to do about it. Nothing is changed on the interfaces then.
    pub fn open(mut config: GatewayConfig) -> Result<Self, OpenError> {
        if config.input == config.output {
            return Err(OpenError::SameInterface { name: config.input });
        }
        check_classes(&config)?;
        let mut notes = Vec::new();
        let looked = Looked::up(&config)?;
        looked.check(config.force, &mut notes)?;
        let (input, output) = (looked.input.clone(), looked.output.clone());
        if input.mtu > output.mtu {
            notes.push(format!(
                "{} carries packets of up to {} B, {} only of {} B: longer ones are dropped as too long",
                input.name, input.mtu, output.name, output.mtu
            ));
        }
        fit_largest_packet(&mut config, &input, &mut notes)?;
        let frame_bytes = input.largest_frame().max(output.largest_frame()).saturating_add(HEADROOM as u32);
        let needs = Needs::of(&config, frame_bytes)?;
        let scheduler = config.scheduler.build(&config.tree, config.leniency, Members::new())?;
        // What queues may need that are longer later on.
        let room = config.memory_limit / FramePool::memory(1, frame_bytes);
        let pool = FramePool::with_room(needs.frames, u32::try_from(room).unwrap_or(u32::MAX), frame_bytes)?;
        let processor = pick(config.processor)?;

        let Ports { input: from, output: to, held } = Ports::open(&config, looked, &mut notes)?;
        for (name, socket) in [(&input.name, &from), (&output.name, &to)] {
            let (received, _) = socket.kernel_buffer_bytes();
            if received > 0 && received < config.sockets.receive_buffer {
                notes.push(format!(
                    "{name}: the kernel allows a receive buffer of {received} B, {} were asked for; `sysctl \
                     net.core.rmem_max` is the limit without CAP_NET_ADMIN",
                    config.sockets.receive_buffer
                ));
            }
        }

        let classifier = Classifier::new(&config.matches, config.default_class);
        let delays = DelayTable::new(&config.tree);
        let counters = EdgeCounters::new(delays.clone());
        let queues = QueueLengths::new(&config.tree);
        let without_delays = DelayTable::without(&config.tree);
        if without_delays > 0 {
            notes.push(format!(
                "delays are measured one by one for the first {MAX_HISTOGRAMS} leaves; those of the other {without_delays} count \
                 only in the link's"
            ));
        }
        let kernel = [&from, &to].map(AfPacket::kernel_buffer_bytes).map(|(a, b)| u64::from(a) + u64::from(b));
        let counted = counters.memory_bytes() + queues.memory_bytes();
        let memory = MemoryBound {
            classifier_bytes: classifier.memory_bytes() as u64,
            split_bytes: (from.memory_bytes() + to.memory_bytes()) as u64,
            kernel_bytes: kernel.iter().sum(),
            ..needs.bound(&config.tree, pool.frame_bytes() as u32, counted)
        };
        let catch_up = config.catch_up.unwrap_or(DEFAULT_CATCH_UP);
        let pacer = Pacer::new(config.tree.link().rate, catch_up);
        let driver = Driver::new(Metered::new(scheduler, &config.tree)?, pacer)?;
        let labels = Labels::new(&config.tree);
        let passage = Arc::new(Passage::of(&config, delays, memory, needs.frames, 0));
        let present = Present::new(&config, input, &pool, Arc::clone(&passage), &labels);
        let data_path = RealPath::new(
            pool,
            from,
            to,
            MonotonicClock::start(),
            classifier,
            labels,
            config.overhead,
            counters,
            queues,
            config.reverse,
        );
        config.take_over = false;
        Ok(Self {
            liveness: Liveness::new(config.stall_after),
            config,
            driver,
            data_path,
            held,
            leaving: false,
            notes,
            processor,
            publisher: Publisher::of(present, passage),
        })
    }
}

/// The processor to run on, checked.
fn pick(processor: Processor) -> Result<Option<usize>, OpenError> {
    match processor {
        Processor::Any => Ok(None),
        Processor::Last => Ok(sys::allowed_processors().last().copied()),
        Processor::BeforeLast(places) => {
            let allowed = sys::allowed_processors();
            Ok(allowed.iter().rev().cycle().nth(places % allowed.len().max(1)).copied())
        }
        Processor::Number(number) if sys::allowed_processors().contains(&number) => Ok(Some(number)),
        Processor::Number(processor) => {
            let source = std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!("this process may use {:?}", sys::allowed_processors()),
            );
            Err(OpenError::Processor { processor, source })
        }
    }
}
