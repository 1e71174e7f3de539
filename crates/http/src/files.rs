//! The files of the page, in memory: from a directory, or from the program itself.

use std::io::Read;
use std::path::{Path, PathBuf};

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use thiserror::Error;

/// Directories in which packages install the page, below the prefix of the program.
const DATA: &str = "share/fairlink/page";
/// Longest file that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// A file that is sent compressed by gzip.
#[derive(Clone, Debug)]
pub(crate) struct PageFile {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) packed: Bytes,
}

/// Type of a module.
const WASM: &str = "application/wasm";
/// Names and types of the files beside `index.html`. On disk, each ends in `.gz`.
const PACKED: [(&str, &str); 4] = [
    ("page.js", "text/javascript; charset=utf-8"),
    ("page.css", "text/css; charset=utf-8"),
    ("engine.wasm", WASM),
    ("import.wasm", WASM),
];

/// Reason why there is no page.
#[derive(Debug, Error)]
pub enum FilesError {
    /// A file cannot be read.
    #[error("{}: {source}; scripts/web builds the page", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is too long for one of the page.
    #[error("{}: {bytes} B are too long for a file of the page; the limit is {LONGEST} B", path.display())]
    TooLong {
        /// Its path.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
    },
    /// No directory has the page.
    #[error("the page is not installed here; looked in {}; --page-files names its directory, and scripts/web builds it",
        looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    NotInstalled {
        /// The directories.
        looked: Vec<PathBuf>,
    },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct PageFiles {
    /// As it is on a disk.
    plain: Bytes,
    /// Marked as served by a gateway.
    pub(crate) index: Bytes,
    pub(crate) packed: Vec<PageFile>,
}

impl PageFiles {
    /// Reads the page in `directory`; where that is absent, takes the one in the program, if it was built with the
    /// feature `page`, or that which a package has installed.
    ///
    /// # Errors
    /// [`FilesError`].
    pub fn find(directory: Option<&Path>) -> Result<Self, FilesError> {
        if let Some(directory) = directory {
            return Self::read(directory);
        }
        if let Some(own) = Self::built_in() {
            return Ok(own);
        }
        let program = std::env::current_exe().ok();
        let prefix = program.as_deref().and_then(|program| Some(program.parent()?.parent()?.join(DATA)));
        let mut looked: Vec<PathBuf> = prefix.into_iter().collect();
        for place in [Path::new("/usr/local").join(DATA), Path::new("/usr").join(DATA)] {
            if !looked.contains(&place) {
                looked.push(place);
            }
        }
        match looked.iter().find(|place| place.is_dir()) {
            Some(place) => Self::read(place),
            None => Err(FilesError::NotInstalled { looked }),
        }
    }

    fn read(directory: &Path) -> Result<Self, FilesError> {
        let read = |name: String| {
            let path = directory.join(name);
            let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
            if bytes > LONGEST {
                return Err(FilesError::TooLong { path, bytes });
            }
            std::fs::read(&path).map(Bytes::from).map_err(|source| FilesError::Unreadable { path, source })
        };
        let plain = read("index.html".to_owned())?;
        let packed = PACKED
            .into_iter()
            .map(|(name, kind)| Ok(PageFile { name, kind, packed: read(format!("{name}.gz"))? }))
            .collect::<Result<_, _>>()?;
        Ok(Self { index: live(&plain), plain, packed })
    }

    /// Writes the page into `directory`, which is made if it is missing, to be opened from the disk.
    ///
    /// # Errors
    /// The path that cannot be written, with the system's error; a file that is not packed by gzip.
    pub fn write(&self, directory: &Path) -> Result<(), (PathBuf, std::io::Error)> {
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.join(name);
            std::fs::write(&path, bytes).map_err(|error| (path, error))
        };
        std::fs::create_dir_all(directory).map_err(|error| (directory.to_owned(), error))?;
        write("index.html", &self.plain)?;
        for file in &self.packed {
            let mut bytes = Vec::new();
            let read = GzDecoder::new(&file.packed[..]).take(LONGEST).read_to_end(&mut bytes);
            read.map_err(|error| (directory.join(file.name), error))?;
            write(file.name, &bytes)?;
            // A page that was opened as a file may not read another file, but may run a script.
            if file.kind == WASM {
                let (name, module) = (file.name, STANDARD.encode(&bytes));
                let script = format!("(window.fairlinkModules??={{}})[\"{name}\"]=\"{module}\";\n");
                write(&format!("{name}.js"), script.as_bytes())?;
            }
        }
        Ok(())
    }

    #[cfg(feature = "page")]
    fn built_in() -> Option<Self> {
        macro_rules! page {
            ($name:literal) => {
                include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $name))
            };
        }
        let bytes: [&'static [u8]; 4] =
            [page!("page.js.gz"), page!("page.css.gz"), page!("engine.wasm.gz"), page!("import.wasm.gz")];
        let packed = PACKED.into_iter().zip(bytes);
        let packed = packed.map(|((name, kind), bytes)| PageFile { name, kind, packed: Bytes::from_static(bytes) });
        let plain: &'static [u8] = page!("index.html");
        Some(Self { index: live(plain), plain: Bytes::from_static(plain), packed: packed.collect() })
    }

    #[cfg(not(feature = "page"))]
    fn built_in() -> Option<Self> {
        None
    }
}

/// Marks the page as one that a gateway serves.
fn live(index: &[u8]) -> Bytes {
    String::from_utf8_lossy(index).replacen("<html ", "<html data-live ", 1).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_whole_or_refused_with_the_missing_file() {
        let directory = std::env::temp_dir().join(format!("fairlink-page-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["index.html", "page.js.gz", "page.css.gz", "engine.wasm.gz"] {
            let missing = PageFiles::find(Some(&directory)).unwrap_err().to_string();
            assert!(missing.contains(name) && missing.contains("scripts/web"), "{missing}");
            std::fs::write(directory.join(name), "<html lang=\"en\">").unwrap();
        }
        assert!(PageFiles::find(Some(&directory)).unwrap_err().to_string().contains("import.wasm.gz"));
        std::fs::write(directory.join("import.wasm.gz"), "x").unwrap();
        let page = PageFiles::find(Some(&directory)).unwrap();
        assert_eq!(&page.index[..], b"<html data-live lang=\"en\">");
        assert_eq!(page.packed.len(), 4);
        assert!(page.write(&directory.join("copy")).is_err(), "nothing here is packed");
        let mut packed = Vec::new();
        flate2::read::GzEncoder::new(&b"abc"[..], flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
        for (name, _) in PACKED {
            std::fs::write(directory.join(format!("{name}.gz")), &packed).unwrap();
        }
        PageFiles::find(Some(&directory)).unwrap().write(&directory.join("copy")).unwrap();
        let written = |name: &str| std::fs::read_to_string(directory.join("copy").join(name)).unwrap();
        assert_eq!((written("index.html").as_str(), written("page.js").as_str()), ("<html lang=\"en\">", "abc"));
        assert_eq!(written("engine.wasm.js"), "(window.fairlinkModules??={})[\"engine.wasm\"]=\"YWJj\";\n");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
