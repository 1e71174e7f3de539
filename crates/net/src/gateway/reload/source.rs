//! Reads the link of a running gateway from a link file.

use std::path::PathBuf;
use std::sync::Arc;

use fairlink_config::link::{LinkFile, ReadOptions};

use super::{ReloadError, RunningConfig};
use crate::gateway::needs::has_room;

/// Upper bound on the memory that reading a file takes: bytes for each byte of it, and bytes beside that.
const READING: [u64; 2] = [150, 32 << 20];

/// Checks that the process may have the memory that reading a link file of `bytes` bytes takes.
///
/// # Errors
/// [`ReloadError::NoRoom`].
pub fn has_room_to_read(bytes: u64) -> Result<(), ReloadError> {
    let [each, beside] = READING;
    let needed = bytes.saturating_mul(each).saturating_add(beside);
    has_room(needed).map_err(|_| ReloadError::NoRoom { needed })
}

impl RunningConfig {
    /// Returns the text of the present link file.
    ///
    /// # Errors
    /// [`ReloadError::NoFile`].
    pub(in crate::gateway) fn text(&self) -> Result<String, ReloadError> {
        let link = self.nominal.link.as_deref().ok_or(ReloadError::NoFile)?;
        Ok(link.source().inner().to_owned())
    }

    /// Reads this gateway's link from a file: from `text`, its name and content, or from the gateway's own file again if that is absent.
    /// The link keeps the name that it has.
    ///
    /// # Errors
    /// [`ReloadError`].
    pub(in crate::gateway) fn read(&self, text: Option<&(String, String)>) -> Result<Arc<LinkFile>, ReloadError> {
        let options = ReadOptions { leniency: self.leniency, scheduler: self.nominal.scheduler_asked.as_deref() };
        let own = || self.nominal.link.as_deref().map(LinkFile::source).ok_or(ReloadError::NoFile);
        let bytes = match text {
            Some((_, text)) => text.len() as u64,
            // Tables of classes make the source longer than the file is.
            None => {
                let source = own()?;
                std::fs::metadata(source.name()).map_or(0, |file| file.len()).max(source.inner().len() as u64)
            }
        };
        has_room_to_read(bytes)?;
        let read = match text {
            Some((name, text)) => LinkFile::all_from_text(name, text.clone(), &options),
            None => LinkFile::read_all(PathBuf::from(own()?.name()), &options),
        };
        let mut links = read.map_err(|problems| ReloadError::File(problems.lines()))?;
        let own = |link: &LinkFile| link.name.as_deref() == Some(self.nominal.link_name());
        // The only link of a file is meant if either has no name.
        let is_meant = links.len() == 1 && (links[0].name.is_none() || self.nominal.link_name.is_none());
        let mut link = match (is_meant, links.iter().position(own)) {
            (true, _) => links.remove(0),
            (_, Some(place)) => links.remove(place),
            (_, None) => {
                let links = links.into_iter().filter_map(|link| link.name).collect();
                return Err(ReloadError::NoLink { name: self.nominal.link_name().to_owned(), links });
            }
        };
        link.name.clone_from(&self.nominal.link_name);
        Ok(Arc::new(link))
    }
}
