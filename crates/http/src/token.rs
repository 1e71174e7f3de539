//! The token without which nothing is changed over HTTP.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;
use thiserror::Error;

/// Random bytes of a token.
const BYTES: usize = 32;

/// Reason why there is no token.
#[derive(Debug, Error)]
#[error("the token for changes on the page cannot be written to {}: {source}", path.display())]
pub struct TokenError {
    /// Path of its file.
    path: PathBuf,
    /// The system's error.
    source: io::Error,
}

/// 32 random bytes as 64 hexadecimal digits, in a file that only its owner may read. Dropping it removes the file,
/// unless another process has replaced it.
pub struct Token {
    text: String,
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
}

/// Without its text, so that no log has it.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Token {
    /// Makes a token and writes it to `path`, in the place of an earlier one. A directory that is missing is made.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn create(path: &Path) -> Result<Self, TokenError> {
        Self::written(path).map_err(|source| TokenError { path: path.to_owned(), source })
    }

    fn written(path: &Path) -> io::Result<Self> {
        let mut random = [0; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        }
        // A new file under another name, which then takes the place of an old one: nobody reads a part of it, and no
        // file that somebody else has put there is written to.
        let new = path.with_extension(format!("token.{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let renamed = file.write_all(format!("{text}\n").as_bytes()).and_then(|()| std::fs::rename(&new, path));
        if let Err(error) = renamed {
            let _ = std::fs::remove_file(&new);
            return Err(error);
        }
        let written = file.metadata()?;
        Ok(Self { text, path: path.to_owned(), file: (written.dev(), written.ino()) })
    }

    /// Path of its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if `given` is the token. The time that it takes does not depend on where they differ.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.text.as_bytes().ct_eq(given).into()
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let present = std::fs::symlink_metadata(&self.path);
        if present.is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_can_read_it_and_only_its_own_file_is_removed() {
        let directory = std::env::temp_dir().join(format!("fairlink-token-{}", std::process::id()));
        let path = directory.join("fairlink-x.token");
        let first = Token::create(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(text.len() == 65 && first.is(text.trim_end().as_bytes()) && !first.is(text.as_bytes()));
        assert!(!first.is(b"") && !first.is(&[b'0'; 64]));
        assert!(!format!("{first:?}").contains(text.trim_end()));
        let second = Token::create(&path).unwrap();
        drop(first);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(second.is(text.trim_end().as_bytes()), "the later process's file stays");
        drop(second);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
        let refused = Token::create(Path::new("/proc/none/x.token")).unwrap_err();
        assert!(refused.to_string().contains("/proc/none/x.token"), "{refused}");
    }
}
