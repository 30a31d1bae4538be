//! Linear layers on the CPU: `y = x · Wᵀ` with weights that never change, packed once for the instructions of this machine.
//! f32, bf16 or int8 weights; a row gives the same bits whatever other rows and however many threads share its product.

mod bf16;
mod f32;
mod format;
mod inputs;
mod int8;
mod kernel;
mod layer;
mod output;
mod panels;
mod product;
#[cfg(test)]
mod tests;
mod turn;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use layer::{Linear, Precision};
