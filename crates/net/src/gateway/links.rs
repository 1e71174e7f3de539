//! The links of a process, for whoever tells about all of them: the control socket, the metrics.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::gateway::reload::{ReloadRequest, ReloadedLink, ReloadedLinks, Wanted};
use crate::gateway::remote::Remote;

/// The links that a process serves, by name, in their order. They may come and go while it runs; clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Links(Arc<Inner>);

/// Reloads all links, or says why not.
pub(super) type Reload = dyn Fn(&ReloadRequest) -> Result<ReloadedLinks, String> + Send + Sync;

#[derive(Default)]
struct Inner {
    list: Mutex<Vec<(String, Remote)>>,
    /// By whom links come and go; nobody where they are always the same.
    reload: OnceLock<Box<Reload>>,
    /// What happened to those who tell about the links, until it is logged.
    news: Mutex<Vec<String>>,
}

/// News that are kept until they are logged; later ones are lost.
const MOST_NEWS: usize = 64;

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("list", &self.list).finish_non_exhaustive()
    }
}

impl Links {
    /// These links.
    #[must_use]
    pub fn new(links: Vec<(String, Remote)>) -> Self {
        Self(Arc::new(Inner { list: Mutex::new(links), ..Inner::default() }))
    }

    /// Those that there are now.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Remote)> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These links from now on.
    pub fn set(&self, links: Vec<(String, Remote)>) {
        let before = std::mem::replace(&mut *self.0.list.lock().unwrap_or_else(PoisonError::into_inner), links);
        drop(before);
    }

    /// Has this logged.
    pub(super) fn say(&self, text: String) {
        let mut news = self.0.news.lock().unwrap_or_else(PoisonError::into_inner);
        if news.len() < MOST_NEWS {
            news.push(text);
        }
    }

    /// What has happened to the control socket and the metrics since this was asked last, a sentence each.
    #[must_use]
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whoever wants all links reloaded asks `reload` from now on.
    pub(super) fn reload_by(&self, reload: Box<Reload>) {
        // There is one who does that, and it says so once.
        let _ = self.0.reload.set(reload);
    }

    /// Reloads all links: they come and go where somebody sees to that, else each takes its change, or none does.
    ///
    /// # Errors
    /// Why not, for the user.
    pub(super) fn reload(&self, asked: &ReloadRequest) -> Result<ReloadedLinks, String> {
        if let Some(reload) = self.0.reload.get() {
            return reload(asked);
        }
        let wanted = Wanted::File { text: asked.text.clone(), moves: asked.moves.clone() };
        let links = self.list();
        let all = |dry_run| -> Result<Vec<ReloadedLink>, String> {
            let of = |(link, remote): &(String, Remote)| {
                let reloaded = remote.change(&wanted, dry_run).map_err(|error| error.to_string())?;
                Ok(ReloadedLink { link: link.clone(), was: None, reloaded })
            };
            links.iter().map(of).collect()
        };
        if links.len() > 1 && !asked.dry_run {
            all(true)?;
        }
        Ok(ReloadedLinks { links: all(asked.dry_run)?, committed: !asked.dry_run, ..ReloadedLinks::default() })
    }

    /// The link called `name`, the only one where no name is given; otherwise what to do, in words.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Remote, String> {
        let mut links = self.list();
        let names = || links.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            None if links.len() == 1 => Ok(links.remove(0).1),
            None if links.is_empty() => Err("no link is served now".to_owned()),
            None => Err(format!("there are several links; name one: {}", names())),
            Some(name) => match links.iter().position(|(link, _)| link == name) {
                Some(at) => Ok(links.remove(at).1),
                None => Err(format!("there is no link {name:?}; there are: {}", names())),
            },
        }
    }
}

/// A process with one link, called as it calls itself.
impl From<Remote> for Links {
    fn from(remote: Remote) -> Self {
        Self::new(vec![(remote.passage().link.clone(), remote)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::account::Passage;
    use crate::gateway::remote::Publisher;

    #[test]
    fn a_link_is_found_by_its_name_and_the_only_one_without() {
        let publisher = Publisher::new(Passage::flat(1));
        let one = Links::from(publisher.remote());
        assert!(one.find(None).is_ok() && one.find(Some("out")).is_ok());
        assert_eq!(one.find(Some("up")).unwrap_err(), "there is no link \"up\"; there are: out");
        let clone = one.clone();
        one.set(vec![("up".to_owned(), publisher.remote()), ("down".to_owned(), publisher.remote())]);
        assert_eq!(clone.find(None).unwrap_err(), "there are several links; name one: up, down");
        assert!(clone.find(Some("down")).is_ok());
        one.set(Vec::new());
        assert_eq!(clone.find(None).unwrap_err(), "no link is served now");
    }
}
