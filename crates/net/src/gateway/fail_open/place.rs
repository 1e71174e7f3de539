//! Programs in their places at interfaces.

use std::sync::Arc;

use crate::io::bpf::{Attachment, BpfError, Link, Program};
use crate::io::sys;

/// A program at an interface.
#[derive(Debug)]
pub(super) struct Place {
    /// The program's part in the arrangement, for messages.
    what: &'static str,
    program: Arc<Program>,
    attachment: Attachment,
    pub(super) interface: (String, i32),
    /// True for a link whose descriptor is above those of other files, so that it is closed first when the process
    /// ends.
    high: bool,
    pub(super) link: Link,
}

impl Place {
    /// Attaches `program` to `interface` (name and index).
    ///
    /// # Errors
    /// [`BpfError`].
    pub(super) fn new(
        what: &'static str,
        program: &Arc<Program>,
        attachment: Attachment,
        interface: (&str, i32),
        high: bool,
    ) -> Result<Self, BpfError> {
        let program = Arc::clone(program);
        let link = attached(&program, attachment, interface.1, high)?;
        Ok(Self { what, program, attachment, interface: (interface.0.to_owned(), interface.1), high, link })
    }

    /// Returns the missing part, or `None` if it is attached, or if the interface has been replaced.
    pub(super) fn fault(&self) -> Option<String> {
        let missing = !self.link.is_attached().unwrap_or(true) && is_there(&self.interface);
        missing.then(|| format!("the program {} was no longer attached to {}", self.what, self.interface.0))
    }

    /// Attaches the program again.
    pub(super) fn restore(&mut self) -> Result<(), BpfError> {
        self.link = attached(&self.program, self.attachment, self.interface.1, self.high)?;
        Ok(())
    }
}

fn attached(program: &Program, attachment: Attachment, index: i32, high: bool) -> Result<Link, BpfError> {
    let link = program.attach(attachment, index)?;
    if high { link.moved_up() } else { Ok(link) }
}

/// Returns true while the interface with this name has this index.
pub(super) fn is_there((name, index): &(String, i32)) -> bool {
    sys::interface_index(name).is_ok_and(|found| found == *index)
}
