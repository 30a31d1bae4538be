//! Each kernel against its portable twin, products against their definition, rows against themselves.

use proptest::prelude::*;

use super::bf16::Bf16;
use super::f32::F32;
use super::format::{DEPTH, Format};
use super::int8::Int8;
use super::panels::Panels;
use super::product::product;
use super::turn::{RUN, turn};
use super::{Linear, Precision};

const ALL: [Precision; 3] = [Precision::F32, Precision::Bf16, Precision::Int8];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.uniform()).sum::<f32>() / 2.0
    }

    /// As activations and weights with outliers: a thousandth beyond thirty standard deviations.
    fn heavy_tailed(&mut self) -> f32 {
        let normal = self.normal();
        normal * (1.0 + normal * normal) / (self.uniform().abs() + 0.05)
    }

    /// Of many magnitudes, zeros among them.
    fn mixed(&mut self) -> f32 {
        match (self.uniform() * 8.0) as i32 {
            0 => 0.0,
            power => self.uniform() * 4.0_f32.powi(power),
        }
    }

    fn take(&mut self, count: usize, next: fn(&mut Self) -> f32) -> Vec<f32> {
        (0..count).map(|_| next(self)).collect()
    }
}

/// `x · Wᵀ` in f64, and with it the sum of the magnitudes that were added.
fn exact(x: &[f32], weights: &[f32], inputs: usize) -> Vec<(f64, f64)> {
    let mut results = Vec::new();
    for row in x.chunks(inputs) {
        for column in weights.chunks(inputs) {
            let products = row.iter().zip(column).map(|(x, w)| f64::from(*x) * f64::from(*w));
            results.push(products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs())));
        }
    }
    results
}

fn apply(layer: &Linear, x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len() / layer.inputs() * layer.outputs()];
    layer.apply(x, &mut out);
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Results of all kernels that this CPU can run, the portable one last.
fn all_kernels<F: Format>(x: &[f32], weights: &[f32], outputs: usize, inputs: usize) -> Vec<Vec<f32>> {
    let kernels = F::kernels();
    let results = kernels.into_iter().map(|kernel| {
        let panels = Panels::<F>::pack(weights, outputs, inputs, kernel);
        let mut out = vec![0.0; x.len() / inputs * outputs];
        product(&panels, x, &mut out, false);
        out
    });
    results.collect()
}

