//! A panic in one trace must not touch the others.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// Runs `work`; a panic within becomes its message. `work` must not leave shared state half changed.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_its_message() {
        let result: Result<(), String> = caught(async { panic!("broken {}", 7) }).await;
        assert_eq!(result, Err("broken 7".to_owned()));
        assert_eq!(caught(async { 1 }).await, Ok(1));
    }
}
