//! What an error asks of the one who meets it.

/// Who or what must act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The same thing may work later: try again with backoff.
    Transient,
    /// This input will never work: set it aside, go on with the next.
    Poison,
    /// Nothing will work until a person changes something: stop, and say so.
    Fatal,
}

impl Fault {
    /// The word that logs and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Transient => "transient",
            Fault::Poison => "poison",
            Fault::Fatal => "fatal",
        }
    }
}
