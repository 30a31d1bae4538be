//! Configuration: one section per room, put together, read from one YAML file, and checked as a whole.

mod exposed;
mod load;
mod reference;
mod settings;

pub use exposed::exposed;
pub use load::{ConfigError, load, load_as, parse};
pub use reference::{annotated, explain, schema};
pub use settings::{Config, Flow, Role};
