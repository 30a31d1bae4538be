//! Kernels for x86-64. A kernel can only be had from `detect`, where the CPU has its instructions: that is what makes them safe.

pub mod bf16_avx2;
pub mod bf16_avx512;
pub mod f32_avx2;
pub mod f32_avx512;
pub mod int8_avx2;
pub mod int8_avx512;
mod registers;
