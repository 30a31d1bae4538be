//! The budget with its file: what was spent is written down, at most every second, and before a kill could make much of it
//! forgotten.

use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::{Allowance, Budget, NanoUsd, Reservation, Spent};
use super::rhythm::{Rhythm, Write};
use super::statement::Statement;
use super::{lock, wall_clock};
use crate::judge::BuildError;
use crate::metrics;

/// The budget, and where it is written down.
pub(super) struct Account {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// None where nothing is kept. Locked for the time of a write: what is written later is what was spent later.
    statement: Option<Mutex<Statement>>,
}

struct State {
    budget: Budget,
    rhythm: Rhythm,
}

impl Account {
    /// A budget that a restart forgets.
    pub fn forgetful(budget: Budget) -> Self {
        Self::new(budget, None)
    }

    /// A budget that goes on with what an earlier process has spent, by the file in `folder`.
    pub fn kept(mut budget: Budget, folder: &Path) -> Result<Self, BuildError> {
        let statement = Statement::in_folder(folder);
        let now = wall_clock();
        match statement.read()? {
            Ok(earlier) => {
                for told in budget.take_up(&earlier, now) {
                    tracing::warn!(
                        window = %told.window, began = %told.began, spent_usd = told.spent.usd(),
                        "the judge's budget was spent in the future: the clock was wrong, then or now; it counts for the window that is now"
                    );
                }
            }
            Err(damage) => {
                budget.exhaust(now);
                tracing::error!(
                    file = %statement.path().display(), %damage,
                    "what the judge has cost cannot be read, so that its budget is taken as spent until the hour and the day are over; \
                     to begin anew, stop assayd and remove the file"
                );
            }
        }
        let account = Self::new(budget, Some(statement));
        account.shared.write().map_err(|source| account.unwritable(source))?;
        Ok(account)
    }

    fn new(budget: Budget, statement: Option<Statement>) -> Self {
        let rhythm = Rhythm::new(budget.risk());
        let state = Mutex::new(State { budget, rhythm });
        Self { shared: Arc::new(Shared { state, statement: statement.map(Mutex::new) }) }
    }

    fn unwritable(&self, source: std::io::Error) -> BuildError {
        let path = self.shared.statement.as_ref().map(|statement| lock(statement).path().to_owned());
        BuildError::Statement { path: path.unwrap_or_default(), action: "write", source }
    }

    /// Sets money aside. Before it is spent, [`Account::settled_down`] has to be waited for.
    pub fn reserve(&self, amount: NanoUsd) -> Result<Reservation, Spent> {
        lock(&self.shared.state).budget.reserve(amount, wall_clock())
    }

    /// Returns when so much more may be spent without a kill making it forgotten, but for what a second brings.
    pub async fn settled_down(&self, amount: NanoUsd) {
        if self.shared.statement.is_none() {
            return;
        }
        let write = lock(&self.shared.state).rhythm.spent(amount, Instant::now().into_std());
        match write {
            Write::Now => write_now(Arc::clone(&self.shared)).await,
            Write::In(pause) => write_later(&self.shared, pause),
            Write::Planned => {}
        }
    }

    /// Replaces a reservation by what it did cost.
    pub fn settle(&self, reservation: Reservation, cost: NanoUsd) {
        let mut state = lock(&self.shared.state);
        state.budget.settle(reservation, cost);
        if self.shared.statement.is_none() {
            return;
        }
        // A call can be dropped where no runtime is left; then the end of the account writes it down.
        if tokio::runtime::Handle::try_current().is_err() {
            state.rhythm.unwritten();
            return;
        }
        let write = state.rhythm.changed(Instant::now().into_std());
        drop(state);
        if let Write::In(pause) = write {
            write_later(&self.shared, pause);
        }
    }

    /// The limited windows as they stand.
    pub fn allowances(&self) -> Vec<Allowance> {
        lock(&self.shared.state).budget.allowances(wall_clock())
    }

    /// Writes down what is not yet. Blocks.
    pub fn keep(&self) {
        self.shared.write_if_need_be();
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.keep();
    }
}

impl Shared {
    /// Blocks. What fails is tried again with the next change.
    fn write_if_need_be(&self) {
        if let Err(error) = self.write() {
            tracing::error!(%error, "what the judge has cost cannot be written down; a restart would forget it");
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let Some(statement) = &self.statement else { return Ok(()) };
        let statement = lock(statement);
        let spending = {
            let mut state = lock(&self.state);
            if !state.rhythm.begin(Instant::now().into_std()) {
                return Ok(());
            }
            state.budget.spending()
        };
        let written = statement.write(&spending);
        metrics::judge_statement(if written.is_ok() { "ok" } else { "failed" });
        if written.is_err() {
            lock(&self.state).rhythm.unwritten();
        }
        written
    }
}

/// The write goes on even if nobody waits for it any more.
async fn write_now(shared: Arc<Shared>) {
    if let Err(error) = tokio::task::spawn_blocking(move || shared.write_if_need_be()).await {
        tracing::error!(%error, "writing down what the judge has cost panicked");
    }
}

fn write_later(shared: &Arc<Shared>, pause: Duration) {
    let shared: Weak<Shared> = Arc::downgrade(shared);
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        if let Some(shared) = shared.upgrade() {
            lock(&shared.state).rhythm.woken();
            write_now(shared).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NanoUsd = NanoUsd(1_000_000_000);

    fn account(folder: &Path) -> Account {
        Account::kept(Budget::new(None, Some(2.0)), folder).unwrap()
    }

    #[tokio::test]
    async fn what_is_about_to_be_spent_is_on_disk_before_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let first = account(folder.path());
        for _ in 0..2 {
            let _under_way = first.reserve(ONE).unwrap();
            first.settled_down(ONE).await;
        }
        // As after a kill: the first account has not ended.
        let second = account(folder.path());
        assert!(second.reserve(NanoUsd(1)).is_err());
        assert_eq!(second.allowances()[0].spent_usd, 2.0);
        drop(first);
    }

    #[tokio::test]
    async fn what_was_paid_back_is_on_disk_at_the_end_at_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let first = account(folder.path());
        let reservation = first.reserve(ONE).unwrap();
        first.settled_down(ONE).await;
        first.settle(reservation, NanoUsd(0));
        drop(first);
        assert_eq!(account(folder.path()).allowances()[0].spent_usd, 0.0);
    }

    #[tokio::test]
    async fn a_damaged_file_spends_the_budget_until_somebody_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        drop(account(folder.path()));
        let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&file, "{").unwrap();
        for _ in 0..2 {
            assert!(account(folder.path()).reserve(NanoUsd(1)).is_err());
        }
        std::fs::remove_file(&file).unwrap();
        assert!(account(folder.path()).reserve(ONE).is_ok());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_is_told_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        let error = Account::kept(Budget::new(Some(1.0), None), &taken).err().unwrap().to_string();
        assert!(error.contains("what the judge has cost") && error.contains("taken"), "{error}");
    }
}
