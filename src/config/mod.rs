//! Configuration: one section per room, put together and checked as a whole.
