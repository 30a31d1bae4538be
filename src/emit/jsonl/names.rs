//! Names of files that were set aside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// `verdicts.jsonl` becomes `verdicts.000007.jsonl`: patterns such as `*.jsonl` still find it, in order.
pub(super) fn numbered(path: &Path, number: u64) -> PathBuf {
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}.{number:06}{extension}"))
}

/// The numbers of the files that were set aside, lowest first.
pub(super) fn rotated(path: &Path) -> io::Result<Vec<u64>> {
    let (stem, extension) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&stem)?.strip_prefix('.')?.strip_suffix(&extension))
            .filter(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn parts(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map_or_else(String::new, |text| format!(".{}", text.to_string_lossy()));
    (stem, extension)
}
