//! Small files that are replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// The extension of what a replacement is written to first. A kill can leave such a file; the whole one is beside it.
pub const UNFINISHED: &str = "new";

/// Replaces a file, or makes it and its folder. When this returns the new content is on disk; a kill or a power cut before that
/// leaves the old one.
///
/// # Errors
/// If the disk does not take it. The old content is then still there.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = path.with_extension(UNFINISHED);
    fs::create_dir_all(folder)?;
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name must survive a power cut as well.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_with_its_folder_and_then_replaced_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper").join("told.json");
        for content in ["a longer first content", "second"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("told.json");
        replace(&path, b"old").unwrap();
        fs::create_dir(path.with_extension(UNFINISHED)).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
