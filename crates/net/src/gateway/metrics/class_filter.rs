//! The query `class=GLOB&depth=N`: selects the classes in an answer. What is known of the link and of the gateway is
//! always included.

use fairlink_core::{ClassId, Hierarchy};

/// Selected classes. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFilter {
    /// Names, with `*` for any letters and `?` for any one.
    class: Option<String>,
    /// Maximum number of levels below the link.
    depth: Option<usize>,
}

impl ClassFilter {
    /// Parses the query of a request, behind the `?`.
    ///
    /// # Errors
    /// As text: an unknown parameter, a duplicate, a depth that is no number from 1 on.
    pub fn read(query: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let twice = match &*name {
                "class" => filter.class.replace(value.into_owned()).is_some(),
                "depth" => {
                    let depth = value.parse().ok().filter(|&depth: &usize| depth > 0);
                    let depth = depth.ok_or_else(|| {
                        format!("depth={value}: must be a number of levels below the link, at least 1")
                    })?;
                    filter.depth.replace(depth).is_some()
                }
                other => return Err(format!("unknown parameter {other:?}; the parameters are class=GLOB and depth=N")),
            };
            if twice {
                return Err(format!("{name} is given twice; give it once"));
            }
        }
        Ok(filter)
    }

    /// Returns true if `class`, called `name`, is selected.
    pub(super) fn takes(&self, tree: &Hierarchy, class: ClassId, name: &str) -> bool {
        let depth = || std::iter::successors(tree.parent(class), |&above| tree.parent(above)).count();
        self.class.as_deref().is_none_or(|glob| matches(glob, name)) && self.depth.is_none_or(|most| depth() <= most)
    }
}

/// Returns true if `glob` matches the whole of `name`. It backtracks to the last `*` only, so that the time is at most
/// the product of both lengths.
fn matches(glob: &str, name: &str) -> bool {
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match glob.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == name[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    (at, seen) = (place + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|&letter| letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_matches_whole_names() {
        for (glob, name, is) in [
            ("*", "", true),
            ("voice", "voice", true),
            ("voice", "voice2", false),
            ("v*e", "voice", true),
            ("v*e", "voices", false),
            ("*-down", "a-down-down", true),
            ("?1", "A1", true),
            ("?1", "1", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
            ("日*", "日本", true),
        ] {
            assert_eq!(matches(glob, name), is, "{glob} {name}");
        }
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)), "it ends");
    }

    #[test]
    fn a_query_is_read_or_refused_with_what_there_is() {
        let filter = ClassFilter::read("class=a%2Ab+c*&depth=2").unwrap();
        assert_eq!(filter, ClassFilter { class: Some("a*b c*".to_owned()), depth: Some(2) });
        assert_eq!(ClassFilter::read(""), Ok(ClassFilter::default()));
        for (query, says) in [
            ("depth=0", "at least 1"),
            ("depth=x", "depth=x"),
            ("classes=x", "class=GLOB"),
            ("class=a&class=b", "twice"),
        ] {
            assert!(ClassFilter::read(query).unwrap_err().contains(says), "{query}");
        }
    }
}
