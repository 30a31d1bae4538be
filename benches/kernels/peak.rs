//! What one core can do: multiply-adds on registers alone, enough of them in flight, with the instructions that the kernels use.

use std::hint::black_box;

use assayd::decide::kernels::Precision;

const STEPS: usize = 100_000;
/// Independent sums: more than the instructions' latency.
const SUMS: usize = 12;
/// Operations of a run on 512-bit registers of f32; bf16 does twice and int8 four times as many in the same instructions.
pub const OPERATIONS: usize = STEPS * SUMS * 32;

/// Does [`OPERATIONS`].
#[cfg(target_arch = "x86_64")]
pub fn run(precision: Precision) {
    let wide = is_x86_feature_detected!("avx512f");
    match precision {
        Precision::Bf16 if wide && is_x86_feature_detected!("avx512bf16") => {
            // SAFETY: the CPU has the instructions.
            unsafe { x86::bf16(STEPS / 2) };
        }
        Precision::Int8 if wide && is_x86_feature_detected!("avx512vnni") => {
            // SAFETY: the CPU has the instructions.
            unsafe { x86::int8(STEPS / 4) };
        }
        // SAFETY: the CPU has the instructions.
        _ if wide => unsafe { x86::f32(STEPS) },
        // SAFETY: the CPU has the instructions.
        _ if is_x86_feature_detected!("fma") => unsafe { x86::f32_narrow(STEPS * 2) },
        _ => portable(),
    }
}

/// Does [`OPERATIONS`].
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: Precision) {
    portable();
}

/// As far as plain loops go.
fn portable() {
    let mut sums = [1.0_f32; SUMS * 16];
    let (x, y) = (black_box(0.5_f32), black_box(0.25_f32));
    for _ in 0..STEPS {
        sums.iter_mut().for_each(|sum| *sum += x * y);
        black_box(&mut sums);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_dpbf16_ps, _mm512_dpbusd_epi32,
        _mm512_fmadd_ps, _mm512_set1_epi32, _mm512_set1_ps,
    };
    use std::hint::black_box;

    use super::SUMS;

    #[target_feature(enable = "avx512f")]
    pub fn f32(steps: usize) {
        let mut sums = [_mm512_set1_ps(1.0); SUMS];
        let (x, y) = (black_box(_mm512_set1_ps(0.5)), black_box(_mm512_set1_ps(0.25)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(x, y, *sum);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx,fma")]
    pub fn f32_narrow(steps: usize) {
        let mut sums = [_mm256_set1_ps(1.0); SUMS];
        let (x, y) = (black_box(_mm256_set1_ps(0.5)), black_box(_mm256_set1_ps(0.25)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(x, y, *sum);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn bf16(steps: usize) {
        let mut sums = [_mm512_set1_ps(1.0); SUMS];
        let pairs = |bits: i32| {
            // SAFETY: both types are 64 plain bytes.
            unsafe { std::mem::transmute::<__m512i, __m512bh>(black_box(_mm512_set1_epi32(bits))) }
        };
        let (x, y) = (pairs(0x3f00_3f00), pairs(0x3e80_3e80));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, x, y);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn int8(steps: usize) {
        let mut sums = [_mm512_set1_epi32(1); SUMS];
        let (x, y) = (black_box(_mm512_set1_epi32(0x0101_0101)), black_box(_mm512_set1_epi32(0x0201_0201)));
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, x, y);
            }
        }
        black_box(sums);
    }
}
