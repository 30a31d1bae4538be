//! What the reader does when there is no room: it waits a moment, then pauses its partitions and polls on, and reads again when
//! there is room to spare.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::message::OwnedMessage;

use super::{Reader, list};
use crate::metrics;
use crate::receive::Door;
use crate::receive::delivery::{Arrival, Fence};
use crate::receive::kafka::letters::Reason;
use crate::receive::ledger::{Place, Receipt};
use crate::ticket::{Outcome, Ticket};

/// Between two looks at a full door.
pub(super) const BREATH: Duration = Duration::from_millis(1);
/// How long to wait for room before pausing: a pause throws away what was fetched ahead.
const MOMENT: Duration = Duration::from_millis(200);

/// Spans that are not let in yet.
pub(super) struct StalledArrival {
    arrival: Arrival,
    bytes: usize,
    receipt: Receipt,
    fence: Fence,
    /// Whatever happens to it, the source must not hear "done".
    ticket: Ticket,
}

/// A dead letter for which the producer has no room yet.
pub(super) struct StalledLetter {
    pub record: OwnedMessage,
    pub receipt: Receipt,
    pub reason: Reason,
    pub error: String,
}

/// The one thing that waits for room.
pub(super) enum Stalled {
    Arrival(StalledArrival),
    Letter(StalledLetter),
}

/// Whether partitions are read.
#[derive(Default)]
pub(super) struct Pressure {
    stalled: Option<(Stalled, Instant)>,
    /// All partitions are paused.
    is_paused: bool,
    /// Nothing more is read at all.
    is_stopped: bool,
    /// Partitions that are paused one by one.
    held: BTreeSet<Place>,
}

impl StalledArrival {
    pub fn new(arrival: Arrival, receipt: Receipt, fence: Fence) -> Self {
        let ticket = arrival.promise.ticket();
        Self { bytes: arrival.weight(), arrival, receipt, fence, ticket }
    }

    /// Lets the spans in, or gives them back. They fit; there is only no room now.
    pub fn enter(self, door: &Door) -> Option<Self> {
        let Self { arrival, bytes, receipt, fence, ticket } = self;
        match door.try_admit(arrival, bytes, &fence) {
            Ok(()) => {
                ticket.settle(Outcome::Done);
                None
            }
            Err(arrival) => Some(Self { arrival, bytes, receipt, fence, ticket }),
        }
    }
}

impl Stalled {
    fn place(&self) -> &Place {
        match self {
            Stalled::Arrival(stalled) => stalled.receipt.place(),
            Stalled::Letter(stalled) => stalled.receipt.place(),
        }
    }
}

impl Pressure {
    pub fn stall(&mut self, stalled: Stalled) {
        self.stalled = Some((stalled, Instant::now()));
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused || self.is_stopped
    }

    /// Nothing may be read while something waits, unless all is paused.
    pub fn may_poll(&self) -> bool {
        self.stalled.is_none() || self.is_paused()
    }

    pub fn hold(&mut self, place: Place) {
        self.held.insert(place);
    }

    pub fn release(&mut self, place: &Place) {
        self.held.remove(place);
    }

    pub fn stop(&mut self) {
        self.is_stopped = true;
        // A record that waits is not inside: it is read again.
        self.stalled = None;
    }

    pub fn forget(&mut self, places: &[Place]) {
        self.held.retain(|place| !places.contains(place));
        if self.stalled.as_ref().is_some_and(|(stalled, _)| places.contains(stalled.place())) {
            self.stalled = None;
        }
    }
}

impl Reader {
    /// Tries again what waits for room, pauses when that takes long, and reads on when there is room to spare.
    pub(super) fn relieve(&mut self, door: &Door) {
        if let Some((stalled, since)) = self.pressure.stalled.take() {
            match stalled {
                Stalled::Letter(letter) => self.send_letter(letter),
                Stalled::Arrival(arrival) => {
                    if let Some(refused) = arrival.enter(door) {
                        self.pressure.stalled = Some((Stalled::Arrival(refused), since));
                    }
                }
            }
            if let Some((_, again)) = &mut self.pressure.stalled {
                *again = since;
            }
            if self.pressure.stalled.is_some() && !self.pressure.is_paused && since.elapsed() >= MOMENT {
                self.pressure.is_paused = true;
                metrics::receive_refused("kafka", "full");
                metrics::receive_kafka_paused(true);
                tracing::debug!("kafka: no room; partitions are paused");
                self.pause();
            }
        }
        if self.pressure.is_paused && self.pressure.stalled.is_none() && door.is_calm() {
            self.pressure.is_paused = false;
            metrics::receive_kafka_paused(false);
            tracing::debug!("kafka: room again; partitions are read on");
            self.resume();
        }
    }

    /// Pauses what is to be paused. What was paused before stays so.
    pub(super) fn pause(&mut self) {
        let is_all = self.pressure.is_paused();
        let places = self.ledger.places().filter(|place| is_all || self.pressure.held.contains(place));
        if let Err(error) = self.consumer.pause(&list(places)) {
            tracing::warn!(%error, "cannot pause partitions");
        }
    }

    /// Resumes all partitions that nothing speaks against.
    pub(super) fn resume(&mut self) {
        if self.pressure.is_paused() {
            return;
        }
        let places = self.ledger.places().filter(|place| !self.pressure.held.contains(place));
        if let Err(error) = self.consumer.resume(&list(places)) {
            tracing::warn!(%error, "cannot resume partitions");
        }
    }
}