/// Rows, outputs and inputs, ragged in every direction.
fn shapes() -> impl Strategy<Value = (usize, usize, usize, u64)> {
    (1_usize..30, 1_usize..70, 1_usize..600, any::<u64>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn all_f32_kernels_agree_and_fused_ones_to_the_bit((rows, outputs, inputs, seed) in shapes()) {
        let mut numbers = Numbers(seed);
        let x = numbers.take(rows * inputs, Numbers::mixed);
        let weights = numbers.take(outputs * inputs, Numbers::mixed);
        let results = all_kernels::<F32>(&x, &weights, outputs, inputs);
        let exact = exact(&x, &weights, inputs);
        for result in &results {
            for (ours, (sum, size)) in result.iter().zip(&exact) {
                prop_assert!((f64::from(*ours) - sum).abs() <= size * 1e-5, "{} {}", ours, sum);
            }
        }
        // The portable one fuses its multiply-adds only where that is an instruction.
        for result in &results[..results.len() - 1] {
            prop_assert_eq!(bits(result), bits(&results[0]));
        }
    }

    #[test]
    fn all_bf16_kernels_agree((rows, outputs, inputs, seed) in shapes()) {
        let mut numbers = Numbers(seed);
        let x = numbers.take(rows * inputs, Numbers::mixed);
        let weights = numbers.take(outputs * inputs, Numbers::mixed);
        let results = all_kernels::<Bf16>(&x, &weights, outputs, inputs);
        let rounded = |values: &[f32]| -> Vec<f32> {
            values.iter().map(|value| half::bf16::from_f32(*value).to_f32()).collect()
        };
        let exact = exact(&rounded(&x), &rounded(&weights), inputs);
        for result in &results {
            for (ours, (sum, size)) in result.iter().zip(&exact) {
                prop_assert!((f64::from(*ours) - sum).abs() <= size * 1e-5, "{} {}", ours, sum);
            }
        }
    }

    #[test]
    fn all_int8_kernels_give_the_same_bits((rows, outputs, inputs, seed) in shapes()) {
        let mut numbers = Numbers(seed);
        let x = numbers.take(rows * inputs, Numbers::mixed);
        let weights = numbers.take(outputs * inputs, Numbers::mixed);
        let results = all_kernels::<Int8>(&x, &weights, outputs, inputs);
        for result in &results {
            prop_assert_eq!(bits(result), bits(&results[0]));
        }
        for (row, ours) in x.chunks(inputs).zip(results[0].chunks(outputs)) {
            for (column, ours) in weights.chunks(inputs).zip(ours) {
                let (value, bound) = int8_bound(row, column);
                prop_assert!((f64::from(*ours) - value).abs() <= bound, "{ours} {value} {bound}");
            }
        }
    }

    #[test]
    fn a_row_alone_gives_the_bits_that_it_gives_among_others((rows, outputs, inputs, seed) in shapes()) {
        let mut numbers = Numbers(seed);
        let x = numbers.take(rows * inputs, Numbers::mixed);
        let weights = numbers.take(outputs * inputs, Numbers::mixed);
        for precision in ALL {
            let layer = Linear::pack(&weights, outputs, inputs, precision);
            let together = apply(&layer, &x);
            for (row, together) in x.chunks(inputs).zip(together.chunks(outputs)) {
                prop_assert_eq!(bits(&apply(&layer, row)), bits(together));
            }
        }
    }

    #[test]
    fn bf16_rounds_as_the_standard_says(values in prop::collection::vec(any::<(u32, bool)>(), 1..40)) {
        // Every second one lies halfway between two bf16 values.
        let halfway = |bits: u32| bits & 0xffff_0000 | 0x8000;
        let bits = values.into_iter().map(|(bits, tie)| if tie { halfway(bits) } else { bits });
        let values: Vec<f32> = bits.map(f32::from_bits).collect();
        let mut lanes = [0; DEPTH];
        Bf16::encode_row(&values, &mut lanes);
        for (index, value) in values.iter().enumerate() {
            let ours = half::bf16::from_bits((lanes[index / 2] >> (index % 2 * 16)) as u16);
            let theirs = half::bf16::from_f32(*value);
            prop_assert!(ours == theirs || ours.is_nan() && value.is_nan(), "{} {}", ours, theirs);
        }
    }
}

/// The definition, and how far int8 may be from it: half a step of each turned run of the row and of the column.
fn int8_bound(row: &[f32], column: &[f32]) -> (f64, f64) {
    let products = row.iter().zip(column).map(|(x, w)| f64::from(*x) * f64::from(*w));
    let value = products.sum();
    let mut bound = 1e-12;
    for (x, w) in row.chunks(RUN).zip(column.chunks(RUN)) {
        let (mut x, mut w) = (x.to_vec(), w.to_vec());
        let excess = f64::from(turn(&mut x));
        turn(&mut w);
        let step = |values: &[f32]| f64::from(values.iter().fold(0.0_f32, |a, b| a.max(b.abs()))) / 127.0;
        // A little more than half: turning and the division by the scale are rounded too.
        let (x_error, w_error) = (step(&x) * 0.51, step(&w) * 0.51);
        for (x, w) in x.iter().zip(&w) {
            let (x, w) = (f64::from(*x).abs(), f64::from(*w).abs());
            bound += (x * w_error + w * x_error + x_error * w_error + x * w * 1e-6) / excess;
        }
    }
    (value, bound)
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let (rows, outputs, inputs) = (400, 97, 130);
    let mut numbers = Numbers(7);
    let x = numbers.take(rows * inputs, Numbers::uniform);
    let weights = numbers.take(outputs * inputs, Numbers::uniform);
    for precision in ALL {
        let layer = Linear::pack(&weights, outputs, inputs, precision);
        let results = [1, 2, 5].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| bits(&apply(&layer, &x)))
        });
        assert_eq!(results[0], results[1], "{precision:?}");
        assert_eq!(results[0], results[2], "{precision:?}");
    }
}

#[test]
fn results_replace_or_add() {
    let (outputs, inputs) = (35, 9);
    let mut numbers = Numbers(3);
    let x = numbers.take(2 * inputs, Numbers::uniform);
    let weights = numbers.take(outputs * inputs, Numbers::uniform);
    for precision in ALL {
        let layer = Linear::pack(&weights, outputs, inputs, precision);
        let plain = apply(&layer, &x);
        let mut out = vec![f32::NAN; 2 * outputs];
        layer.apply(&x, &mut out);
        assert_eq!(out, plain);
        let mut out = vec![1.5; 2 * outputs];
        layer.apply_adding(&x, &mut out);
        let expected: Vec<f32> = plain.iter().map(|value| 1.5 + value).collect();
        assert_eq!(out, expected);
    }
}

