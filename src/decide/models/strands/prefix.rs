//! States of recently read prefixes, by their tokens: a second request on the same evidence costs only its questions.

use std::collections::HashMap;
use std::sync::Arc;

/// A byte-bounded cache; the least recently used states go first.
pub struct PrefixCache<S> {
    limit: usize,
    bytes: usize,
    clock: u64,
    /// A map compares whole keys, so two prefixes with one hash are never taken for each other.
    entries: HashMap<Arc<[u32]>, Entry<S>>,
}

struct Entry<S> {
    state: Arc<S>,
    bytes: usize,
    used: u64,
}

impl<S> PrefixCache<S> {
    /// Holds at most `limit` bytes; 0 holds nothing.
    pub fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, clock: 0, entries: HashMap::new() }
    }

    /// Whether a state of so many bytes can be held at all.
    pub fn holds(&self, bytes: usize) -> bool {
        bytes <= self.limit
    }

    /// The state after exactly these tokens.
    pub fn find(&mut self, tokens: &[u32]) -> Option<Arc<S>> {
        self.clock += 1;
        let entry = self.entries.get_mut(tokens)?;
        entry.used = self.clock;
        Some(Arc::clone(&entry.state))
    }

    /// Takes a state in, and puts others out while there are too many bytes.
    pub fn insert(&mut self, tokens: Arc<[u32]>, state: Arc<S>, bytes: usize) {
        let bytes = bytes + tokens.len() * size_of::<u32>();
        if !self.holds(bytes) {
            return;
        }
        self.clock += 1;
        let entry = Entry { state, bytes, used: self.clock };
        if let Some(old) = self.entries.insert(tokens, entry) {
            self.bytes -= old.bytes;
        }
        self.bytes += bytes;
        while self.bytes > self.limit {
            // There are tens of states, not thousands: each holds megabytes.
            let oldest =
                self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| Arc::clone(key));
            let Some(entry) = oldest.and_then(|key| self.entries.remove(&key)) else { return };
            self.bytes -= entry.bytes;
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_recently_used_state_goes_first() {
        let mut cache = PrefixCache::new(3 * 104);
        for token in 0..3 {
            cache.insert(Arc::from([token]), Arc::new(token), 100);
        }
        assert!(cache.find(&[0]).is_some());
        cache.insert(Arc::from([3]), Arc::new(3), 100);
        let held: Vec<bool> = (0..4).map(|token| cache.find(&[token]).is_some()).collect();
        assert_eq!(held, [true, false, true, true]);
    }

    #[test]
    fn a_state_larger_than_the_limit_is_not_taken() {
        let mut cache = PrefixCache::new(50);
        cache.insert(Arc::from([1]), Arc::new(()), 100);
        assert_eq!((cache.bytes(), cache.find(&[1])), (0, None));
    }

    proptest! {
        #[test]
        fn bytes_stay_within_the_limit_and_every_hit_is_exact(
            steps in prop::collection::vec((prop::collection::vec(0u32..3, 1..4), 0usize..200), 0..60),
        ) {
            let mut cache = PrefixCache::new(400);
            for (tokens, bytes) in steps {
                if let Some(state) = cache.find(&tokens) {
                    prop_assert_eq!(&*state, &tokens);
                }
                cache.insert(Arc::from(tokens.as_slice()), Arc::new(tokens), bytes);
                let sum: usize = cache.entries.values().map(|entry| entry.bytes).sum();
                prop_assert!(cache.bytes() <= 400 && cache.bytes() == sum);
            }
        }
    }
}
