//! The embedded starter model: a small cross-encoder that says whether evidence supports a claim. Its card is in
//! `models/starter/`; a stronger model of the same kind will replace it, so nothing outside this folder knows its shape.

mod bert;
mod calibration;
mod decider;
mod encode;
mod files;
mod kernels;
mod matrix;
mod prepare;
mod weights;
mod wordpiece;

pub use decider::Starter;

#[cfg(test)]
mod golden;
