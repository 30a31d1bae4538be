//! Files as a source: OTLP in protobuf or JSON, JSON lines of it, LangSmith run exports, each also compressed. The content
//! decides what a file is, not its name.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::convert::{NotRuns, traces_of_runs};
use crate::domain::{Json, Trace, TraceId};
use crate::otlp::{DecodeError, Decoded, decode_any};

/// A file may not unpack to more than this.
const LARGEST: u64 = 4 << 30;

/// Folders inside folders that are followed.
const DEEPEST: usize = 32;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What can be wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    /// It cannot be opened or read, or its compression is damaged.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It unpacks to more than is sensible.
    #[error("holds more than {LARGEST} bytes when unpacked")]
    TooLarge,
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is no OTLP.
    #[error(transparent)]
    Otlp(#[from] DecodeError),
    /// It is text of another kind.
    #[error("is text, and neither JSON nor OTLP")]
    Text,
    /// It is a folder in which nothing is a trace.
    #[error("holds no traces{}", others(*files))]
    NoTraces {
        /// The files in it that are something else.
        files: usize,
    },
    /// It is JSON, and neither OTLP nor a run export.
    #[error("the JSON value at byte {offset} is neither OTLP nor a LangSmith run export")]
    OtherJson {
        /// Where the value begins.
        offset: usize,
    },
    /// It begins as JSON and does not go on as JSON.
    #[error("is broken JSON: {0}")]
    BrokenJson(#[from] serde_json::Error),
    /// It was read, and holds nothing.
    #[error("holds neither spans nor log records of a trace")]
    Nothing,
}

/// What files held.
#[derive(Debug, Default)]
pub struct FilesRead {
    /// Their traces, in order of first appearance; spans and records in order of delivery.
    pub traces: Vec<Trace>,
    /// Files that could not be read; the others were.
    pub errors: Vec<FileError>,
    /// Files in folders that are something else, such as notes and manifests, and parts of files that were set aside.
    pub notes: Vec<String>,
}

fn others(files: usize) -> String {
    match files {
        0 => String::new(),
        1 => ": the file in it is something else".to_owned(),
        files => format!(": the {files} files in it are something else"),
    }
}

/// Reads files, and folders with all that is in them, in the order given; in a folder by name.
pub fn read_files(paths: &[PathBuf]) -> FilesRead {
    read_files_telling(paths, &mut || {})
}

/// [`read_files`], saying so after each file.
pub fn read_files_telling(paths: &[PathBuf], told: &mut dyn FnMut()) -> FilesRead {
    let mut reading = Reading {
        told,
        traces: Vec::new(),
        places: HashMap::new(),
        errors: Vec::new(),
        notes: Vec::new(),
        good: 0,
    };
    for path in paths {
        reading.given(path);
    }
    FilesRead { traces: reading.traces, errors: reading.errors, notes: reading.notes }
}

struct Reading<'a> {
    told: &'a mut dyn FnMut(),
    traces: Vec<Trace>,
    places: HashMap<TraceId, usize>,
    errors: Vec<FileError>,
    notes: Vec<String>,
    /// Files that held something.
    good: usize,
}

/// What one file held.
#[derive(Default)]
struct Content {
    otlp: Vec<Decoded>,
    runs: Vec<Json>,
}

