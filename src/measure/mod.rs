//! How good answers with probabilities are against labels, and what follows for thresholds and temperatures. Pure.

mod agreement;
mod calibration;
mod cascade;
mod fitted;
mod graded;
mod interval;
mod ranking;
mod report;
mod risk;
mod seen;
mod split;
mod temperature;

pub use agreement::{Confusion, kappa};
pub use calibration::{Wish, fit};
pub use cascade::{Case, Decided, Row, accuracy_of_answered, row};
pub use fitted::{Fitted, FittedError, Thresholds, key};
pub use graded::{Graded, accuracy, brier, ece};
pub use interval::wilson;
pub use ranking::auroc;
pub use report::{Measured, Promise, Report, report};
pub use risk::{RiskPoint, risk_coverage, threshold_for};
pub use seen::{Seen, SeenClaim};
pub use split::{Part, split};
pub use temperature::{fit_temperature, nll, scaled};
