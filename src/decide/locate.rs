//! From a model's name to its folders on this machine, downloading what is not there yet.

use std::path::{Path, PathBuf};

use super::LoadError;
use super::hub::{Cache, HubError, HubId, HubSettings, Progress, Pull, pull};
use super::models::strands::Checkpoint;

/// Where a checkpoint's files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The checkpoint's folder.
    pub folder: PathBuf,
    /// The base model's folder, if it came from the Hub or was named.
    pub base: Option<PathBuf>,
    /// The Hub's name and commit, if the checkpoint came from there.
    pub published: Option<(String, String)>,
}

/// Finds a checkpoint and its base model: a folder, or a Hub id that is looked up in the cache and downloaded if it is not there.
/// `refresh` asks the Hub again even if the cache has it. Blocks; `told` hears how a download goes on.
pub fn locate(
    name: &str,
    base: Option<&Path>,
    settings: &HubSettings,
    refresh: bool,
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Located, LoadError> {
    let mut located =
        Located { folder: PathBuf::from(name), base: base.map(Path::to_owned), published: None };
    if !located.folder.is_dir()
        && let Some(id) = HubId::parse(name)
    {
        let pulled = fetch(&id, settings, refresh, told)?;
        located.folder = pulled.folder;
        located.published = Some((id.repository, pulled.commit));
    }
    if located.base.is_none() {
        located.base = base_from_hub(&located.folder, settings, refresh, told)?;
    }
    Ok(located)
}

/// The base model of an adapter whose base is in no folder nearby.
fn base_from_hub(
    folder: &Path,
    settings: &HubSettings,
    refresh: bool,
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<PathBuf>, LoadError> {
    let checkpoint = Checkpoint::open(folder)?;
    let nearby = checkpoint.base_candidates();
    if nearby.iter().any(|folder| folder.join("config.json").exists()) {
        return Ok(None);
    }
    let Some(mut id) = HubId::parse(&checkpoint.config.base_model) else { return Ok(None) };
    if id.revision.is_none() {
        id.revision = checkpoint.base_revision().map(str::to_owned);
    }
    Ok(Some(fetch(&id, settings, refresh, told)?.folder))
}

fn fetch(
    id: &HubId,
    settings: &HubSettings,
    refresh: bool,
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Pull, HubError> {
    if !refresh && let Some(folder) = Cache::new(&settings.cache).find(id) {
        let commit = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Pull { commit, folder });
    }
    let write = |source| HubError::Write { path: settings.cache.clone(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(write)?;
    // On a thread of its own: the caller's may belong to a runtime already.
    std::thread::scope(|scope| {
        let download = scope.spawn(|| runtime.block_on(pull(id, settings, told)));
        download.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
