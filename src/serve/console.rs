//! `/`: the console, a page of a few small files that are part of the binary. It reads the same paths as everybody.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use sha2::{Digest, Sha256};

use super::server::{Shared, route};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// What the page may do: its own scripts and styles, its own server, and no text as markup. Verdicts hold text from outside.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A file of the page.
struct File {
    path: &'static str,
    media_type: &'static str,
    text: &'static str,
}

const FILES: &[File] = &[
    File { path: "/", media_type: HTML, text: include_str!("console/index.html") },
    File { path: "/console/console.css", media_type: CSS, text: include_str!("console/console.css") },
    File { path: "/console/console.js", media_type: SCRIPT, text: include_str!("console/console.js") },
    File { path: "/console/source.js", media_type: SCRIPT, text: include_str!("console/source.js") },
    File { path: "/console/page.js", media_type: SCRIPT, text: include_str!("console/page.js") },
    File { path: "/console/list.js", media_type: SCRIPT, text: include_str!("console/list.js") },
    File { path: "/console/overview.js", media_type: SCRIPT, text: include_str!("console/overview.js") },
    File { path: "/console/detail.js", media_type: SCRIPT, text: include_str!("console/detail.js") },
    File { path: "/console/story.js", media_type: SCRIPT, text: include_str!("console/story.js") },
    File { path: "/console/feedback.js", media_type: SCRIPT, text: include_str!("console/feedback.js") },
    File { path: "/console/chart.js", media_type: SCRIPT, text: include_str!("console/chart.js") },
    File { path: "/console/icon.svg", media_type: SVG, text: include_str!("console/icon.svg") },
];

/// Changes when any file does: a page never runs with the scripts of another version.
static TAG: LazyLock<HeaderValue> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for file in FILES {
        hash.update(file.text.as_bytes());
    }
    let digits: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{digits}\""))
        .expect("hexadecimal digits and quotes are a header's value")
});

pub(super) fn routes() -> Router<Shared> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.merge(route(file.path, get(async move |headers: HeaderMap| answer(file, &headers))))
    })
}

fn answer(file: &File, asked: &HeaderMap) -> Response {
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|tags| knows(tags, &TAG));
    let (status, body) = match is_known {
        true => (StatusCode::NOT_MODIFIED, ""),
        false => (StatusCode::OK, file.text),
    };
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.insert(header::ETAG, TAG.clone());
    // Always asked for, mostly answered with 304.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

fn knows(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    let (tags, tag) = (tags.to_str().unwrap_or_default(), tag.to_str().unwrap_or_default());
    tags.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_the_page_reaches_outside_or_writes_markup() {
        for file in FILES {
            let code = file.text.replace("http://www.w3.org/2000/svg", "");
            for word in
                ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "style=\""]
            {
                assert!(!code.contains(word), "{} has {word}", file.path);
            }
        }
    }

    #[test]
    fn every_file_that_a_script_or_the_page_names_is_there() {
        for file in FILES {
            let quoted =
                file.text.split(['"', '\'']).filter(|part| part.starts_with("./") && part.ends_with(".js"));
            for name in quoted {
                let path = format!("/console/{}", &name[2..]);
                assert!(FILES.iter().any(|file| file.path == path), "{} names {name}", file.path);
            }
        }
    }
}
