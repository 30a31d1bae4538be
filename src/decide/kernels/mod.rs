//! Arithmetic on slices for the CPU: linear layers in three precisions, products of f32 matrices, and loops that compile to the
//! best instructions found at run time. Public for the benchmarks.

mod dispatch;
mod linear;
mod math;
mod product;

pub use dispatch::{Fused, Kernel, run, vectorised};
pub use linear::{Linear, Precision};
pub use math::{dot, exp, sigmoid, silu, softplus};
pub use product::{Rows, RowsMut, Threads, product, times, times_transposed};
