//! HTTP: metrics, probes, checks, the verdict feed.
