//! Moments on request, kept for a short time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use fairlink_net::{ClassFilter, Links, Moment, Observer};

/// Time for which a moment is used again.
const FRESH: Duration = Duration::from_millis(200);
/// Maximum number of filters whose texts are kept with a moment.
const MOST_FILTERS: usize = 8;
/// Interval at which the data threads' answers are looked for.
const LOOK: Duration = Duration::from_millis(2);

/// Requests a moment and waits for it. Returns it with the time that its evaluation took.
pub(crate) async fn next(observer: &mut Observer) -> (Moment, Duration) {
    observer.ask();
    loop {
        let begun = Instant::now();
        if let Some(moment) = observer.poll() {
            return (moment, begun.elapsed());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A moment, and its OpenMetrics texts by filter.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) moment: Moment,
    texts: Mutex<Vec<(ClassFilter, Bytes)>>,
}

impl Kept {
    pub(crate) fn open_metrics(&self, filter: ClassFilter) -> Bytes {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = texts.iter().find(|(known, _)| *known == filter) {
            return text.clone();
        }
        let text = Bytes::from(self.moment.open_metrics(&filter));
        if texts.len() < MOST_FILTERS {
            texts.push((filter, text.clone()));
        }
        text
    }
}

#[derive(Debug)]
struct State {
    observer: Observer,
    /// When the last moment was made.
    last: Option<(Instant, Arc<Kept>)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Moments {
    /// A request that is cut off leaves the observer to the next.
    state: tokio::sync::Mutex<State>,
}

impl Moments {
    pub(crate) fn new(links: Links) -> Self {
        Self { state: tokio::sync::Mutex::new(State { observer: Observer::new(links), last: None }) }
    }

    /// Returns a moment that is at most [`FRESH`] old. Requests that come while it is made share it.
    pub(crate) async fn fresh(&self) -> Arc<Kept> {
        let mut state = self.state.lock().await;
        let State { observer, last } = &mut *state;
        if let Some((at, kept)) = last
            && at.elapsed() < FRESH
        {
            return Arc::clone(kept);
        }
        let kept = Arc::new(Kept { moment: next(observer).await.0, texts: Mutex::default() });
        *last = Some((Instant::now(), Arc::clone(&kept)));
        kept
    }
}
