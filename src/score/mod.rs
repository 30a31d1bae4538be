//! Answers become a partition, a GSAR score and a verdict. Pure.
