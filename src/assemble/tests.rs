use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::domain::{ByteSize, Closed, LogRecord, Period, Resource, Span, SpanId, SpanKind, Time, TraceId};

const START: Time = Time(1_796_025_600_000_000_000);

fn at(seconds: f64) -> Time {
    START + Duration::from_secs_f64(seconds)
}

fn trace_id(number: u8) -> TraceId {
    TraceId::try_from(&[number; 16][..]).unwrap()
}

fn span_id(number: u8) -> SpanId {
    SpanId::try_from(&[number; 8][..]).unwrap()
}

/// Span `id` of trace 1; parent 0 is a root.
fn span(id: u8, parent: u8) -> Span {
    span_of(1, id, parent)
}

fn span_of(trace: u8, id: u8, parent: u8) -> Span {
    Span {
        parent_id: (parent != 0).then(|| span_id(parent)),
        name: "chat".into(),
        kind: SpanKind::Internal,
        start: Time(7),
        end: Time(3),
        ..Span::new(trace_id(trace), span_id(id))
    }
}

fn log(trace: u8, body: &str) -> LogRecord {
    LogRecord {
        time: Time(5),
        event_name: "gen_ai.user.message".into(),
        body: body.into(),
        ..LogRecord::new(trace_id(trace))
    }
}

fn assembler() -> Assembler<usize> {
    Assembler::new(Config::default())
}

fn push(assembler: &mut Assembler<usize>, seconds: f64, spans: Vec<Span>) -> Pushed {
    assembler.push(at(seconds), spans, Vec::new(), |_, bytes| bytes)
}

fn ids(closed: &ClosedTrace<usize>) -> Vec<u8> {
    closed.trace.spans.iter().map(|span| span.span_id.as_bytes()[0]).collect()
}

fn pop(assembler: &mut Assembler<usize>, seconds: f64) -> Option<(Closed, u32, Vec<u8>)> {
    assembler.pop(at(seconds)).map(|closed| (closed.trace.closed, closed.trace.revision, ids(&closed)))
}

#[test]
fn a_trace_with_its_root_and_all_parents_closes_after_the_grace() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(3, 2)]);
    push(&mut assembler, 1.0, vec![span(1, 0)]);
    assert_eq!(assembler.next_timeout(), Some(at(31.0)), "a parent is missing: wait for the idle time");
    push(&mut assembler, 4.0, vec![span(2, 1)]);
    assert_eq!(assembler.next_timeout(), Some(at(6.0)));
    assert_eq!(pop(&mut assembler, 5.9), None);
    assert_eq!(pop(&mut assembler, 6.0), Some((Closed::Root, 0, vec![3, 1, 2])));
    assert_eq!((assembler.open(), assembler.bytes(), assembler.next_timeout()), (0, 0, None));
}

#[test]
fn a_trace_whose_remote_parent_never_comes_closes_when_idle() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 9), span(2, 1)]);
    assert_eq!(pop(&mut assembler, 29.0), None);
    assert_eq!(pop(&mut assembler, 30.0), Some((Closed::Idle, 0, vec![1, 2])));
}

#[test]
fn cyclic_parents_close_when_idle() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 2), span(2, 1), span(3, 3)]);
    assert_eq!(pop(&mut assembler, 30.0), Some((Closed::Idle, 0, vec![1, 2, 3])));
}

#[test]
fn a_trace_that_never_rests_closes_at_its_age() {
    let mut assembler = assembler();
    for second in 0..60 {
        push(&mut assembler, f64::from(second) * 10.0, vec![span(second as u8 + 2, 1)]);
        assert!(assembler.pop(at(f64::from(second) * 10.0)).is_none());
    }
    assert_eq!(pop(&mut assembler, 600.0).unwrap().0, Closed::Age);
}

