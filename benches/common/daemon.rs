//! The daemon as it is shipped, in a process of its own, so that its CPU and its memory are its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::load;

/// Killed when dropped.
pub struct Daemon {
    process: Child,
}

impl Daemon {
    /// Starts `assayd serve` with this configuration, written to `folder`.
    pub fn start(folder: &Path, settings: &str) -> io::Result<Self> {
        let config = folder.join("assayd.yaml");
        std::fs::write(&config, settings)?;
        let process = Command::new(env!("CARGO_BIN_EXE_assayd"))
            .args(["serve", "--config"])
            .arg(&config)
            .env("ASSAYD_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process })
    }

    /// CPU seconds, and resident memory in MB.
    pub fn spent(&self) -> (f64, f64) {
        load::spent(&self.process.id().to_string())
    }

    /// Ends it in order.
    pub fn stop(mut self) -> anyhow::Result<()> {
        Command::new("kill").arg(self.process.id().to_string()).status()?;
        let status = self.process.wait()?;
        anyhow::ensure!(status.success(), "the daemon did not end well: {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // When it has ended, this is no matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address that is free now; nobody else takes ports while a bench runs.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}
