//! The memory that the bodies of all requests may take together, until they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;

use super::reply::Refusal;
use crate::metrics;

/// When to come back: bodies are answered soon, or time out.
const FULL: Duration = Duration::from_secs(2);

/// The memory of one listener. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    free: Arc<Semaphore>,
    most: usize,
}

impl Budget {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        let most = bytes.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(most)), most }
    }

    /// Answers a request with a hold on this budget in its extensions. What it took is free again with the answer.
    pub async fn before(self, mut request: Request, next: Next) -> Response {
        let hold = Hold(Arc::new(Inner { budget: self, bytes: AtomicUsize::new(0) }));
        request.extensions_mut().insert(hold.clone());
        let response = next.run(request).await;
        drop(hold);
        response
    }
}

/// What one request has taken. Given back when its last clone is gone.
#[derive(Debug, Clone)]
pub(super) struct Hold(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    budget: Budget,
    bytes: AtomicUsize,
}

impl Hold {
    /// Takes so much more, or says why not: no room now, or never.
    pub fn add(&self, bytes: usize) -> Result<(), Refusal> {
        let Inner { budget, bytes: taken } = &*self.0;
        let all = taken.load(Ordering::Relaxed).saturating_add(bytes);
        if all > budget.most {
            let message = format!(
                "the body takes at least {all} bytes of memory, and serve.max_held_bytes is {}",
                budget.most
            );
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message));
        }
        let Some(permits) =
            u32::try_from(bytes).ok().and_then(|bytes| budget.free.try_acquire_many(bytes).ok())
        else {
            metrics::serve_full();
            return Err(Refusal::busy(
                "the bodies of other requests fill the memory for them; retry later",
                FULL,
            ));
        };
        permits.forget();
        taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.budget.free.add_permits(self.bytes.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(budget: &Budget) -> Hold {
        Hold(Arc::new(Inner { budget: budget.clone(), bytes: AtomicUsize::new(0) }))
    }

    #[test]
    fn what_is_taken_is_shared_and_comes_back_with_the_last_clone() {
        let budget = Budget::new(100);
        let (one, other) = (hold(&budget), hold(&budget));
        let same = one.clone();
        one.add(60).unwrap();
        other.add(30).unwrap();
        let busy = other.add(20).unwrap_err();
        assert_eq!((busy.status, busy.retry_after), (StatusCode::SERVICE_UNAVAILABLE, Some(FULL)));
        drop(one);
        assert!(other.add(20).is_err(), "a clone still has it");
        drop(same);
        other.add(70).unwrap();
        drop(other);
        assert_eq!(budget.free.available_permits(), 100);
    }

    #[test]
    fn what_can_never_fit_is_not_asked_to_come_back() {
        let never = hold(&Budget::new(100)).add(101).unwrap_err();
        assert_eq!((never.status, never.retry_after), (StatusCode::PAYLOAD_TOO_LARGE, None));
        assert!(never.message.contains("serve.max_held_bytes is 100"));
    }
}
