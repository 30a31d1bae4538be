//! Turns a run of values by a matrix of ±1 before it is rounded to few bits.
//!
//! What is turned alike on both sides of a product keeps its sum of products, times the length of what was turned. And each
//! turned value is a sum of all of them: a few large ones, which would stretch the scale of their whole run, are spread evenly.

use super::format::DEPTH;

/// Values of a whole run.
pub const RUN: usize = 4 * DEPTH;

/// Values that a vector instruction takes at once, or a multiple of that.
const LANES: usize = 16;

/// Turns the values in place. Gives the factor by which sums of products are now too large: a power of two, the same for all
/// runs of a length.
#[inline(always)]
pub fn turn(values: &mut [f32]) -> f32 {
    if values.len() == RUN {
        let (vectors, _) = values.as_chunks_mut::<LANES>();
        turn_whole(vectors);
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

/// Sums and differences of values ever further apart, a vector at a time. Within vectors there is no instruction for that, so
/// the last four rounds move the lanes of one side instead: each then meets sums that hold none of its own values.
#[inline(always)]
fn turn_whole(run: &mut [[f32; LANES]]) {
    round::<0>(run, 1);
    round::<0>(run, 2);
    round::<0>(run, 4);
    round::<0>(run, 8);
    round::<0>(run, 16);
    round::<1>(run, 1);
    round::<2>(run, 2);
    round::<4>(run, 4);
    round::<8>(run, 8);
}

#[inline(always)]
fn round<const MOVED: usize>(run: &mut [[f32; LANES]], apart: usize) {
    for pairs in run.chunks_exact_mut(2 * apart) {
        let (near, far) = pairs.split_at_mut(apart);
        for (near, far) in near.iter_mut().zip(far) {
            let mut moved = [0.0; LANES];
            for lane in 0..LANES {
                moved[lane] = far[(lane + MOVED) % LANES];
            }
            for lane in 0..LANES {
                let value = near[lane];
                near[lane] = value + moved[lane];
                far[lane] = value - moved[lane];
            }
        }
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
