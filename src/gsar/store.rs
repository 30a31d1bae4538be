//! Runs on disk: one file each, replaced as a whole, so that a kill leaves either the old one or the new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Callbacks, StoreError};
use crate::disk;
use crate::score::Run;

/// A run and what belongs to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run.
    pub run: Run,
    /// The client's word for the request that opened it: the same one again is not a second run.
    pub key: Option<String>,
    /// Digest of that request, to tell a repeat from a mistake.
    pub request: String,
    /// Where its agent is called back, if the daemon drives the loop.
    pub callbacks: Option<Callbacks>,
    /// Whether its verdict went out.
    pub emitted: bool,
}

/// The folder of runs. One owner writes; every call blocks.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// The folder, with all runs in it that can be read, and why the others cannot. Those stay where they are.
    pub fn open(folder: PathBuf) -> Result<(Self, Vec<Record>, Vec<StoreError>), StoreError> {
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        let entries = match fs::read_dir(&folder) {
            // Made with the first run.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entries => Some(entries.map_err(failed("read", &folder))?),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(failed("read", &folder))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => match read(&path) {
                    Ok(record) => records.push(record),
                    Err(problem) => problems.push(problem),
                },
                // A write that a kill cut short; the whole file is beside it.
                Some(disk::UNFINISHED) => fs::remove_file(&path).map_err(failed("remove", &path))?,
                _ => {}
            }
        }
        records.sort_by_key(|record| record.run.opened);
        Ok((Self { folder }, records, problems))
    }

    /// Keeps a run. When this returns it is on disk.
    pub fn save(&self, record: &Record) -> Result<(), StoreError> {
        let path = self.path(&record.run.id);
        let body = serde_json::to_vec(record)
            .map_err(|source| StoreError::Content { path: path.clone(), source })?;
        disk::replace(&path, &body).map_err(failed("write", &path))
    }

    /// A run that was kept; none if there is none of this id.
    pub fn load(&self, id: &str) -> Result<Option<Record>, StoreError> {
        match read(&self.path(id)) {
            Ok(record) => Ok(Some(record)),
            Err(StoreError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Forgets a run.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(source)),
            _ => Ok(()),
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        // Ids are our own, but a look-up brings whatever a client wrote into its URL.
        let safe: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect();
        self.folder.join(format!("{safe}.json"))
    }
}

fn read(path: &Path) -> Result<Record, StoreError> {
    let body = fs::read(path).map_err(failed("read", path))?;
    serde_json::from_slice(&body).map_err(|source| StoreError::Content { path: path.to_owned(), source })
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Disk { action, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Json, Time};
    use crate::score::{Entry, RunLimits};

    fn record(id: &str) -> Record {
        let first = Entry { synthesis: "It is open.".into(), evidence: Some(Json::Bool(true)), key: None };
        let run = Run::open(id.into(), RunLimits::default(), first, Time(7));
        Record { run, key: Some("k".into()), request: "d".into(), callbacks: None, emitted: false }
    }

    #[test]
    fn runs_are_there_again_after_a_restart_and_gone_when_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, found, problems) = Store::open(folder.path().join("gsar")).unwrap();
        assert!(found.is_empty() && problems.is_empty());
        let (first, mut second) = (record("a-1"), record("b-2"));
        store.save(&first).unwrap();
        store.save(&second).unwrap();
        second.emitted = true;
        store.save(&second).unwrap();
        let (store, found, _) = Store::open(folder.path().join("gsar")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(store.load("b-2").unwrap(), Some(second));
        store.remove("a-1").unwrap();
        store.remove("a-1").unwrap();
        assert_eq!(store.load("a-1").unwrap(), None);
    }

    #[test]
    fn a_torn_file_is_told_and_left_and_the_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (store, ..) = Store::open(folder.path().to_owned()).unwrap();
        store.save(&record("good")).unwrap();
        fs::write(folder.path().join("bad.json"), b"{\"run\":").unwrap();
        fs::write(folder.path().join("cut.new"), b"{").unwrap();
        let (_, found, problems) = Store::open(folder.path().to_owned()).unwrap();
        assert_eq!((found.len(), problems.len()), (1, 1));
        assert!(problems[0].to_string().contains("bad.json holds no run"));
        assert!(folder.path().join("bad.json").exists() && !folder.path().join("cut.new").exists());
    }

    #[test]
    fn an_id_from_a_url_cannot_leave_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret.json"), b"{}").unwrap();
        let (store, ..) = Store::open(folder.path().join("gsar")).unwrap();
        assert_eq!(store.load("../secret").unwrap(), None);
    }
}
