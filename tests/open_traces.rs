//! Claim: 20,000 open traces of 10 spans hold less than 500 MB, with the default limits and none closed early.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use assayd::assemble::{Assembler, Config};
use assayd::domain::Time;
use assayd::otlp::from_traces;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

const TRACES: u64 = 20_000;
const SPANS: u64 = 10;
const LIMIT: usize = 500_000_000;
/// What an allocator adds to a block, rounded up: glibc's headers and alignment.
const BLOCK_OVERHEAD: usize = 16;

static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it came; only a counter moves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() + BLOCK_OVERHEAD, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() + BLOCK_OVERHEAD, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..Default::default() }
}

/// Span `position` of `trace`. The root is the last one, and never sent.
fn span(trace: u64, position: u64) -> Span {
    let span_id = |position: u64| (trace * (SPANS + 1) + position + 1).to_be_bytes().to_vec();
    Span {
        trace_id: u128::from(trace + 1).to_be_bytes().to_vec(),
        span_id: span_id(position),
        parent_span_id: span_id(SPANS),
        name: "chat gpt-4o".into(),
        attributes: vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.provider.name", "openai"),
            text("gen_ai.request.model", "gpt-4o"),
            text("gen_ai.response.model", "gpt-4o-2024-08-06"),
            text("gen_ai.response.id", "chatcmpl-7f3a9c"),
            text("gen_ai.conversation.id", "conversation-12"),
            text("server.address", "api.openai.com"),
            text("user.id", "4711"),
        ],
        ..Default::default()
    }
}

#[test]
fn twenty_thousand_open_traces_of_ten_spans_hold_less_than_500_mb() {
    let mut assembler: Assembler<()> = Assembler::new(Config::default());
    let before = HELD.load(Ordering::Relaxed);
    let now = Time(1_796_025_600_000_000_000);
    // One span of each trace, then the next one: as interleaved as it gets, in requests of 500 spans.
    for position in 0..SPANS {
        for first in (0..TRACES).step_by(500) {
            let spans = (first..first + 500).map(|trace| span(trace, position)).collect();
            let resource = Resource { attributes: vec![text("service.name", "shop")], ..Default::default() };
            let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
            let request = ExportTraceServiceRequest {
                resource_spans: vec![ResourceSpans {
                    resource: Some(resource),
                    scope_spans,
                    ..Default::default()
                }],
            };
            assembler.push(now, from_traces(request).spans, Vec::new(), |_, _| ());
            assert!(assembler.pop(now).is_none());
        }
    }
    assert_eq!(assembler.open() as u64, TRACES);
    let held = HELD.load(Ordering::Relaxed) - before;
    let counted = assembler.bytes();
    assert!(held < LIMIT, "{held} bytes");
    assert!(counted > held / 2 && counted < held * 2, "{counted} bytes counted, {held} held");
}
