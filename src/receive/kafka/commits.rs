//! Commits of offsets that nobody waits for, and what became of them.
//!
//! rdkafka's asynchronous commit tells its result to nobody, and its synchronous one waits, as a reader must not. So librdkafka is
//! asked to answer on the consumer's own queue: a later poll brings the answer, to `ConsumerContext::commit_callback`.

use std::ptr;

use rdkafka::bindings::{rd_kafka_commit_queue, rd_kafka_queue_destroy, rd_kafka_queue_get_consumer};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;

use super::context::Context;
use crate::receive::ledger::Place;

/// What the brokers say to the commit of one partition.
#[derive(Debug)]
pub(super) struct Answer {
    pub place: Place,
    /// Why they did not take it; none if they did.
    pub error: Option<RDKafkaErrorCode>,
    /// Characters of the note that went with it.
    pub note: usize,
}

/// Sends a commit. Each one that could be sent is answered once, by [`answers`] within a later poll.
pub(super) fn send(consumer: &BaseConsumer<Context>, offsets: &TopicPartitionList) -> KafkaResult<()> {
    let client = consumer.client().native_ptr();
    // SAFETY: the client is alive as long as `consumer`. Its queue is counted: ours is given back, and librdkafka holds one of its
    // own for the answer. The offsets are copied. Without a callback the answer stays an event of the queue, which rdkafka knows.
    let error = unsafe {
        let queue = rd_kafka_queue_get_consumer(client);
        if queue.is_null() {
            return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownGroup));
        }
        let error = rd_kafka_commit_queue(client, offsets.ptr(), queue, None, ptr::null_mut());
        rd_kafka_queue_destroy(queue);
        error
    };
    match error {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        error => Err(KafkaError::ConsumerCommit(error.into())),
    }
}

/// The answers in what the poll brought. librdkafka has one word for a commit that was not taken in whole: the partitions that
/// were taken are then said to have failed too, and to commit them again does no harm.
pub(super) fn answers(result: &KafkaResult<()>, offsets: &TopicPartitionList) -> Vec<Answer> {
    let of_all = result.as_ref().err().and_then(KafkaError::rdkafka_error_code);
    let read = offsets.elements().into_iter().map(|element| {
        let own = element.error().err().and_then(|error| error.rdkafka_error_code());
        Answer {
            place: Place::new(element.topic(), element.partition()),
            error: own.or(of_all),
            note: element.metadata().len(),
        }
    });
    read.collect()
}

/// Whether the brokers find a note beside an offset too long: their `offset.metadata.max.bytes` is smaller.
pub(super) fn is_note_refused(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::OffsetMetadataTooLarge)
}

/// The longest of the notes that were refused, if any were: that one surely is too long, of the others it is not known.
pub(super) fn refused_note(answers: &[Answer]) -> Option<usize> {
    let refused = |answer: &&Answer| answer.error == Some(RDKafkaErrorCode::OffsetMetadataTooLarge);
    // A commit without a note that is refused is refused for something else.
    answers.iter().filter(refused).map(|answer| answer.note).max().filter(|length| *length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(note: usize, error: Option<RDKafkaErrorCode>) -> Answer {
        Answer { place: Place::new("spans", 0), error, note }
    }

    #[test]
    fn of_the_notes_that_were_refused_the_longest_is_known_to_be_too_long() {
        let too_large = Some(RDKafkaErrorCode::OffsetMetadataTooLarge);
        assert_eq!(
            refused_note(&[answer(900, None), answer(20, Some(RDKafkaErrorCode::IllegalGeneration))]),
            None
        );
        assert_eq!(
            refused_note(&[answer(900, None), answer(20, too_large), answer(300, too_large)]),
            Some(300)
        );
        assert_eq!(refused_note(&[answer(0, too_large)]), None);
        assert_eq!(refused_note(&[]), None);
    }
}
