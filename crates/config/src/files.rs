//! Files that a text names: a link file beside a scenario, a table of classes, a recording, a script.
//!
//! A [`Source`](crate::Source) carries the [`Files`] that it was read from, and every file that it names is opened
//! there. So a text is read the same way from a disk, from memory, and where there are no files at all.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Longest file that is read, in bytes: a tree of a million leaves has some hundred megabytes.
pub(crate) const MAX_FILE: u64 = 256 << 20;

/// Returns true if a file is one of tc commands: by its name, which ends with `.tc`.
pub(crate) fn is_tc_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tc")
}

/// Most that is read of a text. What a text may need of memory depends on the place where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Classes of all links of a text together.
    pub classes: usize,
    /// Bytes of a text whose templates and tables of classes are expanded.
    pub bytes: usize,
}

impl Default for Limits {
    /// Those of the core, and of a file.
    fn default() -> Self {
        Self { classes: usize::MAX, bytes: MAX_FILE as usize }
    }
}

/// Opens files by their paths.
pub trait Files: Debug + Send + Sync {
    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// The reason why the file cannot be read, as a phrase.
    fn open(&self, path: &Path) -> Result<Box<dyn Read>, String>;

    /// Returns the limits of texts that come with these files.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// The file system of this machine. Reading a pipe or a device may never end, and opening a pipe without a writer
/// blocks. So only regular files are opened, and descriptors that the user has open: standard input, and those of the
/// shell's process substitution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn open(&self, path: &Path) -> Result<Box<dyn Read>, String> {
        let name = path.display().to_string();
        let handed_over = ["/dev/stdin", "/dev/fd/", "/proc/self/fd/"].iter().any(|known| name.starts_with(known));
        let found = fs::metadata(path).map_err(|error| error.to_string())?;
        if found.is_dir() {
            return Err("it is a directory".to_owned());
        }
        if !found.is_file() && !handed_over {
            return Err("it is a pipe, a device or a socket, not a regular file; /dev/stdin is accepted".to_owned());
        }
        let file = File::open(path).map_err(|error| error.to_string())?;
        Ok(Box::new(file))
    }
}

/// Files that are held in memory, by their paths. `.` and `..` in a path are resolved.
#[derive(Clone, Debug, Default)]
pub struct Memory(BTreeMap<PathBuf, Arc<[u8]>>);

impl Memory {
    /// These files.
    pub fn new<P: AsRef<Path>, B: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, B)>) -> Self {
        Self(files.into_iter().map(|(path, bytes)| (plain(path.as_ref()), bytes.into().into())).collect())
    }
}

impl Files for Memory {
    fn open(&self, path: &Path) -> Result<Box<dyn Read>, String> {
        let bytes = self.0.get(&plain(path)).ok_or("it is not among the given files")?;
        Ok(Box::new(Cursor::new(Arc::clone(bytes))))
    }
}

