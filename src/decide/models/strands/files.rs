//! A checkpoint's folder: which of the published forms it has, where its base model is, and whether its files are the
//! published ones.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::config::{DeciderConfig, read_json};
use super::error::LoadError;

/// The architecture that a merged, standalone checkpoint names in its `config.json`.
const MERGED: &str = "StrandsDeciderForDecision";

/// A checkpoint's folder, read and checked as far as its small files go.
#[derive(Debug)]
pub struct Checkpoint {
    /// The folder.
    pub folder: PathBuf,
    /// The decider's config.
    pub config: DeciderConfig,
    /// The file that it is from.
    pub config_path: PathBuf,
    /// Whether the folder holds the whole model, the adapter folded in.
    pub merged: bool,
    /// From `provenance.json`, if there is one.
    pub provenance: Provenance,
}

/// `provenance.json`, as far as it is read.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Provenance {
    base_model: Option<String>,
    base_model_revision: Option<String>,
    adapter_sha256: Option<String>,
    head_sha256: Option<String>,
    hobson_config_sha256: Option<String>,
    source_checkpoint_fingerprint: Option<String>,
}

#[derive(Deserialize)]
struct Architectures {
    #[serde(default)]
    architectures: Vec<String>,
}

impl Checkpoint {
    /// Reads a folder and checks the hashes of the files that will be loaded.
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        if !folder.is_dir() {
            return Err(LoadError::Missing {
                path: folder.to_owned(),
                why: "it should be a checkpoint's folder",
            });
        }
        let names = ["strands_decider_config.json", "hobson_config.json"];
        let config_path = names.iter().map(|name| folder.join(name)).find(|path| path.exists());
        let Some(config_path) = config_path else {
            return Err(LoadError::Missing {
                path: folder.join(names[0]),
                why: "a Strands Decider checkpoint holds its config (older ones as hobson_config.json)",
            });
        };
        let config = DeciderConfig::read(&config_path)?;
        let merged = is_merged(folder)?;
        let provenance_path = folder.join("provenance.json");
        let provenance =
            if provenance_path.exists() { read_json(&provenance_path)? } else { Provenance::default() };
        let checkpoint = Self { folder: folder.to_owned(), config, config_path, merged, provenance };
        if !merged {
            checkpoint.check_adapter_form()?;
        }
        checkpoint.check_hashes()?;
        Ok(checkpoint)
    }

    /// The folder's name: what the model is called.
    pub fn name(&self) -> String {
        let absolute = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        absolute.file_name().unwrap_or(absolute.as_os_str()).to_string_lossy().into_owned()
    }

    /// A digest that tells this checkpoint from others; empty if it was published without one.
    pub fn revision(&self) -> String {
        let manifest = self.folder.join("MANIFEST.sha256");
        match hash(&manifest) {
            Ok(digest) => digest[..16].to_owned(),
            Err(_) => self.provenance.source_checkpoint_fingerprint.clone().unwrap_or_default(),
        }
    }

    /// The adapter's folder, if the model has one.
    pub fn adapter(&self) -> Option<PathBuf> {
        (!self.merged && self.config.use_lora).then(|| self.folder.join("lora"))
    }

    /// The revision of the base model that this checkpoint was trained on, if it is told.
    pub fn base_revision(&self) -> Option<&str> {
        let same = self.provenance.base_model.as_deref() == Some(self.config.base_model.as_str());
        let trained_on = self.provenance.base_model_revision.as_deref().filter(|_| same);
        self.config.base_revision.as_deref().or(trained_on)
    }

    /// Where the base model may lie on this machine, best first; the folder itself for a merged checkpoint.
    pub fn base_candidates(&self) -> Vec<PathBuf> {
        if self.merged {
            return vec![self.folder.clone()];
        }
        let named = Path::new(&self.config.base_model);
        let mut candidates = Vec::new();
        let absolute = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        if named.is_absolute() {
            candidates.push(named.to_owned());
        } else if let Some(parent) = absolute.parent() {
            candidates.push(parent.join(named));
            candidates.extend(named.file_name().map(|name| parent.join(name)));
        }
        candidates.push(named.to_owned());
        candidates.dedup();
        candidates
    }

    fn check_adapter_form(&self) -> Result<(), LoadError> {
        let (head, pickle) = ("head.safetensors", "slot_head.pt");
        match (self.folder.join(head).exists(), self.folder.join(pickle).exists()) {
            (true, true) => {
                Err(LoadError::Ambiguous { path: self.folder.clone(), first: head, second: pickle })
            }
            (false, true) => Err(LoadError::Missing {
                path: self.folder.join(head),
                why: "the pickled slot_head.pt beside it is what training writes; export the checkpoint",
            }),
            (false, false) => {
                Err(LoadError::Missing { path: self.folder.join(head), why: "the pointer head is in it" })
            }
            (true, false) => Ok(()),
        }?;
        match self.adapter() {
            Some(adapter) if !adapter.is_dir() => Err(LoadError::Missing {
                path: adapter,
                why: "use_lora is true, so the adapter must be here",
            }),
            _ => Ok(()),
        }
    }

    /// The small files that are loaded, and the head and adapter, must be the published ones.
    fn check_hashes(&self) -> Result<(), LoadError> {
        let provenance = self.folder.join("provenance.json");
        for (path, expected) in [
            (self.folder.join("lora/adapter_model.safetensors"), &self.provenance.adapter_sha256),
            (self.folder.join("head.safetensors"), &self.provenance.head_sha256),
            (self.config_path.clone(), &self.provenance.hobson_config_sha256),
        ] {
            if let Some(expected) = expected
                && path.exists()
            {
                check_hash(&path, expected, &provenance)?;
            }
        }
        let manifest_path = self.folder.join("MANIFEST.sha256");
        if !manifest_path.exists() {
            return Ok(());
        }
        let manifest = read_manifest(&manifest_path)?;
        let config_name = self.config_path.file_name().unwrap_or_default().to_string_lossy();
        for name in [
            config_name.as_ref(),
            "tokenizer.json",
            "head.safetensors",
            "lora/adapter_config.json",
            "lora/adapter_model.safetensors",
            "provenance.json",
        ] {
            let path = self.folder.join(name);
            if let Some(expected) = manifest.get(name)
                && path.exists()
            {
                check_hash(&path, expected, &manifest_path)?;
            }
        }
        Ok(())
    }
}

