//! Stories become claims and questions. Pure.