#[test]
fn an_end_marker_closes_at_once() {
    let mut assembler = assembler();
    let mut last = span(2, 1);
    last.attributes.push(END_MARKER, true);
    push(&mut assembler, 0.0, vec![last, span(3, 1)]);
    assert_eq!(pop(&mut assembler, 0.0), Some((Closed::End, 0, vec![2, 3])));
    let mut record = log(2, "done");
    record.attributes.push(END_MARKER, "true");
    assembler.push(at(1.0), Vec::new(), vec![record], |_, bytes| bytes);
    assert_eq!(pop(&mut assembler, 1.0), Some((Closed::End, 0, vec![])));
}

#[test]
fn logs_wait_for_their_spans_and_a_trace_of_logs_alone_closes_too() {
    let mut assembler = assembler();
    assembler.push(at(0.0), Vec::new(), vec![log(1, "early"), log(2, "alone")], |_, bytes| bytes);
    push(&mut assembler, 5.0, vec![span(1, 0)]);
    let closed = assembler.pop(at(7.0)).unwrap();
    assert_eq!((closed.trace.spans.len(), closed.trace.logs.len(), closed.payloads.len()), (1, 1, 2));
    assert_eq!(closed.trace.first_arrival, at(0.0));
    let closed = assembler.pop(at(30.0)).unwrap();
    assert_eq!((closed.trace.closed, closed.trace.logs.len()), (Closed::Idle, 1));
}

#[test]
fn a_double_export_counts_once_while_the_trace_is_open() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 0), span(2, 1)]);
    assembler.push(at(0.0), Vec::new(), vec![log(1, "said")], |_, bytes| bytes);
    let again = assembler.push(at(1.0), vec![span(2, 1), span(1, 0)], vec![log(1, "said")], |_, bytes| bytes);
    assert_eq!((again.spans, again.logs, again.duplicates), (0, 0, 3));
    let closed = assembler.pop(at(3.0)).unwrap();
    assert_eq!((ids(&closed), closed.trace.logs.len()), (vec![1, 2], 1));
    assert_eq!(closed.payloads.len(), 3, "the repeated delivery waits for the trace too");
    assert_eq!(closed.payloads[2], 0, "and holds no memory");
}

#[test]
fn a_late_span_brings_the_whole_trace_again() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 0)]);
    assert_eq!(pop(&mut assembler, 2.0), Some((Closed::Root, 0, vec![1])));
    assembler.settled(trace_id(1), 0);
    let late = push(&mut assembler, 60.0, vec![span(2, 1), span(1, 0)]);
    assert_eq!((late.spans, late.duplicates, late.opened), (1, 1, 0));
    assert_eq!(late.reopened, [Duration::from_secs(58)]);
    assert_eq!(pop(&mut assembler, 62.0), Some((Closed::Root, 1, vec![1, 2])));
}

#[test]
fn who_asks_hears_where_a_trace_is() {
    let mut assembler = assembler();
    assert_eq!(assembler.sight(trace_id(1)), Sight::Unknown);
    push(&mut assembler, 0.0, vec![span(1, 0)]);
    let open = Sight::Open { spans: 1, first_arrival: at(0.0), closes_by: at(2.0) };
    assert_eq!(assembler.sight(trace_id(1)), open);
    assembler.pop(at(2.0)).unwrap();
    assert_eq!(assembler.sight(trace_id(1)), Sight::Closed { revision: 0, settled: false });
    assembler.settled(trace_id(1), 0);
    assert_eq!(assembler.sight(trace_id(1)), Sight::Closed { revision: 0, settled: true });
}

#[test]
fn a_repeated_span_revises_nothing_once_the_outcome_is_recorded() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 0), span(2, 1)]);
    assert!(assembler.pop(at(2.0)).is_some());
    assembler.settled(trace_id(1), 0);
    let repeated = push(&mut assembler, 5.0, vec![span(2, 1)]);
    assert_eq!((repeated.duplicates, assembler.open()), (1, 0));
}