impl Reading<'_> {
    /// A path that somebody named: nothing in it is not nothing to say.
    fn given(&mut self, path: &Path) {
        let before = (self.good, self.errors.len(), self.notes.len());
        self.path(path, false, 0);
        if path.is_dir() && (self.good, self.errors.len()) == (before.0, before.1) {
            let problem = FileProblem::NoTraces { files: self.notes.len() - before.2 };
            self.errors.push(FileError { path: path.to_owned(), problem });
        }
    }

    fn path(&mut self, path: &Path, in_folder: bool, depth: usize) {
        if path.is_dir() && depth < DEEPEST {
            match entries(path) {
                Ok(entries) => entries.iter().for_each(|entry| self.path(entry, true, depth + 1)),
                Err(error) => self.errors.push(FileError { path: path.to_owned(), problem: error.into() }),
            }
            return;
        }
        let content = content(path);
        (self.told)();
        match content {
            Ok(content) => self.take(path, content),
            Err(problem) if in_folder && is_foreign(&problem) => {
                self.notes.push(format!("{}: skipped, {problem}", path.display()));
            }
            Err(problem) => self.errors.push(FileError { path: path.to_owned(), problem }),
        }
    }

    fn take(&mut self, path: &Path, content: Content) {
        self.good += 1;
        for decoded in content.otlp {
            if !decoded.rejects.is_empty() {
                self.notes.push(format!("{}: set aside {}", path.display(), decoded.rejects));
            }
            for span in decoded.spans {
                self.trace(span.trace_id).spans.push(span);
            }
            for log in decoded.logs {
                self.trace(log.trace_id).logs.push(log);
            }
        }
        match traces_of_runs(&content.runs) {
            Ok(traces) => {
                for trace in traces {
                    self.trace(trace.trace_id).spans.extend(trace.spans);
                }
            }
            Err(NotRuns) => {
                let problem = FileProblem::OtherJson { offset: 0 };
                self.errors.push(FileError { path: path.to_owned(), problem });
            }
        }
    }

    fn trace(&mut self, id: TraceId) -> &mut Trace {
        let place = *self.places.entry(id).or_insert_with(|| {
            self.traces.push(Trace::new(id));
            self.traces.len() - 1
        });
        &mut self.traces[place]
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a file is simply something else. A folder may hold notes beside its traces.
fn is_foreign(problem: &FileProblem) -> bool {
    !matches!(problem, FileProblem::Io(_) | FileProblem::TooLarge)
}

fn content(path: &Path) -> Result<Content, FileProblem> {
    let body = unpacked(path)?;
    let start = body.trim_ascii_start();
    match start.first() {
        None => Err(FileProblem::Empty),
        Some(b'{' | b'[') => match json(&body) {
            // A protobuf request begins with a line feed, and its length may look like a brace.
            Err(_) if body[0] == b'\n' && decode_any(&body).is_ok_and(|decoded| !decoded.is_empty()) => {
                otlp(&body)
            }
            result => result,
        },
        Some(_) => otlp(&body).map_err(|problem| if is_text(&body) { FileProblem::Text } else { problem }),
    }
}

fn otlp(body: &[u8]) -> Result<Content, FileProblem> {
    let decoded = decode_any(body)?;
    if decoded.is_empty() {
        return Err(FileProblem::Nothing);
    }
    Ok(Content { otlp: vec![decoded], runs: Vec::new() })
}

/// Whether the beginning reads as text; protobuf has control characters there.
fn is_text(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&body[..body.len().min(512)]);
    let is_odd =
        |c: char| c == char::REPLACEMENT_CHARACTER || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    // A character may be cut at the end.
    !head.trim_end_matches(char::REPLACEMENT_CHARACTER).contains(is_odd)
}

/// One JSON value, or many one after another.
fn json(body: &[u8]) -> Result<Content, FileProblem> {
    let mut content = Content::default();
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<&RawValue>();
    let mut offset = 0;
    while let Some(value) = values.next() {
        let text = value?.get();
        if is_otlp(text) {
            content.otlp.push(decode_any(text.as_bytes())?);
        } else {
            let value: Json = serde_json::from_str(text)?;
            listed(value, offset, &mut content)?;
        }
        offset = values.byte_offset();
    }
    if content.runs.is_empty() && content.otlp.iter().all(Decoded::is_empty) {
        return Err(FileProblem::Nothing);
    }
    Ok(content)
}

/// A run, a list of runs, or a list of OTLP requests.
fn listed(value: Json, offset: usize, content: &mut Content) -> Result<(), FileProblem> {
    let is_run = |value: &Json| value.get("run_type").is_some() && value.get("id").is_some();
    match value {
        Json::Array(items) if !items.is_empty() && items.iter().all(is_run) => content.runs.extend(items),
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                let text = item.to_string();
                if !is_otlp(&text) {
                    return Err(FileProblem::OtherJson { offset });
                }
                content.otlp.push(decode_any(text.as_bytes())?);
            }
        }
        run if is_run(&run) => content.runs.push(run),
        _ => return Err(FileProblem::OtherJson { offset }),
    }
    Ok(())
}

