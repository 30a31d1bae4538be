//! Arithmetic on slices for the CPU: products of matrices, and loops that compile to the best instructions found at run time.

mod dispatch;
mod math;
mod product;

pub use dispatch::{Fused, Kernel, run, vectorised};
pub use math::{dot, exp, sigmoid, silu, softplus};
pub use product::{Rows, RowsMut, Threads, product, times, times_transposed};
