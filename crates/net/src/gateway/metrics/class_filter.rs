//! The query `class=GLOB&class=GLOB&depth=N`: selects the classes in an answer. What is known of the link and of the gateway is
//! always included.

use fairlink_core::{ClassId, Hierarchy};

/// Most patterns in a query: each is compared with the name of each class.
const MOST_PATTERNS: usize = 32;

/// Selected classes. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFilter {
    /// Patterns of names, with `*` for any letters and `?` for any one. A class is selected by any of them; by all, if
    /// there is none.
    classes: Vec<String>,
    /// Maximum number of levels below the link.
    depth: Option<usize>,
}

impl ClassFilter {
    /// Parses the query of a request, behind the `?`.
    ///
    /// # Errors
    /// As text: an unknown parameter, too many patterns, a duplicate depth, one that is no number from 1 on.
    pub fn read(query: &str) -> Result<Self, String> {
        Self::parse(query, "the parameters are class=GLOB and depth=N")
    }

    /// Parses a query that selects classes by their names alone.
    ///
    /// # Errors
    /// As [`ClassFilter::read`]; a depth.
    pub fn read_names(query: &str) -> Result<Self, String> {
        const THERE_IS: &str = "the parameter is class=GLOB";
        let filter = Self::parse(query, THERE_IS)?;
        if filter.depth.is_some() { Err(format!("unknown parameter \"depth\"; {THERE_IS}")) } else { Ok(filter) }
    }

    fn parse(query: &str, there_is: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "class" if filter.classes.len() == MOST_PATTERNS => {
                    return Err(format!("more than {MOST_PATTERNS} of class=GLOB; one selects several: class=a*"));
                }
                "class" => filter.classes.push(value.into_owned()),
                "depth" => {
                    let depth = value.parse().ok().filter(|&depth: &usize| depth > 0);
                    let depth = depth.ok_or_else(|| {
                        format!("depth={value}: must be a number of levels below the link, at least 1")
                    })?;
                    if filter.depth.replace(depth).is_some() {
                        return Err("depth is given twice; give it once".to_owned());
                    }
                }
                other => return Err(format!("unknown parameter {other:?}; {there_is}")),
            }
        }
        Ok(filter)
    }

    /// Returns true if a class of this name is selected, at whatever depth.
    #[must_use]
    pub fn takes_name(&self, name: &str) -> bool {
        self.classes.is_empty() || self.classes.iter().any(|glob| matches(glob, name))
    }

    /// Returns true if `class`, called `name`, is selected.
    pub(super) fn takes(&self, tree: &Hierarchy, class: ClassId, name: &str) -> bool {
        let depth = || std::iter::successors(tree.parent(class), |&above| tree.parent(above)).count();
        self.takes_name(name) && self.depth.is_none_or(|most| depth() <= most)
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
        assert_eq!(filter, ClassFilter { classes: vec!["a*b c*".to_owned()], depth: Some(2) });
        let either = ClassFilter::read("class=a*&class=?z").unwrap();
        assert_eq!(["ab", "xz", "b", ""].map(|name| either.takes_name(name)), [true, true, false, false]);
        assert!(ClassFilter::read_names("class=a").is_ok_and(|filter| filter.takes_name("a")));
        assert_eq!(
            ClassFilter::read_names("depth=1").unwrap_err(),
            "unknown parameter \"depth\"; the parameter is class=GLOB"
        );
        assert_eq!(ClassFilter::read(""), Ok(ClassFilter::default()));
        for (query, says) in [
            ("depth=0", "at least 1"),
            ("depth=x", "depth=x"),
            ("classes=x", "class=GLOB"),
            ("depth=1&depth=2", "twice"),
            (&"class=a&".repeat(33), "more than 32"),
        ] {
            assert!(ClassFilter::read(query).unwrap_err().contains(says), "{query}");
        }
    }
}
