//! The reader as a member of its group: what it is given and must give back, what it commits, and how it leaves.

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{LAST_LETTERS, Reader, list};
use crate::metrics;
use crate::receive::delivery::Fence;
use crate::receive::kafka::context::{End, Event, assign, unassign};
use crate::receive::ledger::Place;

impl Reader {
    pub(super) fn serve_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Assigned(places) => self.assigned(&places),
                Event::Revoked(places) => self.revoked(&places),
                Event::Seen { ends, is_connected } => {
                    metrics::receive_kafka_connected(is_connected);
                    self.complaints.connected(is_connected);
                    self.confirm(&ends);
                    self.show_lag(&ends);
                }
            }
        }
    }

    fn assigned(&mut self, places: &[Place]) {
        metrics::receive_kafka_rebalance("assigned");
        let partitions = list(places);
        if let Err(error) = assign(&self.consumer, &partitions) {
            // The group takes them away again, since we do not read them.
            tracing::error!(%error, "cannot take partitions that the group gave us");
            return;
        }
        for place in places {
            let place = self.place(&place.topic, place.partition);
            self.fences.insert(place.clone(), Fence::of_keeper());
            self.asked.insert(place.clone(), None);
            self.ledger.assigned(place);
        }
        metrics::receive_kafka_partitions(self.ledger.places().count());
        if !places.is_empty() {
            tracing::info!(partitions = shown(places), "kafka: partitions assigned");
        }
        if self.pressure.is_paused()
            && let Err(error) = self.consumer.pause(&partitions)
        {
            tracing::warn!(%error, "cannot pause new partitions");
        }
    }

    /// Commits what is settled, then gives the partitions back. From then on what is still under way settles nothing: the
    /// partition's next owner reads it again.
    fn revoked(&mut self, places: &[Place]) {
        // What is settled by now counts.
        self.serve_settlements();
        let is_lost = self.consumer.assignment_lost();
        metrics::receive_kafka_rebalance(if is_lost { "lost" } else { "revoked" });
        self.pressure.forget(places);
        let mut offsets = TopicPartitionList::new();
        for place in places {
            metrics::receive_kafka_lag(&place.topic, place.partition, 0);
            self.asked.remove(place);
            if let Some(fence) = self.fences.remove(place) {
                fence.close();
            }
            if let Some(offset) = self.ledger.revoked(place) {
                add(&mut offsets, place, offset);
            }
        }
        self.bare_letters.retain(|(place, _)| !places.contains(place));
        metrics::receive_kafka_partitions(self.ledger.places().count());
        if offsets.count() > 0 && !is_lost {
            self.commit_now(&offsets);
        }
        if let Err(error) = unassign(&self.consumer, &list(places)) {
            tracing::error!(%error, "cannot give partitions back");
        }
        if !places.is_empty() {
            tracing::info!(partitions = shown(places), is_lost, "kafka: partitions given back");
        }
    }

    /// Tells the brokers how far we are, without waiting for their answer: [`confirm`](Self::confirm) looks for it.
    pub(super) fn commit(&mut self) {
        let moved = self.ledger.commits();
        if moved.is_empty() {
            return;
        }
        let mut offsets = TopicPartitionList::new();
        for (place, offset) in &moved {
            tracing::trace!(%place, offset, "committing");
            add(&mut offsets, place, *offset);
        }
        if let Err(error) = self.consumer.commit(&offsets, CommitMode::Async) {
            metrics::receive_kafka_commit("failed");
            self.complaints.met(&error);
            for (place, _) in &moved {
                self.ledger.commit_failed(place);
            }
        }
    }

    /// Compares what was committed up to the last look with what the brokers have taken. The client reports the result of a
    /// commit only to those who wait for it, and nobody must wait here; to commit again what is committed does no harm.
    fn confirm(&mut self, ends: &[End]) {
        for End { place, committed, .. } in ends {
            let Some(asked) = self.asked.get_mut(place) else { continue };
            if let Some(offset) = *asked {
                if *committed >= offset {
                    metrics::receive_kafka_commit("ok");
                } else {
                    metrics::receive_kafka_commit("failed");
                    self.complaints.not_committed(place);
                    self.ledger.commit_failed(place);
                }
            }
            let given = self.ledger.committed(place);
            // What is confirmed is not counted twice.
            *asked = given.filter(|given| given != committed);
        }
    }

    fn commit_now(&mut self, offsets: &TopicPartitionList) {
        match self.consumer.commit(offsets, CommitMode::Sync) {
            Ok(()) => metrics::receive_kafka_commit("ok"),
            Err(error) => {
                metrics::receive_kafka_commit("failed");
                tracing::warn!(%error, "the last commit failed; what it covers is read again");
            }
        }
    }

    fn show_lag(&self, ends: &[End]) {
        for End { place, end, committed, begin } in ends {
            if !self.ledger.owns(place) {
                continue;
            }
            // Before the first record was read, the group's offset counts.
            let reached = match (self.ledger.position(place), *committed >= 0) {
                (Some(position), _) => position,
                (None, true) => *committed,
                (None, false) => *begin,
            };
            metrics::receive_kafka_lag(&place.topic, place.partition, (end - reached).max(0));
        }
    }

    /// Waits for dead letters, commits once, and leaves the group.
    pub(super) fn leave(&mut self) {
        if let Some(letters) = &self.letters {
            letters.flush(LAST_LETTERS);
        }
        self.serve_events();
        self.serve_settlements();
        let mut offsets = TopicPartitionList::new();
        // All of them: whether the brokers took the latest commits is not known.
        for place in self.ledger.places() {
            if let Some(offset) = self.ledger.position(place) {
                add(&mut offsets, place, offset);
            }
        }
        if offsets.count() > 0 {
            self.commit_now(&offsets);
        }
        // The consumer leaves as it is dropped; what it calls back for meanwhile needs nobody.
        self.consumer.context().close();
        metrics::receive_kafka_partitions(0);
    }
}

fn add(offsets: &mut TopicPartitionList, place: &Place, offset: i64) {
    let added = offsets.add_partition_offset(&place.topic, place.partition, Offset::Offset(offset));
    added.expect("an absolute offset is always representable");
}

fn shown(places: &[Place]) -> String {
    places.iter().map(Place::to_string).collect::<Vec<_>>().join(" ")
}
