//! Verdicts as JSON lines on standard output.

use std::io::{self, Write};
use std::time::Duration;

use futures::future::BoxFuture;

use super::lines::{LineFile, Lines, line};
use super::{EmitError, Sink};
use crate::domain::Verdict;

/// Standard output. A verdict is safe when the system has taken it; if its reader goes away, that is fatal.
pub struct Stdout {
    lines: Lines,
}

impl Stdout {
    /// Starts writing to the standard output of this process.
    pub fn open() -> io::Result<Self> {
        Self::over(standard_output()?)
    }

    /// Starts writing to `output`, unbuffered.
    pub fn over(output: impl Write + Send + 'static) -> io::Result<Self> {
        Ok(Self { lines: Lines::start("stdout", Output { output, torn: false })? })
    }
}

impl Sink for Stdout {
    fn write<'a>(&'a self, verdict: &'a Verdict) -> BoxFuture<'a, Result<(), EmitError>> {
        Box::pin(self.lines.write(line(verdict)))
    }
}

/// A handle without the standard library's buffer: how far a failed write came must be known.
#[cfg(unix)]
fn standard_output() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(not(unix))]
fn standard_output() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

struct Output<W> {
    output: W,
    /// The last write broke off within a line.
    torn: bool,
}

impl<W: Write + Send + 'static> LineFile for Output<W> {
    fn append(&mut self, lines: &[Vec<u8>]) -> io::Result<()> {
        if self.torn {
            self.write(b"\n")?;
        }
        self.write(&lines.concat())?;
        self.output.flush()
    }
}

impl<W: Write> Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.output.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    written += count;
                    self.torn = bytes[written - 1] != b'\n';
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Somebody made the pipe non-blocking and its reader is slow: waiting is the back-pressure.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::emit::sample;
    use crate::error::Fault;

    /// Takes `room` bytes, then fails with `error` once, then takes everything, seven bytes at a time.
    #[derive(Clone)]
    struct Pipe {
        taken: Arc<Mutex<Vec<u8>>>,
        room: usize,
        error: Option<io::ErrorKind>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.taken.lock().unwrap();
            if taken.len() >= self.room
                && let Some(error) = self.error.take()
            {
                return Err(error.into());
            }
            let count = bytes.len().min(7);
            taken.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe(room: usize, error: Option<io::ErrorKind>) -> (Stdout, Arc<Mutex<Vec<u8>>>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let sink = Stdout::over(Pipe { taken: Arc::clone(&taken), room, error }).unwrap();
        (sink, taken)
    }

    #[tokio::test]
    async fn each_verdict_is_one_line_of_json() {
        let (sink, taken) = pipe(0, Some(io::ErrorKind::WouldBlock));
        for number in 0..3 {
            sink.write(&sample::numbered(number)).await.unwrap();
        }
        let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let verdicts: Vec<Verdict> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(verdicts, [0, 1, 2].map(sample::numbered));
    }

    #[tokio::test]
    async fn a_reader_that_went_away_is_fatal() {
        let (sink, _) = pipe(0, Some(io::ErrorKind::BrokenPipe));
        let error = sink.write(&sample::full()).await.unwrap_err();
        assert_eq!((error.sink, error.fault), ("stdout", Fault::Fatal));
    }

    #[tokio::test]
    async fn a_torn_line_does_not_run_into_the_next() {
        let (sink, taken) = pipe(100, Some(io::ErrorKind::Other));
        let error = sink.write(&sample::full()).await.unwrap_err();
        assert_eq!(error.fault, Fault::Transient);
        sink.write(&sample::full()).await.unwrap();
        let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(serde_json::from_str::<Verdict>(lines[1]).unwrap(), sample::full());
    }

    /// Takes nothing and never returns.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            loop {
                std::thread::park();
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_reader_that_stopped_reading_does_not_keep_the_daemon_from_stopping() {
        let sink = Stdout::over(Stuck).unwrap();
        let verdict = sample::full();
        let given_up = tokio::time::timeout(Duration::from_millis(10), sink.write(&verdict)).await;
        assert!(given_up.is_err());
        drop(sink);
    }
}
