//! Which records a fit may see, and which it is reported on.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// A part of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The fit sees it.
    Fit,
    /// The report is made of it.
    Report,
}

/// The part of each record. `groups` holds a record's group: those of one group (the same evidence, the same trace) go to the
/// same part, or the report would know what the fit has seen. About `share` of the records are for the fit. The same seed
/// gives the same split, whatever the order of the records.
pub fn split(groups: &[String], share: f64, seed: u64) -> Vec<Part> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups {
        *sizes.entry(group).or_default() += 1;
    }
    let mut ordered: Vec<([u8; 32], &str)> = sizes.keys().map(|group| (rank(group, seed), *group)).collect();
    ordered.sort_unstable();
    let wanted = share.clamp(0.0, 1.0) * groups.len() as f64;
    let mut taken = 0.0;
    let mut parts: BTreeMap<&str, Part> = BTreeMap::new();
    for (_, group) in ordered {
        let size = sizes[group] as f64;
        // A group is in while more than half of it fits.
        let part = if taken + size / 2.0 <= wanted { Part::Fit } else { Part::Report };
        if part == Part::Fit {
            taken += size;
        }
        parts.insert(group, part);
    }
    groups.iter().map(|group| parts[group.as_str()]).collect()
}

fn rank(group: &str, seed: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update(group.as_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_seed_is_another_split() {
        let groups: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        assert_ne!(split(&groups, 0.5, 1), split(&groups, 0.5, 2));
        assert_eq!(split(&groups, 0.5, 1), split(&groups, 0.5, 1));
        assert_eq!(split(&groups, 0.5, 1).iter().filter(|part| **part == Part::Fit).count(), 20);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn groups_stay_together_and_the_order_does_not_matter(
            groups in prop::collection::vec(0u8..12, 1..60), share in 0.0..=1.0, seed in any::<u64>(),
        ) {
            let groups: Vec<String> = groups.iter().map(u8::to_string).collect();
            let parts = split(&groups, share, seed);
            for (group, part) in groups.iter().zip(&parts) {
                let same = groups.iter().zip(&parts).filter(|(other, _)| *other == group);
                prop_assert!(same.into_iter().all(|(_, other)| other == part));
            }
            let reversed: Vec<String> = groups.iter().rev().cloned().collect();
            let turned: Vec<Part> = split(&reversed, share, seed).into_iter().rev().collect();
            prop_assert_eq!(parts, turned);
        }
    }
}