#[test]
fn a_redelivery_after_a_failure_is_evaluated_again_as_the_same_revision() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span(1, 0), span(2, 1)]);
    assert!(assembler.pop(at(2.0)).is_some());
    push(&mut assembler, 5.0, vec![span(2, 1)]);
    assert_eq!(pop(&mut assembler, 7.0), Some((Closed::Root, 0, vec![1, 2])));
}

#[test]
fn what_is_recorded_of_a_forgotten_trace_is_not_recorded_of_its_namesake() {
    let mut assembler = Assembler::new(Config { keep: Period::seconds(10), ..Config::default() });
    push(&mut assembler, 0.0, vec![span(1, 0)]);
    let first = assembler.pop(at(2.0)).unwrap();
    // While its verdict waits for a sink, it is forgotten, and more of it comes.
    push(&mut assembler, 60.0, vec![span(2, 0)]);
    let second = assembler.pop(at(62.0)).unwrap();
    assert_eq!((first.trace.revision, second.trace.revision), (0, 0));
    assembler.settled(trace_id(1), first.number);
    push(&mut assembler, 63.0, vec![span(2, 0)]);
    assert_eq!(pop(&mut assembler, 65.0), Some((Closed::Root, 0, vec![2])), "its redelivery is evaluated");
}

#[test]
fn late_spans_can_be_ignored() {
    let mut assembler = Assembler::new(Config { late: Late::Ignore, ..Config::default() });
    push(&mut assembler, 0.0, vec![span(1, 0)]);
    assert!(assembler.pop(at(2.0)).is_some());
    assembler.settled(trace_id(1), 0);
    let late = push(&mut assembler, 5.0, vec![span(2, 1)]);
    assert_eq!((late.ignored, assembler.open()), (1, 0));
}

#[test]
fn late_spans_of_a_trace_that_is_no_longer_kept_say_so() {
    let mut assembler = Assembler::new(Config { keep_bytes: ByteSize(0), ..Config::default() });
    push(&mut assembler, 0.0, vec![span(1, 0)]);
    assert!(assembler.pop(at(2.0)).is_some());
    assembler.settled(trace_id(1), 0);
    push(&mut assembler, 5.0, vec![span(2, 1)]);
    let closed = assembler.pop(at(35.0)).unwrap();
    assert_eq!((closed.trace.revision, ids(&closed)), (1, vec![2]));
    assert_eq!(closed.trace.truncated, ["spans: the earlier ones of this trace are no longer kept"]);
    push(&mut assembler, 700.0, vec![span(3, 1)]);
    assert_eq!(
        pop(&mut assembler, 730.0),
        Some((Closed::Idle, 0, vec![3])),
        "after `keep` it is a new trace"
    );
}

#[test]
fn the_oldest_trace_makes_room() {
    let config = Config { max_traces: NonZeroUsize::new(2).unwrap(), ..Config::default() };
    let mut assembler = Assembler::new(config);
    for trace in 1..=3 {
        push(&mut assembler, f64::from(trace), vec![span_of(trace, 1, 9)]);
    }
    let closed = assembler.pop(at(3.0)).unwrap();
    assert_eq!((closed.trace.trace_id, closed.trace.closed), (trace_id(1), Closed::Evict));
    assert!(assembler.pop(at(3.0)).is_none());
    push(&mut assembler, 4.0, vec![span_of(4, 1, 9)]);
    assert_eq!(assembler.pop(at(4.0)).unwrap().trace.trace_id, trace_id(2));
}

#[test]
fn a_trace_too_large_for_the_store_is_closed_and_not_lost() {
    let mut assembler = Assembler::new(Config { max_bytes: ByteSize(1), ..Config::default() });
    push(&mut assembler, 0.0, vec![span(1, 9)]);
    assert_eq!(pop(&mut assembler, 0.0), Some((Closed::Evict, 0, vec![1])));
}

