//! The file that says what was spent: small, and replaced as a whole, so that a kill leaves the old one or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::budget::{NanoUsd, Spending};
use crate::disk;
use crate::domain::Time;
use crate::judge::{BuildError, Window};

const NAME: &str = "budget.json";
/// Grows when a field changes its meaning.
const VERSION: u32 = 1;

/// The file.
#[derive(Debug)]
pub(super) struct Statement {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    version: u32,
    hour: Spent,
    day: Spent,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Spent {
    /// When the window began.
    began: Time,
    /// Billionths of a dollar.
    nano_usd: u64,
}

/// Why the file's content cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Damage {
    /// It is not what was written.
    #[error("{0}")]
    Content(#[from] serde_json::Error),
    /// It was written by another assayd.
    #[error("it is of version {0}, and this assayd knows version {VERSION}")]
    Version(u32),
}

impl Statement {
    /// The one of this folder, which is made with the first write.
    pub fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(NAME) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was spent; nothing if there is no file.
    ///
    /// # Errors
    /// If the disk does not let it be read. What is wrong with its content is the inner error.
    pub fn read(&self) -> Result<Result<Vec<Spending>, Damage>, BuildError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(parsed(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(Vec::new())),
            Err(source) => Err(BuildError::Statement { path: self.path.clone(), action: "read", source }),
        }
    }

    /// Replaces it. When this returns it is on disk.
    pub fn write(&self, spending: &[Spending; 2]) -> io::Result<()> {
        let of = |window| {
            let told = spending.iter().find(|told| told.window == window);
            told.map_or(Spent { began: Time(0), nano_usd: 0 }, |told| Spent {
                began: told.began,
                nano_usd: told.spent.0,
            })
        };
        let told = Told { version: VERSION, hour: of(Window::Hour), day: of(Window::Day) };
        let body = serde_json::to_vec(&told)?;
        disk::replace(&self.path, &body)
    }
}

fn parsed(bytes: &[u8]) -> Result<Vec<Spending>, Damage> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_slice(bytes)?;
    if version != VERSION {
        return Err(Damage::Version(version));
    }
    let Told { hour, day, .. } = serde_json::from_slice(bytes)?;
    let of = |window, spent: Spent| Spending { window, began: spent.began, spent: NanoUsd(spent.nano_usd) };
    Ok(vec![of(Window::Hour, hour), of(Window::Day, day)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spending() -> [Spending; 2] {
        [
            Spending { window: Window::Hour, began: Time(3_600_000_000_000), spent: NanoUsd(5) },
            Spending { window: Window::Day, began: Time(0), spent: NanoUsd(u64::MAX) },
        ]
    }

    #[test]
    fn what_is_written_is_read_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let statement = Statement::in_folder(&folder.path().join("judge"));
        assert_eq!(statement.read().unwrap().unwrap(), []);
        for _ in 0..2 {
            statement.write(&spending()).unwrap();
        }
        assert_eq!(statement.read().unwrap().unwrap(), spending());
        let files = fs::read_dir(folder.path().join("judge")).unwrap().count();
        assert_eq!(files, 1);
    }

    #[test]
    fn every_cut_of_the_file_and_every_other_content_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let statement = Statement::in_folder(folder.path());
        statement.write(&spending()).unwrap();
        let whole = fs::read(statement.path()).unwrap();
        for length in 0..whole.len() {
            assert!(parsed(&whole[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in
            [("\"version\":1", "\"version\":2"), ("nano_usd\":5", "nano_usd\":-5"), ("\"day\"", "\"week\"")]
        {
            assert!(text.contains(from));
            assert!(parsed(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!(
            parsed(text.replace("\"version\":1", "\"version\":9").as_bytes())
                .unwrap_err()
                .to_string()
                .contains("version 9")
        );
    }
}
