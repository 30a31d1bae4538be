//! The corpus, wire by wire: what real libraries sent reads the same in protobuf and in JSON, and the content says what it is.

use std::path::{Path, PathBuf};

use assayd::otlp::{Encoding, Signal, decode, decode_any};

fn protobuf_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            protobuf_files(&path, found);
        } else if path.to_string_lossy().ends_with(".otlp.pb") {
            found.push(path);
        }
    }
}

#[test]
fn every_request_of_the_corpus_reads_the_same_in_protobuf_and_json() {
    let mut files = Vec::new();
    protobuf_files(Path::new("tests/fixtures/traces"), &mut files);
    assert!(files.len() > 100, "only {} files", files.len());
    for file in files {
        let name = file.display();
        let protobuf = std::fs::read(&file).unwrap();
        let read = decode_any(&protobuf).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read.rejects.is_empty(), "{name}: {}", read.rejects);
        let signal = if name.to_string().ends_with(".logs.otlp.pb") { Signal::Logs } else { Signal::Traces };
        assert_eq!(read.logs.is_empty(), signal == Signal::Traces, "{name}");
        let json = std::fs::read(file.with_extension("json")).unwrap();
        let from_json =
            decode(signal, Encoding::Json, &json).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read.spans == from_json.spans && read.logs == from_json.logs, "{name} differs");
        assert_eq!(from_json.base64_ids, 0, "{name}");
    }
}
