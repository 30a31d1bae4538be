//! Sources that read what came before them: what an earlier process has left in the spool, and what lies in Kafka's partitions when
//! they come to us. As long as they are at it, what a trace misses may be in what they have not read yet.

use tokio::sync::watch;

/// How far the sources are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// They read what comes.
    Level,
    /// They read what came before.
    Behind,
    /// They would, and there is no room.
    Stuck,
}

/// All backlogs of a door.
#[derive(Debug, Clone, Default)]
pub struct Backlogs(watch::Sender<Counts>);

/// Hears how far the sources are.
#[derive(Debug, Clone)]
pub struct Watching(watch::Receiver<Counts>);

/// A source has something to read that came before it. Dropped, it has read all of it.
#[derive(Debug)]
pub struct Backlog {
    counts: watch::Sender<Counts>,
    is_stuck: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counts {
    behind: usize,
    stuck: usize,
}

impl Backlogs {
    /// A source begins to read what came before it.
    pub fn begin(&self) -> Backlog {
        self.0.send_modify(|counts| counts.behind += 1);
        Backlog { counts: self.0.clone(), is_stuck: false }
    }

    /// Somebody to hear of it.
    pub fn watch(&self) -> Watching {
        Watching(self.0.subscribe())
    }
}

impl Backlog {
    /// Whether there is no room for what is read next.
    pub fn stuck(&mut self, is_stuck: bool) {
        if self.is_stuck != is_stuck {
            self.is_stuck = is_stuck;
            self.counts.send_modify(|counts| match is_stuck {
                true => counts.stuck += 1,
                false => counts.stuck -= 1,
            });
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.stuck(false);
        self.counts.send_modify(|counts| counts.behind -= 1);
    }
}

impl Watching {
    /// How far they are now.
    pub fn progress(&mut self) -> Progress {
        match *self.0.borrow_and_update() {
            Counts { behind: 0, .. } => Progress::Level,
            Counts { stuck: 0, .. } => Progress::Behind,
            Counts { .. } => Progress::Stuck,
        }
    }

    /// Ends when that may have changed; pends for ever when it cannot.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_level_when_the_last_backlog_is_read_and_stuck_when_one_has_no_room() {
        let backlogs = Backlogs::default();
        let mut watching = backlogs.watch();
        assert_eq!(watching.progress(), Progress::Level);
        let (mut first, second) = (backlogs.begin(), backlogs.begin());
        assert_eq!(watching.progress(), Progress::Behind);
        first.stuck(true);
        first.stuck(true);
        drop(second);
        assert_eq!(watching.progress(), Progress::Stuck);
        first.stuck(false);
        assert_eq!(watching.progress(), Progress::Behind);
        first.stuck(true);
        drop(first);
        assert_eq!(watching.progress(), Progress::Level);
    }
}