#[test]
fn spans_beyond_the_limit_are_counted_and_hold_no_memory() {
    let config = Config { max_spans: NonZeroUsize::new(2).unwrap(), ..Config::default() };
    let mut assembler = Assembler::new(config);
    let pushed = push(&mut assembler, 0.0, vec![span(1, 0), span(2, 1), span(3, 1), span(4, 1)]);
    assert_eq!((pushed.spans, pushed.beyond), (2, 2));
    let beyond = push(&mut assembler, 0.0, vec![span(5, 1)]);
    assert_eq!(beyond.beyond, 1);
    let closed = assembler.pop(at(2.0)).unwrap();
    assert_eq!(closed.trace.truncated, ["spans: 3 beyond the limit of 2"]);
    assert_eq!(closed.payloads, [2 * span(1, 0).weight(), 0]);
}

#[test]
fn a_full_trace_is_not_opened_again_for_what_it_cannot_hold() {
    let config = Config { max_spans: NonZeroUsize::new(2).unwrap(), ..Config::default() };
    let mut assembler = Assembler::new(config);
    push(&mut assembler, 0.0, vec![span(1, 0), span(2, 1)]);
    assert!(assembler.pop(at(2.0)).is_some());
    assembler.settled(trace_id(1), 0);
    let late = push(&mut assembler, 5.0, vec![span(2, 1), span(3, 1)]);
    assert_eq!((late.duplicates, late.beyond, assembler.open()), (1, 1, 0));
    let late = assembler.push(at(6.0), vec![span(4, 1)], vec![log(1, "late")], |_, bytes| bytes);
    assert_eq!((late.beyond, late.logs, assembler.open()), (1, 1, 1), "there is room for log records");
}

#[test]
fn a_patient_service_makes_its_traces_wait() {
    let patient = Patience { root_grace: Some(Period::seconds(20)), idle: None };
    let services = BTreeMap::from([("slow".to_owned(), patient)]);
    let mut assembler = Assembler::new(Config { services, ..Config::default() });
    let mut slow = span(2, 1);
    slow.resource =
        Arc::new(Resource { attributes: [("service.name".to_owned(), "slow".into())].into_iter().collect() });
    push(&mut assembler, 0.0, vec![span(1, 0), slow, span(3, 1), span_of(2, 1, 0)]);
    assert_eq!(assembler.pop(at(2.0)).unwrap().trace.trace_id, trace_id(2));
    assert!(assembler.pop(at(19.0)).is_none());
    assert_eq!(pop(&mut assembler, 20.0), Some((Closed::Root, 0, vec![1, 2, 3])));
    push(&mut assembler, 30.0, vec![span(4, 1)]);
    assert!(assembler.pop(at(49.0)).is_none(), "a reopened trace is as patient as before");
    assert_eq!(pop(&mut assembler, 50.0).unwrap().1, 1);
}

#[test]
fn a_clock_that_jumps_backwards_neither_closes_early_nor_stalls() {
    let mut assembler = assembler();
    push(&mut assembler, 3600.0, vec![span(1, 0)]);
    assert_eq!(pop(&mut assembler, 0.0), None);
    assert_eq!(assembler.next_timeout(), Some(at(2.0)), "two seconds from now, whatever now is");
    assert_eq!(pop(&mut assembler, 1.0), None);
    assert_eq!(pop(&mut assembler, 2.0), Some((Closed::Root, 0, vec![1])));
}

#[test]
fn at_shutdown_everything_open_comes_out_oldest_first() {
    let mut assembler = assembler();
    push(&mut assembler, 0.0, vec![span_of(2, 1, 9)]);
    push(&mut assembler, 1.0, vec![span_of(1, 1, 9)]);
    assembler.close_all();
    let closed: Vec<_> = std::iter::from_fn(|| assembler.pop(at(1.0))).collect();
    assert!(closed.iter().all(|closed| closed.trace.closed == Closed::Shutdown));
    let order: Vec<_> = closed.iter().map(|closed| closed.trace.trace_id).collect();
    assert_eq!(order, [trace_id(2), trace_id(1)]);
}