/// Whether a JSON object is an OTLP request, by its first key or one near it.
fn is_otlp(text: &str) -> bool {
    const KEYS: [&str; 4] =
        ["\"resourceSpans\"", "\"resource_spans\"", "\"resourceLogs\"", "\"resource_logs\""];
    let head = text.as_bytes();
    let head = &head[..head.len().min(512)];
    head.first() == Some(&b'{')
        && KEYS.iter().any(|key| head.windows(key.len()).any(|window| window == key.as_bytes()))
}

fn unpacked(path: &Path) -> Result<Vec<u8>, FileProblem> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    file.by_ref().take(4).read_to_end(&mut head)?;
    let whole = io::Cursor::new(head.clone()).chain(file);
    match head.as_slice() {
        [0x1f, 0x8b, ..] => limited(flate2::read::MultiGzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd] => limited(zstd::stream::read::Decoder::new(whole)?),
        _ => limited(whole),
    }
}

fn limited(reader: impl Read) -> Result<Vec<u8>, FileProblem> {
    let mut body = Vec::new();
    reader.take(LARGEST + 1).read_to_end(&mut body)?;
    if body.len() as u64 > LARGEST { Err(FileProblem::TooLarge) } else { Ok(body) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const REQUEST: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","name":"chat","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}"#;
    const RUN: &str = r#"{"id":"01a22bda-601e-738f-82ed-e5b4c1dda5a6","run_type":"chain","name":"r","start_time":"2026-11-30T09:48:04.185805","inputs":{"question":"q"},"outputs":{"output":"a"}}"#;

    fn write(folder: &Path, name: &str, body: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, body).unwrap();
        path
    }

    fn gzipped(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_content_decides_what_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let lines = format!("{REQUEST}\n{REQUEST}\n{RUN}\n");
        let files = [
            write(folder.path(), "a.txt", REQUEST.as_bytes()),
            write(folder.path(), "b.bin", &gzipped(lines.as_bytes())),
            write(folder.path(), "c.log", &zstd::encode_all(format!("[{RUN}]").as_bytes(), 1).unwrap()),
        ];
        let read = read_files(&files);
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        assert_eq!(read.traces.len(), 2);
        assert_eq!(read.traces[0].spans.len(), 3);
        assert_eq!(read.traces[1].spans.len(), 2);
    }

    #[test]
    fn a_bad_file_is_named_and_the_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            write(folder.path(), "broken.json", &REQUEST.as_bytes()[..80]),
            write(folder.path(), "good.json", REQUEST.as_bytes()),
            write(folder.path(), "other.json", br#"{"a": 1}"#),
            write(folder.path(), "empty", b""),
            write(folder.path(), "text.md", b"# Notes"),
            write(folder.path(), "cut.gz", &gzipped(REQUEST.as_bytes())[..40]),
            folder.path().join("missing"),
        ];
        let read = read_files(&files);
        assert_eq!(read.traces.len(), 1);
        let named: Vec<String> = read
            .errors
            .iter()
            .map(|error| error.path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(named, ["broken.json", "other.json", "empty", "text.md", "cut.gz", "missing"]);
        assert!(read.errors[0].to_string().contains("broken.json: is broken JSON"), "{}", read.errors[0]);
    }

    #[test]
    fn a_folder_may_hold_other_things_too() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        write(&folder.path().join("inner"), "good.json", REQUEST.as_bytes());
        write(folder.path(), "README.md", b"# Notes");
        write(folder.path(), ".hidden", b"x");
        let read = read_files(&[folder.path().to_owned()]);
        assert_eq!((read.traces.len(), read.errors.len(), read.notes.len()), (1, 0, 1));
    }

    #[test]
    fn a_folder_without_traces_and_a_text_are_said_to_be_that() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: &Path| {
            let read = read_files(&[path.to_owned()]);
            read.errors.iter().map(|error| error.problem.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(said(folder.path()), ["holds no traces"]);
        let notes = write(folder.path(), "README.md", "# Notes, with an é".as_bytes());
        assert_eq!(said(folder.path()), ["holds no traces: the file in it is something else"]);
        assert_eq!(said(&notes), ["is text, and neither JSON nor OTLP"]);
        write(folder.path(), "good.json", REQUEST.as_bytes());
        assert_eq!(said(folder.path()), Vec::<String>::new());
        let mut files = 0;
        read_files_telling(&[folder.path().to_owned()], &mut || files += 1);
        assert_eq!(files, 2);
    }
}
