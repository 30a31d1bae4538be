//! Logs, as text or JSON, on standard error.