#[test]
fn impossible_waits_are_named() {
    let patient = Patience { root_grace: None, idle: Some(Period::seconds(3600)) };
    let config = Config {
        root_grace: Period::seconds(60),
        services: BTreeMap::from([("slow".to_owned(), patient)]),
        ..Config::default()
    };
    let mut problems = Vec::new();
    config.check(&mut problems);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].contains("assemble.root_grace (1m) must not be longer than its idle (30s)"),
        "{problems:?}"
    );
    assert!(problems[1].contains("assemble.services.slow.idle (1h)"), "{problems:?}");
}

/// One step of a random history: spans (trace, id, parent) at a clock that moves by so many seconds, either way; whether
/// outcomes are recorded when a trace closes.
#[derive(Debug, Clone)]
struct Delivery {
    seconds: i64,
    spans: Vec<(u8, u8, u8)>,
    settle: bool,
}

fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
    let spans = prop::collection::vec((1u8..5, 1u8..9, 0u8..9), 0..6);
    let delivery = (-20i64..40, spans, any::<bool>()).prop_map(|(seconds, spans, settle)| Delivery {
        seconds,
        spans,
        settle,
    });
    prop::collection::vec(delivery, 0..30)
}

fn config() -> impl Strategy<Value = Config> {
    (1usize..6, 0u64..6_000, 0u64..20_000, 1usize..6, 0u64..100).prop_map(
        |(traces, bytes, keep_bytes, keep_traces, keep)| Config {
            max_traces: NonZeroUsize::new(traces).unwrap(),
            max_bytes: ByteSize(bytes),
            keep_bytes: ByteSize(keep_bytes),
            keep_traces: NonZeroUsize::new(keep_traces).unwrap(),
            keep: Period::seconds(keep),
            max_age: Period::seconds(60),
            ..Config::default()
        },
    )
}

