//! The links of a process, for whoever tells about all of them: the control socket, the metrics.

use std::sync::{Arc, Mutex, PoisonError};

use crate::gateway::remote::Remote;

/// The links that a process serves, by name, in their order. They may come and go while it runs; clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Links(Arc<Mutex<Vec<(String, Remote)>>>);

impl Links {
    /// These links.
    #[must_use]
    pub fn new(links: Vec<(String, Remote)>) -> Self {
        Self(Arc::new(Mutex::new(links)))
    }

    /// Those that there are now.
    #[must_use]
    pub fn list(&self) -> Vec<(String, Remote)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These links from now on.
    pub fn set(&self, links: Vec<(String, Remote)>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), links);
        drop(before);
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
