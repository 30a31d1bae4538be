//! What follows from the evidence by counting, comparing and simple arithmetic, as lines that are put to the models with it: small
//! models do not compute. Only what a claim asks for, and only what can be told from where it is made of.

mod calendar;
mod claimed;
mod lines;
mod readings;
mod sums;
mod tables;

pub(super) use lines::{Line, VERSION, derive, put};

#[cfg(test)]
mod tests;
