//! Chance that can be repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds beyond the regression seeds in an ordinary test run.
const ORDINARY: u64 = 300;

/// A tiny generator (splitmix64): the same seed, the same throws, on every machine and for ever.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.throw() % end as u64) as usize
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.throw() % 100 < chance
    }

    /// One of them, if there is one.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }
}

/// Plays the histories of `ASSAYD_SEED`, or of the seeds up to `ASSAYD_SEEDS`, or else of `regression` and some more. A history that
/// breaks a law panics; its seed is said.
pub fn sweep(name: &str, regression: &[u64], play: impl Fn(u64)) {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{variable} ({text:?}) is not a number")))
    };
    let seeds: Vec<u64> = match (number("ASSAYD_SEED"), number("ASSAYD_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, Some(count)) => (0..count).collect(),
        (None, None) => regression.iter().copied().chain(0..ORDINARY).collect(),
    };
    let mut failed = Vec::new();
    for seed in seeds {
        if catch_unwind(AssertUnwindSafe(|| play(seed))).is_err() {
            println!(
                "{name}: seed {seed} fails; again: ASSAYD_SEED={seed} cargo test --test simulation {name}"
            );
            failed.push(seed);
        }
        if failed.len() == 10 {
            break;
        }
    }
    assert!(
        failed.is_empty(),
        "{name} fails with the seeds {failed:?}: mend it, and keep them in its REGRESSION list"
    );
}
