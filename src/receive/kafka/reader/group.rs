//! The reader as a member of its group: what it is given and must give back, what it commits, and how it leaves.

use std::time::Instant;

use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList, TopicPartitionListElem};

use super::{ANSWER, FETCH, LAST_LETTERS, Reader, list};
use crate::metrics;
use crate::receive::delivery::Fence;
use crate::receive::kafka::commits::{self, Answer, is_note_refused, refused_note};
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
                Event::Answered(answers) => self.answered(&answers),
                Event::Seen { ends, is_connected } => {
                    metrics::receive_kafka_connected(is_connected);
                    self.complaints.connected(is_connected);
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
        for place in places {
            metrics::receive_kafka_lag(&place.topic, place.partition, 0);
            if let Some(fence) = self.fences.remove(place) {
                fence.close();
            }
        }
        if !is_lost {
            self.commit_now(places);
        }
        for place in places {
            self.ledger.revoked(place);
        }
        self.bare_letters.retain(|(place, _)| !places.contains(place));
        metrics::receive_kafka_partitions(self.ledger.places().count());
        if let Err(error) = unassign(&self.consumer, &list(places)) {
            tracing::error!(%error, "cannot give partitions back");
        }
        if !places.is_empty() {
            tracing::info!(partitions = shown(places), is_lost, "kafka: partitions given back");
        }
    }

    /// Tells the brokers how far we are, without waiting for their answer: [`answered`](Self::answered) hears it.
    pub(super) fn commit(&mut self) {
        if self.asked.is_some_and(|since| since.elapsed() < ANSWER) {
            return;
        }
        if self.asked.take().is_some() {
            // Whether they were taken is not known, and to commit again what is committed does no harm.
            let places: Vec<Place> = self.ledger.places().cloned().collect();
            places.iter().for_each(|place| self.ledger.commit_failed(place));
        }
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
        match commits::send(&self.consumer, &offsets) {
            Ok(()) => self.asked = Some(Instant::now()),
            Err(error) => {
                metrics::receive_kafka_commit("failed");
                self.complaints.met(&error);
                for (place, _) in &moved {
                    self.ledger.commit_failed(place);
                }
            }
        }
    }

    /// What was not taken is committed again with the next commit, notes that are too long at once and shorter.
    fn answered(&mut self, answers: &[Answer]) {
        self.asked = None;
        for Answer { place, error, .. } in answers {
            metrics::receive_kafka_commit(if error.is_none() { "ok" } else { "failed" });
            if error.is_some() {
                self.ledger.commit_failed(place);
            }
        }
        if let Some(length) = refused_note(answers) {
            self.note_refused(length);
            self.commit();
        } else if let Some(error) = answers.iter().find_map(|answer| answer.error) {
            self.complaints.not_committed(error);
        }
    }

    fn note_refused(&mut self, length: usize) {
        metrics::receive_kafka_commit("note_refused");
        self.complaints.note_refused(length);
        let room = self.ledger.note_refused(length);
        tracing::debug!(length, room, "a note is too long for the brokers");
    }

    fn add_commit(&self, offsets: &mut TopicPartitionList, place: &Place, commit: &Commit) {
        if commit.left_out > 0 {
            metrics::receive_kafka_note_cut();
            tracing::debug!(%place, left_out = commit.left_out, "not all that is done fits beside the offset");
        }
        add(offsets, place, commit.offset, &commit.note);
    }

    /// Commits what stands of these partitions and waits for the answer; with shorter notes as long as the brokers refuse them.
    fn commit_now(&mut self, places: &[Place]) {
        loop {
            let mut offsets = TopicPartitionList::new();
            let mut longest = 0;
            for place in places {
                if let Some(commit) = self.ledger.standing(place) {
                    longest = longest.max(commit.note.len());
                    self.add_commit(&mut offsets, place, &commit);
                }
            }
            if offsets.count() == 0 {
                return;
            }
            match self.consumer.commit(&offsets, CommitMode::Sync) {
                Ok(()) => return metrics::receive_kafka_commit("ok"),
                // Each time at most half as long.
                Err(error) if longest > 0 && is_note_refused(&error) => self.note_refused(longest),
                Err(error) => {
                    metrics::receive_kafka_commit("failed");
                    tracing::warn!(%error, "the last commit failed; what it covers is read again");
                    return;
                }
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
        // All of them: whether the brokers took the latest commits is not known.
        let places: Vec<Place> = self.ledger.places().cloned().collect();
        self.commit_now(&places);
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
