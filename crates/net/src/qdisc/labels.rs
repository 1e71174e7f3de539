//! A link file in the module's format: class numbers and the encoded configuration.

use std::collections::{HashMap, HashSet};

use fairlink_config::LinkFile;
use fairlink_core::{Leniency, Nanos};
use fairlink_schema::qdisc::{Config, Labels, MAX_MINOR};

use crate::qdisc::{QdiscError, QdiscState};

/// A link file, ready for the kernel.
#[derive(Clone, Debug)]
pub struct QdiscPlan {
    /// The major number of the queueing discipline.
    pub major: u16,
    /// Minor number by class id, the link included.
    pub minors: Vec<u16>,
    /// The encoded configuration.
    pub bytes: Vec<u8>,
}

/// Assigns class numbers to `link` and encodes it. A class has the `classid` of the file, else the number of the class
/// of the same name in `running`, else the first free number.
///
/// # Errors
/// More classes than numbers, or more than fit into a message.
pub fn plan(
    link: &LinkFile,
    running: Option<&QdiscState>,
    catch_up: Nanos,
    slack: Nanos,
) -> Result<QdiscPlan, QdiscError> {
    let classes = link.tree.len() - 1;
    if classes > usize::from(MAX_MINOR) {
        return Err(QdiscError::Classes { classes });
    }
    let said: HashMap<_, _> = link.classids.iter().map(|&(number, class)| (class, number.minor())).collect();
    let kept: HashMap<_, _> =
        running.iter().flat_map(|state| &state.classes).map(|class| (class.name.as_str(), class.minor)).collect();
    let mut taken: HashSet<u16> = said.values().copied().collect();
    let mut minors = vec![0; link.tree.len()];
    for class in link.tree.classes() {
        let kept = kept.get(link.names.name(class)).copied();
        if let Some(minor) = said.get(&class).copied().or_else(|| kept.filter(|minor| taken.insert(*minor))) {
            minors[class.index()] = minor;
        }
    }
    let mut free = (1..=MAX_MINOR).filter(|minor| !taken.contains(minor));
    let mut labels = Labels::new(classes)?;
    for class in link.tree.classes() {
        let minor = &mut minors[class.index()];
        if *minor == 0 {
            // An invalid number, if none is left.
            *minor = free.next().unwrap_or(u16::MAX);
        }
        labels.add(*minor, link.names.name(class).as_bytes())?;
    }
    let config = Config {
        scheduler: link.info(),
        // The module splits super-frames that are longer than a frame.
        tree: link.tree_of_frames(),
        overhead: link.overhead,
        leniency: Leniency::Refuse,
        default: link.default_class,
        catch_up,
        slack,
        labels: labels.sorted()?,
    };
    let major = link.classids.first().map(|(number, _)| number.major());
    let major = running.map(|state| state.major).or(major).unwrap_or(1);
    Ok(QdiscPlan { major, minors, bytes: config.write()? })
}
