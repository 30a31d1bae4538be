//! The names of all metrics, in one place.