/// No files: a text that names one is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn open(&self, _path: &Path) -> Result<Box<dyn Read>, String> {
        Err("other files cannot be read here".to_owned())
    }
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkFile, ReadOptions, Scenario, SourceText, written_out};

    const LINK: &str = "[link]\nrate = \"8mbit\"\n[[classes]]\nfrom = \"who.csv\"\nname = \"{who}\"\nweight = 1\n";
    const SCENARIO: &str = "link = \"links/a.toml\"\nduration = \"1s\"\n\
        [[source]]\nclass = \"ann\"\nmodel = \"trace\"\nfile = \"./links/../t.csv\"\n\
        [[source]]\nclass = \"bob\"\nmodel = \"greedy\"\npacket = \"100B\"\n";

    fn held() -> Arc<dyn Files> {
        let files = [
            ("dir/s.toml", SCENARIO),
            ("dir/links/a.toml", LINK),
            ("dir/links/who.csv", "who\nann\nbob\n"),
            ("dir/t.csv", "arrival_s,bytes\n0.1,700\n0.2,800\n"),
        ];
        Arc::new(Memory::new(files))
    }

    #[test]
    fn a_scenario_is_read_from_memory_with_all_that_it_names() {
        let source = SourceText::read_from(&held(), "dir/s.toml").unwrap();
        let read = Scenario::from_source(&source, &ReadOptions::default()).unwrap();
        assert_eq!(read.names, ["link", "ann", "bob"]);
        assert_eq!(read.sources.len(), 2);
        let link = written_out(&SourceText::read_from(&held(), "dir/links/a.toml").unwrap()).unwrap();
        assert_eq!(link.inner().matches("[[class]]").count(), 2);
    }

    #[test]
    fn a_file_that_is_not_there_is_refused_where_it_is_named() {
        let read = |files: Arc<dyn Files>, name, text: &str| {
            let source = SourceText::among(name, text, files);
            Scenario::from_source(&source, &ReadOptions::default()).unwrap_err().lines()
        };
        let missing = "it is not among the given files";
        assert_eq!(
            read(held(), "s.toml", SCENARIO),
            format!("links/a.toml: error: the file cannot be read: {missing}; check the path and the permissions\n")
        );
        assert_eq!(
            read(held(), "dir/s.toml", &SCENARIO.replace("../t.csv", "t.csv")),
            format!("dir/s.toml:6:8: error: dir/./links/t.csv: {missing}\n")
        );
        assert_eq!(
            read(Arc::new(NoFiles), "dir/s.toml", SCENARIO),
            "dir/links/a.toml: error: the file cannot be read: other files cannot be read here; check the path and the permissions\n"
        );
        let table = SourceText::among("a.toml", LINK, Arc::new(NoFiles));
        let lines = LinkFile::from_source(&table, &ReadOptions::default()).unwrap_err().lines();
        assert!(
            lines.starts_with("who.csv: error: the file cannot be read: other files cannot be read here"),
            "{lines}"
        );
    }

    #[derive(Debug)]
    struct Small;

    impl Files for Small {
        fn open(&self, path: &Path) -> Result<Box<dyn Read>, String> {
            NoFiles.open(path)
        }

        fn limits(&self) -> Limits {
            Limits { classes: 3, bytes: 400 }
        }
    }

    #[test]
    fn more_classes_than_the_place_allows_are_counted_and_refused() {
        let lines = |text: String| match Scenario::from_source(
            &SourceText::among("s.toml", text, Arc::new(Small)),
            &ReadOptions::default(),
        ) {
            Ok(read) => read.link.names.iter().count().to_string(),
            Err(problems) => problems.lines(),
        };
        let head = "[link]\nrate = \"8mbit\"\n";
        let tables = |count: usize, more: &str| -> String {
            (0..count).map(|at| format!("[[class]]\nname = \"c{at}\"\n{more}")).collect()
        };
        let list = |count: usize| {
            let classes: Vec<String> = (0..count).map(|at| format!("{{ name = \"c{at}\" }}")).collect();
            format!("class = [{}]\n", classes.join(", "))
        };
        let tail = "[[source]]\nclass = \"c0\"\nmodel = \"greedy\"\npacket = \"100B\"\n";
        let run = "duration = \"1s\"\n";
        let wanted = "error: the file has 5 classes; up to 3 can be read here; use the command line";
        for (fits, many) in [
            (format!("{run}{head}{}{tail}", tables(3, "")), format!("{run}{head}{}{tail}", tables(5, ""))),
            (format!("{run}{}{head}{tail}", list(3)), format!("{run}{}{head}{tail}", list(5))),
            (
                format!("{run}{head}[template.t]\nweight = 1\n{}{tail}", tables(3, "template = \"t\"\n")),
                format!("{run}{head}[template.t]\nweight = 1\n{}{tail}", tables(5, "template = \"t\"\n")),
            ),
        ] {
            let read = lines(fits);
            assert!(read.chars().all(|letter| letter.is_ascii_digit()), "{read}");
            let refused = lines(many);
            assert!(refused.contains(wanted) && refused.trim().lines().count() == 1, "{refused}");
        }
        // The number that fits is said, and not what a template makes of too many.
        let long = format!("[template.t]\nweight = 1\ncomment = \"{}\"\n", "x".repeat(200));
        let refused = lines(format!("{run}{head}{long}{}{tail}", tables(5, "template = \"t\"\n")));
        assert!(refused.contains(wanted), "{refused}");
        let peer = |count: usize| format!("[[peer]]\nname = \"p\"\nlink = {{ rate = \"1mbit\" }}\n{}", list(count));
        let refused = lines(format!("{run}{head}{}{}{tail}", tables(2, ""), peer(3)));
        assert!(refused.contains(wanted), "{refused}");
        let fits = lines(format!("{run}{head}{}{}{tail}", tables(2, ""), peer(1)));
        assert!(!fits.contains("error: the file has"), "{fits}");
        // A short text, three classes, and a long template.
        let refused = lines(format!("{run}{head}{long}{}{tail}", tables(3, "template = \"t\"\n")));
        assert!(refused.contains("templates expand the classes to more than 0 MiB"), "{refused}");
    }

    #[test]
    fn a_disk_opens_ordinary_files_alone() {
        let refused = |path: &str| Disk.open(Path::new(path)).err().unwrap();
        assert_eq!(refused("."), "it is a directory");
        assert!(refused("there/is/none").contains("No such file") || cfg!(not(unix)));
        #[cfg(unix)]
        assert!(refused("/dev/zero").starts_with("it is a pipe, a device or a socket"));
    }
}
