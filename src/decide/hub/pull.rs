//! Downloads a model into the cache: resumes what was begun, checks every hash that there is, and names the revision last.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use reqwest::StatusCode;

use super::cache::{Cache, is_inner};
use super::client::{FileFacts, HubClient, Revision};
use super::error::HubError;
use super::{HubId, HubSettings};
use crate::decide::models::strands::hash;

/// How often a file's connection may break without a byte having come.
const TRIES: u32 = 5;

/// How a download goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// These many files are wanted; their bytes together, as far as it is known.
    Files {
        /// How many files.
        count: usize,
        /// Bytes of all.
        bytes: u64,
    },
    /// A file is begun, or taken up again where it was left.
    Begin {
        /// Its path within the model.
        file: String,
        /// Its bytes, if known.
        size: Option<u64>,
        /// Bytes that are there already.
        have: u64,
    },
    /// These many bytes came.
    Bytes(u64),
    /// A file is complete and checked.
    Done {
        /// Its path within the model.
        file: String,
    },
}

/// What was pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// The commit.
    pub commit: String,
    /// The folder with the model's files.
    pub folder: PathBuf,
}

/// Downloads a model's files, those that inference reads, into the cache. What is there already is not downloaded again.
pub async fn pull(
    id: &HubId,
    settings: &HubSettings,
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Pull, HubError> {
    let cache = Cache::new(&settings.cache);
    if settings.offline {
        let offline = || HubError::Offline { id: id.to_string(), cache: settings.cache.clone() };
        let folder = cache.find(id).ok_or_else(offline)?;
        let commit = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Pull { commit, folder });
    }
    let client = HubClient::new(settings)?;
    let Revision { sha, siblings } = client.revision(id).await?;
    if sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(HubError::Answer { what: id.to_string(), why: format!("{sha:?} is no commit") });
    }
    let folder = cache.snapshot(&id.repository, &sha);
    let mut files = Vec::new();
    for sibling in siblings {
        let name = sibling.rfilename;
        if !is_inner(&name) {
            return Err(HubError::Answer {
                what: id.to_string(),
                why: format!("{name:?} is no file's name"),
            });
        }
        if is_read(&name) {
            let facts = client.facts(&id.repository, &sha, &name).await?;
            files.push((name, facts));
        }
    }
    let bytes = files.iter().filter_map(|(_, facts)| facts.size).sum();
    told(Progress::Files { count: files.len(), bytes });
    for (name, facts) in &files {
        let blob = cache.blob(&id.repository, &facts.tag);
        let target = folder.join(name);
        if !blob.exists() {
            Download { client: &client, repository: &id.repository, commit: &sha, name, facts }
                .run(&blob, told)
                .await?;
        } else {
            told(Progress::Begin { file: name.clone(), size: facts.size, have: facts.size.unwrap_or(0) });
        }
        if !target.exists() {
            cache.place(&blob, &target)?;
        }
        told(Progress::Done { file: name.clone() });
    }
    cache.name(&id.repository, id.revision(), &sha)?;
    Ok(Pull { commit: sha, folder })
}

/// Whether inference, or the check of a download, reads a file of this name.
fn is_read(name: &str) -> bool {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let wanted = name.ends_with(".json") || name.ends_with(".safetensors") || name == "MANIFEST.sha256";
    let training = matches!(name, "train_config.json" | "history.json" | "preprocessor_config.json");
    matches!(folder, "" | "lora") && wanted && !training
}

/// One file on its way.
struct Download<'a> {
    client: &'a HubClient,
    repository: &'a str,
    commit: &'a str,
    name: &'a str,
    facts: &'a FileFacts,
}

impl Download<'_> {
    async fn run(&self, blob: &Path, told: &mut (dyn FnMut(Progress) + Send)) -> Result<(), HubError> {
        let mut partial = blob.as_os_str().to_owned();
        partial.push(".incomplete");
        let partial = PathBuf::from(partial);
        let write = |source| HubError::Write { path: partial.clone(), source };
        if let Some(parent) = partial.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&partial)
            .map_err(write)?;
        // Another process may be downloading the same file: wait for it, then see what is left to do.
        file.lock().map_err(write)?;
        if blob.exists() {
            return Ok(());
        }
        let mut have = file.seek(SeekFrom::End(0)).map_err(write)?;
        told(Progress::Begin { file: self.name.to_owned(), size: self.facts.size, have });
        let mut pause = self.client.first_pause();
        let mut tries = 0;
        loop {
            let before = have;
            match self.receive(&mut file, &mut have, told, &write).await {
                Ok(()) => break,
                Err(error) => {
                    // Bytes came, so the way works: start counting anew.
                    tries = if have > before { 1 } else { tries + 1 };
                    self.client.wait_or_fail(error, tries >= TRIES, &mut pause).await?;
                }
            }
        }
        file.sync_all().map_err(write)?;
        if let Some(expected) = self.facts.sha256() {
            let found = hash(&partial).map_err(write)?;
            if found != expected {
                let _ = fs::remove_file(&partial);
                let what = format!("{}/{}", self.repository, self.name);
                return Err(HubError::Hash { what, found, expected: expected.to_owned() });
            }
        }
        fs::rename(&partial, blob).map_err(write)
    }

    /// Receives what is missing; an error leaves `have` at what arrived.
    async fn receive(
        &self,
        file: &mut File,
        have: &mut u64,
        told: &mut (dyn FnMut(Progress) + Send),
        write: &(dyn Fn(std::io::Error) -> HubError + Sync),
    ) -> Result<(), HubError> {
        if self.facts.size.is_some_and(|size| size == *have && size > 0) {
            return Ok(());
        }
        let mut response = self.client.bytes(self.repository, self.commit, self.name, *have).await?;
        if *have > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
            // The server sends the file from its start, or what is here is longer than the file.
            file.set_len(0).map_err(write)?;
            *have = 0;
            if !response.status().is_success() {
                response = self.client.bytes(self.repository, self.commit, self.name, 0).await?;
            }
        }
        file.seek(SeekFrom::Start(*have)).map_err(write)?;
        loop {
            let what = || format!("{}/{}", self.repository, self.name);
            let chunk = response.chunk().await;
            let chunk =
                chunk.map_err(|source| HubError::Transport { what: what(), source: source.without_url() })?;
            let Some(chunk) = chunk else { return Ok(()) };
            file.write_all(&chunk).map_err(write)?;
            *have += chunk.len() as u64;
            told(Progress::Bytes(chunk.len() as u64));
        }
    }
}