/// Plays a history and gives all that was closed, in order. Checks what must hold after every step.
fn play(config: &Config, history: &[Delivery]) -> (Vec<ClosedTrace<u32>>, u32) {
    let mut assembler = Assembler::new(config.clone());
    let mut now = START;
    let mut closed = Vec::new();
    let mut payloads = 0;
    let mut drain = |assembler: &mut Assembler<u32>, now: Time, settle: bool| {
        while let Some(trace) = assembler.pop(now) {
            if settle {
                assembler.settled(trace.trace.trace_id, trace.number);
            }
            closed.push(trace);
        }
        assert!(assembler.open() <= config.max_traces.get());
        assert!(assembler.bytes() <= config.max_bytes.as_usize());
        assert!(assembler.next_timeout().is_none_or(|timeout| timeout > now));
    };
    for delivery in history {
        now = Time(now.0.saturating_add_signed(delivery.seconds * 1_000_000_000));
        let spans = delivery.spans.iter().map(|(trace, id, parent)| span_of(*trace, *id, *parent)).collect();
        assembler.push(now, spans, Vec::new(), |_, _| {
            payloads += 1;
            payloads
        });
        drain(&mut assembler, now, delivery.settle);
    }
    let mut last = now;
    while let Some(timeout) = assembler.next_timeout() {
        assert!(timeout >= last, "timeouts never run backwards");
        last = timeout;
        let open = assembler.open();
        drain(&mut assembler, timeout, true);
        assert!(assembler.open() < open, "a timeout closes something");
    }
    assert_eq!((assembler.open(), assembler.bytes()), (0, 0));
    (closed, payloads)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_and_nothing_doubled(config in config(), history in deliveries()) {
        let (closed, payloads) = play(&config, &history);
        let sent: BTreeSet<_> =
            history.iter().flat_map(|delivery| &delivery.spans).map(|(trace, id, _)| (*trace, *id)).collect();
        let mut came_out = BTreeSet::new();
        for trace in &closed {
            let mut ids = BTreeSet::new();
            for span in &trace.trace.spans {
                prop_assert_eq!(span.trace_id, trace.trace.trace_id);
                prop_assert!(ids.insert(span.span_id), "a span twice in one trace");
                came_out.insert((span.trace_id.as_bytes()[0], span.span_id.as_bytes()[0]));
            }
        }
        prop_assert_eq!(sent, came_out);
        let mut returned: Vec<_> = closed.iter().flat_map(|trace| &trace.payloads).copied().collect();
        returned.sort_unstable();
        prop_assert_eq!(returned, (1..=payloads).collect::<Vec<_>>(), "every payload comes back exactly once");
    }

    #[test]
    fn while_a_trace_is_kept_each_revision_continues_the_one_before(history in deliveries()) {
        let config = Config {
            max_traces: NonZeroUsize::new(2).unwrap(),
            keep: Period::seconds(1_000_000),
            ..Config::default()
        };
        let (closed, _) = play(&config, &history);
        let mut before: BTreeMap<TraceId, Arc<crate::domain::Trace>> = BTreeMap::new();
        for trace in closed {
            if let Some(earlier) = before.get(&trace.trace.trace_id) {
                let has_more = trace.trace.spans.len() > earlier.spans.len();
                prop_assert_eq!(trace.trace.revision, earlier.revision + u32::from(has_more));
                prop_assert_eq!(&trace.trace.spans[..earlier.spans.len()], &earlier.spans[..]);
            } else {
                prop_assert_eq!(trace.trace.revision, 0);
            }
            before.insert(trace.trace.trace_id, trace.trace);
        }
    }

    #[test]
    fn order_and_splitting_of_deliveries_do_not_matter(
        spans in prop::collection::vec((1u8..4, 1u8..20, 0u8..20), 1..30).prop_shuffle(),
        cuts in prop::collection::vec(any::<bool>(), 30),
    ) {
        let ends = |spans: &[(u8, u8, u8)], cuts: &[bool]| {
            let mut assembler: Assembler<()> = Assembler::new(Config::default());
            let mut batch = Vec::new();
            for (span, cut) in spans.iter().zip(cuts) {
                batch.push(span_of(span.0, span.1, 0));
                if *cut {
                    assembler.push(START, std::mem::take(&mut batch), Vec::new(), |_, _| ());
                }
            }
            assembler.push(START, batch, Vec::new(), |_, _| ());
            let closed = std::iter::from_fn(|| assembler.pop(at(3600.0)));
            closed
                .map(|closed| (closed.trace.trace_id, closed.trace.spans.iter().map(|s| s.span_id).collect()))
                .collect::<BTreeMap<TraceId, BTreeSet<SpanId>>>()
        };
        let mut sorted = spans.clone();
        sorted.sort_unstable();
        prop_assert_eq!(ends(&spans, &cuts), ends(&sorted, &[false; 30]));
    }

    #[test]
    fn what_is_remembered_of_closed_traces_stays_within_its_bounds(config in config(), history in deliveries()) {
        let mut recent = recent::Recent::default();
        for (index, delivery) in history.iter().enumerate() {
            let now = at(index as f64);
            for (trace, id, _) in &delivery.spans {
                if delivery.settle {
                    recent.take(trace_id(*trace));
                }
                let mut live: live::Live<()> = live::Live::new(now, now, 0);
                live.add_span(span_of(*trace, *id, 0), &config);
                let bytes = live.bytes * usize::from(*id);
                let (trace, seen, _) = live.close(trace_id(*trace), Closed::Root, now, &config);
                let content = recent::Content { trace: Arc::new(trace), seen, cut: live::Cut::default(), bytes };
                // A trace that closes was taken out when it was opened again.
                recent.take(content.trace.trace_id);
                recent.keep(content, now, &config);
                prop_assert!(recent.bytes() <= config.keep_bytes.as_usize());
                prop_assert!(recent.len() <= config.keep_traces.get());
            }
        }
    }
}