fn is_merged(folder: &Path) -> Result<bool, LoadError> {
    let path = folder.join("config.json");
    if !path.exists() {
        return Ok(false);
    }
    let config: Architectures = read_json(&path)?;
    Ok(config.architectures.iter().any(|name| name == MERGED))
}

/// What a file's hash says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// It is the published file.
    Good,
    /// No hash of it was published.
    Unlisted,
    /// It was published and is not here; a download leaves out what inference does not read.
    Missing,
    /// It is not the published file.
    Wrong,
}

/// Hashes every file of a checkpoint's folder and of its manifest. Names are relative to the folder.
pub fn verify(folder: &Path) -> Result<BTreeMap<String, Verified>, LoadError> {
    let provenance_path = folder.join("provenance.json");
    let mut expected = BTreeMap::new();
    if provenance_path.exists() {
        let provenance: Provenance = read_json(&provenance_path)?;
        let listed = [
            ("lora/adapter_model.safetensors", provenance.adapter_sha256),
            ("head.safetensors", provenance.head_sha256),
        ];
        expected.extend(listed.into_iter().filter_map(|(name, digest)| Some((name.to_owned(), digest?))));
    }
    let manifest_path = folder.join("MANIFEST.sha256");
    if manifest_path.exists() {
        expected.extend(read_manifest(&manifest_path)?);
    }
    let mut verified: BTreeMap<String, Verified> =
        files_below(folder, "").into_iter().map(|name| (name, Verified::Unlisted)).collect();
    for (name, expected) in expected {
        let path = folder.join(&name);
        let state = if !path.exists() {
            Verified::Missing
        } else {
            let found = hash(&path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
            if found.eq_ignore_ascii_case(&expected) { Verified::Good } else { Verified::Wrong }
        };
        verified.insert(name, state);
    }
    Ok(verified)
}

/// Names of the files below a folder, with `/` between folders.
fn files_below(folder: &Path, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            names.extend(files_below(&entry.path(), &format!("{name}/")));
        } else if name != "MANIFEST.sha256" {
            names.push(name);
        }
    }
    names
}

/// Reads `MANIFEST.sha256`: path to digest.
fn read_manifest(path: &Path) -> Result<BTreeMap<String, String>, LoadError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    Ok(lines.map(|(digest, name)| (name.to_owned(), digest.to_owned())).collect())
}

/// Checks a file against a digest that another file gives.
fn check_hash(path: &Path, expected: &str, listed_in: &Path) -> Result<(), LoadError> {
    let found = hash(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(LoadError::Hash {
        path: path.to_owned(),
        found,
        expected: expected.to_owned(),
        listed_in: listed_in.to_owned(),
    })
}

/// A file's SHA-256, in hex.
pub fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(&buffer[..read]);
    }
}
