//! Rates and ideals of the last 15 minutes, in bounded memory.

use std::collections::{HashMap, VecDeque};

use fairlink_report::Content;
use schemars::JsonSchema;
use serde::Serialize;

/// Span of time that is kept, in seconds.
const SPAN_S: f64 = 900.0;
/// Shortest distance of two points in seconds.
const STEP_S: f64 = 1.0;
/// Memory for the points of a link, in bytes.
const BYTES: usize = 16 << 20;

/// Rate and ideal of each class; NaN where there is none. Four bytes each are exact to one part in 10^7.
type Values = Box<[[f32; 2]]>;

/// The history of one link.
#[derive(Debug, Default)]
pub(crate) struct History {
    names: Vec<String>,
    /// Time since the epoch at the end of each, in seconds.
    points: VecDeque<(f64, Values)>,
    /// Length in seconds of the intervals since the last point, and the sums of their values times their lengths.
    since: f64,
    sums: Vec<[f64; 2]>,
}

/// The content of the document `history`: rates and ideals of the last 15 minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct HistoryContent {
    /// Name of the link.
    pub link: String,
    /// Shortest distance of two points in seconds. It is longer where there are many classes, because the memory for
    /// the points is bounded.
    pub step_s: f64,
    /// Names of the classes, the link's first.
    pub classes: Vec<String>,
    /// Time at the end of each point, in seconds since 1970.
    pub at_s: Vec<f64>,
    /// By class, the rate in bit/s at each point; `null` where it was not measured.
    pub rate_bps: Vec<Vec<Option<f32>>>,
    /// By class, the ideal in bit/s at each point; `null` where it was not computed.
    pub ideal_bps: Vec<Vec<Option<f32>>>,
}

impl Content for HistoryContent {
    const KIND: &'static str = "history";
}

impl History {
    /// Most points of a link with this many classes.
    fn most(classes: usize) -> usize {
        let each = classes.max(1) * size_of::<[f32; 2]>() + size_of::<(f64, Values)>();
        (BYTES / each).clamp(2, (SPAN_S / STEP_S) as usize)
    }

    /// Shortest distance of two points in seconds.
    pub(crate) fn step_s(&self) -> f64 {
        SPAN_S / Self::most(self.names.len()) as f64
    }

    /// Takes the classes of a link. Those that it had before keep their points, by name.
    pub(crate) fn set_classes<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        let names: Vec<String> = names.map(str::to_owned).collect();
        if names == self.names {
            return;
        }
        let before: HashMap<&str, usize> =
            self.names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let from: Vec<Option<usize>> = names.iter().map(|name| before.get(name.as_str()).copied()).collect();
        for (_, values) in &mut self.points {
            *values = from.iter().map(|at| at.map_or([f32::NAN; 2], |at| values[at])).collect();
        }
        self.names = names;
        self.since = 0.0;
        self.sums = vec![[0.0; 2]; self.names.len()];
        self.forget();
    }

    /// Adds an interval of `seconds` that ends at `at_s`, with rate and ideal of each class. It becomes a point with
    /// those before it as soon as they are as long as a step.
    pub(crate) fn add(&mut self, at_s: f64, seconds: f64, values: impl Iterator<Item = [Option<f64>; 2]>) {
        self.since += seconds;
        for (sums, values) in self.sums.iter_mut().zip(values) {
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value.unwrap_or(f64::NAN) * seconds;
            }
        }
        // Intervals of a second are sometimes a little shorter.
        if self.since < 0.95 * self.step_s() {
            return;
        }
        let since = self.since;
        let point = self.sums.iter().map(|sums| sums.map(|sum| (sum / since) as f32)).collect();
        self.points.push_back((at_s, point));
        self.since = 0.0;
        self.sums.fill([0.0; 2]);
        self.forget();
    }

    fn forget(&mut self) {
        let most = Self::most(self.names.len());
        let last = self.points.back().map_or(0.0, |&(at, _)| at);
        while self.points.len() > most || self.points.front().is_some_and(|&(at, _)| at < last - SPAN_S) {
            self.points.pop_front();
        }
    }

    /// Returns the document of the link, with the classes that `takes` selects.
    pub(crate) fn content(&self, link: &str, takes: impl Fn(&str) -> bool) -> HistoryContent {
        let taken: Vec<usize> = (0..self.names.len()).filter(|&at| takes(&self.names[at])).collect();
        let of = |which: usize| -> Vec<Vec<Option<f32>>> {
            let value = |values: &Values, class: usize| Some(values[class][which]).filter(|value| !value.is_nan());
            taken.iter().map(|&class| self.points.iter().map(|(_, values)| value(values, class)).collect()).collect()
        };
        HistoryContent {
            link: link.to_owned(),
            step_s: self.step_s(),
            classes: taken.iter().map(|&class| self.names[class].clone()).collect(),
            at_s: self.points.iter().map(|&(at, _)| at).collect(),
            rate_bps: of(0),
            ideal_bps: of(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(rate: f64) -> impl Iterator<Item = [Option<f64>; 2]> {
        std::iter::repeat([Some(rate), None])
    }

    #[test]
    fn fifteen_minutes_are_kept_and_no_more() {
        let mut history = History::default();
        history.set_classes(["link", "a"].into_iter());
        for second in 1..=1000 {
            history.add(f64::from(second), 1.0, constant(f64::from(second)));
        }
        let content = history.content("l", |_| true);
        assert_eq!((content.at_s.len(), content.at_s[0], content.step_s), (900, 101.0, 1.0));
        assert_eq!((content.rate_bps[1][899], content.ideal_bps[1][899]), (Some(1000.0), None));
        assert_eq!(history.content("l", |name| name == "a").classes, ["a"]);
    }

    #[test]
    fn many_classes_have_fewer_points_which_are_means_over_longer_steps() {
        let mut history = History::default();
        let names: Vec<String> = (0..10_000).map(|class| class.to_string()).collect();
        history.set_classes(names.iter().map(String::as_str));
        let step = history.step_s();
        assert!(step > 4.0 && step < 5.0, "{step}");
        for second in 0..2000 {
            history.add(f64::from(second), 1.0, constant(f64::from(second)));
        }
        let content = history.content("l", |name| name == "7");
        let bytes = history.points.len() * 10_000 * size_of::<[f32; 2]>();
        assert!(bytes <= BYTES && content.at_s.len() > 170, "{bytes} {}", content.at_s.len());
        let (at, rate) = (content.at_s[5], content.rate_bps[0][5].unwrap());
        assert!(
            f64::from(rate) < at && f64::from(rate) > at - step - 1.0,
            "{rate} is the mean of the step that ends at {at}"
        );
        // A million classes still have two.
        assert_eq!(History::most(1_000_000), 2);
    }

    #[test]
    fn a_class_keeps_its_points_when_others_come_and_go() {
        let mut history = History::default();
        history.set_classes(["link", "a", "b"].into_iter());
        history.add(1.0, 1.0, [[Some(3.0), Some(4.0)], [Some(1.0), None], [Some(2.0), None]].into_iter());
        history.set_classes(["link", "b", "c"].into_iter());
        history.add(2.0, 1.0, constant(9.0));
        let content = history.content("l", |_| true);
        assert_eq!(content.classes, ["link", "b", "c"]);
        assert_eq!(content.rate_bps, [[Some(3.0), Some(9.0)], [Some(2.0), Some(9.0)], [None, Some(9.0)]]);
        assert_eq!(content.ideal_bps[0], [Some(4.0), None]);
    }
}
