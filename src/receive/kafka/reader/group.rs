//! The reader as a member of its group: what it is given and must give back, what it commits, and how it leaves.

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList, TopicPartitionListElem};

use super::{FETCH, LAST_LETTERS, Reader, list};
use crate::metrics;
use crate::receive::delivery::Fence;
use crate::receive::kafka::context::{End, Event, assign, unassign};
use crate::receive::ledger::{Commit, Place};

/// What the group has committed of a partition: the offset and the note beside it; none if nothing yet.
struct Inheritance {
    place: Place,
    committed: Option<(i64, String)>,
}

impl Reader {
    pub(super) fn serve_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            match event {
                Event::Assigned(places) => self.arriving = Some(places),
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

    /// Takes the partitions that the group gives us, once it is known what is done of them. Until then nothing of them is read;
    /// brokers that do not answer are asked again after the next poll.
    pub(super) fn take_over(&mut self) {
        let Some(places) = self.arriving.take() else { return };
        let commits = match self.committed_of(&places) {
            Ok(commits) => commits,
            Err(error) => {
                self.complaints.met(&error);
                self.arriving = Some(places);
                return;
            }
        };
        metrics::receive_kafka_rebalance("assigned");
        let mut partitions = TopicPartitionList::new();
        for Inheritance { place, committed } in &commits {
            match committed {
                // From the very offset that the note belongs to.
                Some((offset, _)) => add(&mut partitions, place, *offset, ""),
                None => {
                    partitions.add_partition(&place.topic, place.partition);
                }
            }
        }
        if let Err(error) = assign(&self.consumer, &partitions) {
            // The group takes them away again, since we do not read them.
            tracing::error!(%error, "cannot take partitions that the group gave us");
            return;
        }
        let now = self.now();
        for Inheritance { place, committed } in commits {
            self.fences.insert(place.clone(), Fence::of_keeper());
            self.asked.insert(place.clone(), None);
            match committed {
                Some((offset, note)) => self.ledger.inherited(place, offset, &note, now),
                None => self.ledger.assigned(place),
            }
        }
        metrics::receive_kafka_partitions(self.ledger.places().count());
        if !places.is_empty() {
            tracing::info!(partitions = shown(&places), "kafka: partitions assigned");
        }
        if self.pressure.is_paused()
            && let Err(error) = self.consumer.pause(&partitions)
        {
            tracing::warn!(%error, "cannot pause new partitions");
        }
    }

    fn committed_of(&self, places: &[Place]) -> KafkaResult<Vec<Inheritance>> {
        let partitions = list(places);
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.consumer.committed_offsets(partitions, FETCH)?;
        let read = |element: &TopicPartitionListElem<'_>| {
            element.error()?;
            let place = self.place(element.topic(), element.partition());
            let committed = match element.offset() {
                Offset::Offset(offset) => Some((offset, element.metadata().to_owned())),
                _ => None,
            };
            Ok(Inheritance { place, committed })
        };
        found.elements().iter().map(read).collect()
    }

    /// Commits what is settled, then gives the partitions back. From then on what is still under way settles nothing: the
    /// partition's next owner reads it again.
    fn revoked(&mut self, places: &[Place]) {
        // What is settled by now counts.
        self.serve_whole_settlements();
        if let Some(arriving) = &mut self.arriving {
            arriving.retain(|place| !places.contains(place));
        }
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
            if let Some(commit) = self.ledger.revoked(place) {
                self.add_commit(&mut offsets, place, &commit);
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
        self.serve_whole_settlements();
        let moved = self.ledger.commits();
        if moved.is_empty() {
            return;
        }
        let mut offsets = TopicPartitionList::new();
        for (place, commit) in &moved {
            tracing::trace!(%place, offset = commit.offset, note = commit.note, "committing");
            self.add_commit(&mut offsets, place, commit);
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

    fn add_commit(&self, offsets: &mut TopicPartitionList, place: &Place, commit: &Commit) {
        if commit.left_out > 0 {
            metrics::receive_kafka_note_cut();
            tracing::debug!(%place, left_out = commit.left_out, "not all that is done fits beside the offset");
        }
        add(offsets, place, commit.offset, &commit.note);
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
        self.serve_whole_settlements();
        if let Some(places) = self.arriving.take()
            && let Err(error) = assign(&self.consumer, &list(&places))
        {
            // The group waits for this word; nothing is read any more.
            tracing::debug!(%error, "cannot take partitions while leaving the group");
        }
        let mut offsets = TopicPartitionList::new();
        // All of them: whether the brokers took the latest commits is not known.
        for place in self.ledger.places() {
            if let Some(commit) = self.ledger.standing(place) {
                self.add_commit(&mut offsets, place, &commit);
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

fn add(offsets: &mut TopicPartitionList, place: &Place, offset: i64, note: &str) {
    let mut element = offsets.add_partition(&place.topic, place.partition);
    element.set_offset(Offset::Offset(offset)).expect("an absolute offset is always representable");
    if !note.is_empty() {
        element.set_metadata(note);
    }
}

fn shown(places: &[Place]) -> String {
    places.iter().map(Place::to_string).collect::<Vec<_>>().join(" ")
}
