//! The Hub's cache on disk: `models--owner--name/{blobs,refs,snapshots}`, as all of the Hub's tools lay it out.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::HubId;
use super::error::HubError;

/// The cache of one machine or user.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// `owner/name`
    pub repository: String,
    /// The commit.
    pub commit: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Cache {
    /// The cache at this folder, which need not exist yet.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The folder of a model's files, if a download of this revision was completed.
    pub fn find(&self, id: &HubId) -> Option<PathBuf> {
        let repository = self.repository(&id.repository);
        let named = fs::read_to_string(repository.join("refs").join(id.revision())).ok();
        let commit = named.as_deref().map_or(id.revision(), str::trim);
        let folder = repository.join("snapshots").join(commit);
        let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
        (is_commit && folder.is_dir()).then_some(folder)
    }

    /// All models in the cache, by name.
    pub fn models(&self) -> Vec<CachedModel> {
        let mut models = Vec::new();
        for repository in folders(&self.root) {
            let Some(name) = repository.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(name) = name.strip_prefix("models--") else { continue };
            for folder in folders(&repository.join("snapshots")) {
                models.push(CachedModel {
                    repository: name.replacen("--", "/", 1),
                    commit: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    bytes: bytes(&folder),
                    folder,
                });
            }
        }
        models.sort_by(|a, b| (&a.repository, &a.commit).cmp(&(&b.repository, &b.commit)));
        models
    }

    /// The folder of a commit's files.
    pub(super) fn snapshot(&self, repository: &str, commit: &str) -> PathBuf {
        self.repository(repository).join("snapshots").join(commit)
    }

    /// Where a file's content is kept under the tag that the Hub gives it.
    pub(super) fn blob(&self, repository: &str, tag: &str) -> PathBuf {
        self.repository(repository).join("blobs").join(tag)
    }

    /// Puts a blob where a commit's file belongs.
    pub(super) fn place(&self, blob: &Path, target: &Path) -> Result<(), HubError> {
        let write = |source| HubError::Write { path: target.to_owned(), source };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let _ = fs::remove_file(target);
        #[cfg(unix)]
        {
            let ups =
                target.parent().and_then(|parent| parent.strip_prefix(&self.root).ok()).map_or(0, |inner| {
                    // Of models--x/snapshots/commit/…: up to models--x.
                    inner.components().count() - 1
                });
            let mut link = PathBuf::new();
            (0..ups).for_each(|_| link.push(".."));
            link.push("blobs");
            link.push(blob.file_name().unwrap_or_default());
            std::os::unix::fs::symlink(link, target).map_err(write)
        }
        #[cfg(not(unix))]
        {
            fs::rename(blob, target).map_err(write)
        }
    }

    /// Remembers which commit a branch or tag is: the last step of a download.
    pub(super) fn name(&self, repository: &str, revision: &str, commit: &str) -> Result<(), HubError> {
        let path = self.repository(repository).join("refs").join(revision);
        let write = |source| HubError::Write { path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        fs::write(&path, commit).map_err(write)
    }

    fn repository(&self, repository: &str) -> PathBuf {
        self.root.join(format!("models--{}", repository.replace('/', "--")))
    }
}

/// Whether a file's name from outside stays within its folder.
pub(super) fn is_inner(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
