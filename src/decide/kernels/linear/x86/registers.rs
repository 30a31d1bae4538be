//! Rows of a panel to and from registers: 32 columns in two of 512 bits, or half of them in two of 256 bits.

use std::arch::x86_64::{
    __m256, __m256i, __m512, __m512i, _mm256_add_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_storeu_ps,
    _mm512_add_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_storeu_ps,
};

use super::super::format::{Step, Values};

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lanes(step: &Step) -> [__m512i; 2] {
    let (parts, _) = step.0.as_chunks::<16>();
    // SAFETY: each part is 64 bytes long.
    [0, 1].map(|part: usize| unsafe { _mm512_loadu_si512(parts[part].as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn values(values: &Values) -> [__m512; 2] {
    let (parts, _) = values.0.as_chunks::<16>();
    // SAFETY: each part is 64 bytes long.
    [0, 1].map(|part: usize| unsafe { _mm512_loadu_ps(parts[part].as_ptr()) })
}

/// `values += more`
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn add(values: &mut Values, more: [__m512; 2]) {
    let (parts, _) = values.0.as_chunks_mut::<16>();
    for (part, more) in parts.iter_mut().zip(more) {
        // SAFETY: each part is 64 bytes long.
        unsafe { _mm512_storeu_ps(part.as_mut_ptr(), _mm512_add_ps(_mm512_loadu_ps(part.as_ptr()), more)) };
    }
}

/// Half 0 or 1 of the columns.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn half_lanes(step: &Step, half: usize) -> [__m256i; 2] {
    let (parts, _) = step.0.as_chunks::<8>();
    // SAFETY: each part is 32 bytes long.
    [0, 1].map(|part: usize| unsafe { _mm256_loadu_si256(parts[2 * half + part].as_ptr().cast()) })
}

/// Half 0 or 1 of the columns.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn half_values(values: &Values, half: usize) -> [__m256; 2] {
    let (parts, _) = values.0.as_chunks::<8>();
    // SAFETY: each part is 32 bytes long.
    [0, 1].map(|part: usize| unsafe { _mm256_loadu_ps(parts[2 * half + part].as_ptr()) })
}

/// `values += more` in half 0 or 1 of the columns.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn add_half(values: &mut Values, half: usize, more: [__m256; 2]) {
    let (parts, _) = values.0.as_chunks_mut::<8>();
    for (part, more) in parts[2 * half..].iter_mut().zip(more) {
        // SAFETY: each part is 32 bytes long.
        unsafe { _mm256_storeu_ps(part.as_mut_ptr(), _mm256_add_ps(_mm256_loadu_ps(part.as_ptr()), more)) };
    }
}