#[test]
fn empty_shapes_are_no_trouble() {
    for precision in ALL {
        Linear::pack(&[], 0, 5, precision).apply(&[1.0; 10], &mut []);
        Linear::pack(&[1.0; 15], 3, 5, precision).apply(&[], &mut []);
        let layer = Linear::pack(&[], 3, 0, precision);
        let mut out = [7.0; 6];
        layer.apply_adding(&[], &mut out);
        assert_eq!(out, [7.0; 6]);
        layer.apply(&[], &mut out);
        assert_eq!(out, [0.0; 6]);
    }
}

#[test]
#[should_panic(expected = "rows of a linear layer")]
fn rows_must_be_whole_and_as_many_on_both_sides() {
    Linear::pack(&[1.0; 15], 3, 5, Precision::F32).apply(&[1.0; 10], &mut [0.0; 7]);
}

#[test]
fn what_is_not_finite_shows_in_its_row_or_column_only() {
    let (rows, outputs, inputs) = (5, 40, 600);
    let mut numbers = Numbers(11);
    for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut x = numbers.take(rows * inputs, Numbers::normal);
        let mut weights = numbers.take(outputs * inputs, Numbers::normal);
        x[2 * inputs + 577] = poison;
        weights[33 * inputs + 3] = poison;
        for precision in ALL {
            let out = apply(&Linear::pack(&weights, outputs, inputs, precision), &x);
            for (index, value) in out.iter().enumerate() {
                let touched = index / outputs == 2 || index % outputs == 33;
                assert_eq!(!value.is_finite(), touched, "{precision:?} {poison} {index} {value}");
                assert!(!touched || precision != Precision::Int8 || value.is_nan());
            }
        }
    }
}

#[test]
fn int8_sums_do_not_saturate_or_overflow() {
    let inputs = 6144;
    for (x, w, expected) in
        [(1.0, 1.0, 6144.0), (1.0, -1.0, -6144.0), (-1.0, -1.0, 6144.0), (-1.0, 1.0, -6144.0)]
    {
        for result in all_kernels::<Int8>(&vec![x; 3 * inputs], &vec![w; 2 * inputs], 2, inputs) {
            for value in result {
                assert!((value - expected).abs() < 0.01, "{value} {expected}");
            }
        }
    }
}

#[test]
fn int8_keeps_tiny_and_huge_runs() {
    for size in [0.0, 1e-38, 1e-25, 1.0, 1e18] {
        let x: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { size } else { -size }).collect();
        let weights: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let out = apply(&Linear::pack(&weights, 1, 64, Precision::Int8), &x);
        let expected = 64.0 * size;
        assert!((out[0] - expected).abs() <= expected * 1e-5 + 1e-28, "{} {expected}", out[0]);
    }
}

#[test]
fn rounding_costs_what_it_should() {
    let (rows, outputs, inputs) = (3, 40, 2048);
    let mut numbers = Numbers(5);
    for (name, int8_limit) in [("normal", 0.012), ("heavy-tailed", 0.013)] {
        let sampler = if name == "normal" { Numbers::normal } else { Numbers::heavy_tailed };
        let x = numbers.take(rows * inputs, sampler);
        let weights = numbers.take(outputs * inputs, sampler);
        let exact = exact(&x, &weights, inputs);
        for (precision, limit) in [(Precision::Bf16, 0.004), (Precision::Int8, int8_limit)] {
            let out = apply(&Linear::pack(&weights, outputs, inputs, precision), &x);
            let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
            let error = squares(&mut out.iter().zip(&exact).map(|(ours, (sum, _))| f64::from(*ours) - sum));
            let error = error / squares(&mut exact.iter().map(|(sum, _)| *sum));
            assert!(error < limit, "{name} {precision:?}: {error}");
        }
    }
}

#[test]
fn memory_is_what_the_format_promises() {
    let weights = vec![0.5; 64 * 1024];
    let bytes = ALL.map(|precision| Linear::pack(&weights, 64, 1024, precision).bytes());
    assert_eq!(bytes, [262_144, 131_072, 65_536 + 2 * 2 * 256]);
}
