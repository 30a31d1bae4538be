//! Turns a run of values by a matrix of ±1 before it is rounded to few bits.
//!
//! What is turned alike on both sides of a product keeps its sum of products, times the length of what was turned. And each
//! turned value is a sum of all of them: a few large ones, which would stretch the scale of their whole run, are spread evenly.

use super::format::DEPTH;

/// Values of a whole run.
pub const RUN: usize = 4 * DEPTH;

const HALF: usize = RUN / 2;

/// Room for a copy of values from the start of the second half after its end, so that it can be read from any place on.
const SPARE: usize = HALF / 2;

/// Turns the values in place. Gives the factor by which sums of products are now too large: a power of two, the same for all
/// runs of a length.
#[inline(always)]
pub fn turn(values: &mut [f32]) -> f32 {
    if let Ok(run) = <&mut [f32; RUN]>::try_from(&mut *values) {
        turn_whole(run);
        return RUN as f32;
    }
    let piece = piece(values.len());
    values.chunks_exact_mut(piece).for_each(turn_piece);
    piece as f32
}

/// The largest power of two that divides the length of a shorter run.
#[inline(always)]
fn piece(length: usize) -> usize {
    1 << length.trailing_zeros().min(RUN.trailing_zeros())
}

/// Nine rounds of sums and differences. Each pairs the first half with the second, moved by another power of two: then what
/// meets has no value in common, as in the textbook's order of rounds, but all loads and stores are of whole vectors.
#[inline(always)]
fn turn_whole(run: &mut [f32; RUN]) {
    let mut one = [0.0; RUN + SPARE];
    let mut other = [0.0; RUN + SPARE];
    one[..RUN].copy_from_slice(run);
    round(&mut one, &mut other, 0);
    for by in [1, 4, 16, 64] {
        round(&mut other, &mut one, by);
        round(&mut one, &mut other, 2 * by);
    }
    run.copy_from_slice(&other[..RUN]);
}

#[inline(always)]
fn round(from: &mut [f32; RUN + SPARE], to: &mut [f32; RUN + SPARE], by: usize) {
    from.copy_within(HALF..HALF + by, RUN);
    let (near, far) = from.split_at(HALF);
    let (sums, differences) = to.split_at_mut(HALF);
    let far = &far[by..by + HALF];
    let differences = &mut differences[..HALF];
    for (((near, far), sum), difference) in near.iter().zip(far).zip(sums).zip(differences) {
        *sum = near + far;
        *difference = near - far;
    }
}

#[inline(always)]
fn turn_piece(values: &mut [f32]) {
    let mut apart = 1;
    while apart < values.len() {
        for pairs in values.chunks_exact_mut(2 * apart) {
            let (near, far) = pairs.split_at_mut(apart);
            for (near, far) in near.iter_mut().zip(far) {
                (*near, *far) = (*near + *far, *near - *far);
            }
        }
        apart *= 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_value_has_the_same_share_in_every_turned_one() {
        for length in [RUN, 256, 96, 7] {
            for place in (0..length).step_by(5) {
                let mut values = vec![0.0; length];
                values[place] = 1.0;
                let factor = turn(&mut values);
                let shares = values.iter().filter(|value| value.abs() == 1.0).count();
                assert_eq!(shares as f32, factor, "{length} {place}");
                assert_eq!(values.iter().filter(|value| **value == 0.0).count(), length - shares);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn sums_of_products_stay(
            length in prop_oneof![Just(RUN), 1..RUN],
            seeds in prop::collection::vec((-8.0_f32..8.0, -8.0_f32..8.0), RUN),
        ) {
            let (mut a, mut b): (Vec<f32>, Vec<f32>) = seeds[..length].iter().copied().unzip();
            let dot = |a: &[f32], b: &[f32]| -> f64 {
                a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
            };
            let before = dot(&a, &b);
            let factor = turn(&mut a);
            prop_assert_eq!(factor, turn(&mut b));
            let size = (dot(&a, &a) * dot(&b, &b)).sqrt();
            prop_assert!((dot(&a, &b) - before * f64::from(factor)).abs() <= size * 1e-5);
        }
    }
}
