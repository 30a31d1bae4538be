//! The owner of conversations: hears of every trace that got its verdict, and has a conversation evaluated when it is over.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;

use super::{Assayer, Clock};
use crate::assemble::{SessionConfig, Sessions};
use crate::domain::{Session, SessionTrace};
use crate::emit::Sinks;
use crate::metrics;

/// Traces that wait to be heard; beyond it those who tell of them wait.
const HEARD: usize = 64;
/// Conversations that are evaluated at the same time.
const AT_ONCE: usize = 8;

/// The running owner.
pub(super) struct Conversations {
    told: mpsc::Sender<SessionTrace>,
    task: AbortOnDropHandle<()>,
}

impl Conversations {
    /// Nobody, if conversations are not evaluated.
    pub fn start(config: Option<&SessionConfig>, assayer: &Arc<Assayer>, sinks: &Arc<Sinks>) -> Option<Self> {
        let (told, heard) = mpsc::channel(HEARD);
        let owner = Owner {
            sessions: Sessions::new(config?.clone()),
            heard,
            assayer: Arc::clone(assayer),
            sinks: Arc::clone(sinks),
            clock: Clock::start(),
            working: JoinSet::new(),
        };
        Some(Self { told, task: AbortOnDropHandle::new(tokio::spawn(owner.run())) })
    }

    /// For those who tell of traces.
    pub fn told(&self) -> mpsc::Sender<SessionTrace> {
        self.told.clone()
    }

    /// Closes every conversation, when nobody tells any more; returns when each has its verdict.
    pub async fn finish(self) {
        drop(self.told);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the owner of conversations had panicked");
        }
    }
}

struct Owner {
    sessions: Sessions,
    heard: mpsc::Receiver<SessionTrace>,
    assayer: Arc<Assayer>,
    sinks: Arc<Sinks>,
    clock: Clock,
    working: JoinSet<()>,
}

impl Owner {
    async fn run(mut self) {
        let mut is_open = true;
        loop {
            self.start_work();
            metrics::assemble_sessions(self.sessions.open());
            if !is_open && self.working.is_empty() && self.sessions.open() == 0 {
                return;
            }
            let has_room = self.working.len() < AT_ONCE;
            let timeout = self.sessions.next_timeout().filter(|_| has_room);
            let wake = self.clock.instant(timeout.unwrap_or_default());
            tokio::select! {
                Some(_) = self.working.join_next(), if !self.working.is_empty() => {}
                heard = self.heard.recv(), if is_open && has_room => match heard {
                    Some(trace) => self.sessions.push(self.clock.now(), trace),
                    None => {
                        is_open = false;
                        self.sessions.close_all();
                    }
                },
                () = sleep_until(wake.into()), if timeout.is_some() => {}
            }
        }
    }

    fn start_work(&mut self) {
        while self.working.len() < AT_ONCE {
            let Some(session) = self.sessions.pop(self.clock.now()) else { return };
            self.working.spawn(evaluate(Arc::clone(&self.assayer), Arc::clone(&self.sinks), session));
        }
    }
}

async fn evaluate(assayer: Arc<Assayer>, sinks: Arc<Sinks>, session: Session) {
    let verdict = assayer.assay_session(&session).await;
    if let Err(error) = sinks.write_told(&verdict, Some(&session.story)).await {
        // Its traces have their verdicts; this one is not made again.
        tracing::error!(session_id = session.id, %error, "the verdict on a conversation was not written");
    }
}
