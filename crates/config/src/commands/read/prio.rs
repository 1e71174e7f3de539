//! `prio` at the root: bands that are served in order, each a class. A frame that no filter takes goes to the band of
//! the priority that the kernel gives to a packet of IPv4 that it forwards, by its type of service (`rt_tos2priority`,
//! net/ipv4/route.c); tc-prio(8) has the same table.

use crate::classid::Classid;
use crate::commands::filter::code_points;
use crate::commands::findings::changed;
use crate::commands::setup::{Class, Device, Filter, Root, RootKind, Settings, UNASSURED};
use crate::matching::Match;
use crate::problem::{Log, Problem, Span};

/// Bits of the type of service that give a priority, and the priority; all other frames have priority 0.
const PRIORITIES: [(u32, usize); 3] = [(0x10, 6), (0x08, 2), (0x18, 4)];
/// The bits of the type of service that count, without that of ECN.
const COUNTS: u32 = 0x18;

/// Adds the classes of all bands.
pub(super) fn bands(device: &mut Device, major: u16, bands: u16, whole: &Span) -> Option<()> {
    for minor in 1..=bands {
        let set = Settings { rate: Some(UNASSURED), ..Settings::default() };
        device.classes.push(Class {
            at: whole.clone(),
            id: Classid::new(major, minor)?,
            parent: None,
            set,
            queue: None,
        });
    }
    Some(())
}

/// Adds the filters of a priomap, behind those of the commands.
pub(super) fn by_type_of_service(device: &mut Device, log: &Log, notes: &mut Vec<Problem>) {
    let Some(Root { at, major, kind: RootKind::Prio { map, .. } }) = &device.root else { return };
    let mut filters = Vec::new();
    for (bits, priority) in PRIORITIES.into_iter().filter(|(_, priority)| map[*priority] != map[0]) {
        let Some(class) = Classid::new(*major, map[priority] + 1) else { continue };
        let made =
            code_points(bits, COUNTS).into_iter().filter_map(|point| Match::parse(&format!("ip dscp {point}")).ok());
        filters.extend(made.map(|made| Filter { at: at.clone(), preference: u64::MAX, class, made }));
    }
    if !filters.is_empty() {
        let why = format!(
            "priomap: IPv4 frames that no filter matches get a band by their type of service, like packets that the kernel forwards; others get {major:x}:{:x}",
            map[0] + 1
        );
        changed(at, why, log, notes);
    }
    device.filters.extend(filters);
}
