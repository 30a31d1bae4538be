//! The durable spool: what was acknowledged survives a kill.
