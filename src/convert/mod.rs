//! Traces become stories, whatever library reported them. Pure; one file per dialect.
