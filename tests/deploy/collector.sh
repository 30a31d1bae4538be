#!/usr/bin/env bash
# A real OpenTelemetry Collector with deploy/collector/otlp.yaml between an agent and assayd: traces go in by OTLP, assayd judges
# them, and its verdicts come back through the Collector to the backend as gen_ai.evaluation.result records. The backend is a
# second Collector that prints what it gets.
set -uo pipefail
source "$(dirname "$0")/tools.sh"
cd "$root"
for binary in "${ASSAYD:-}" target/release/assayd target/debug/assayd; do
  [ -x "$binary" ] && break
done
[ -x "$binary" ] || { say "build assayd first, or name it in ASSAYD"; exit 1; }
if ! have curl || ! collector; then
  miss "the way through a Collector" "there is no curl, or a Collector could not be built ($tools/collector.log)"
  finish
  exit
fi

work=$(mktemp -d)
jobs_to_stop=()
stop() {
  [ ${#jobs_to_stop[@]} -eq 0 ] || kill "${jobs_to_stop[@]}" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT
die() { say "FAILED: $1"; tail -n 20 "$work"/*.log; exit 1; }
base=$((20000 + RANDOM % 20000))
agents_grpc=$base agents_http=$((base + 1)) verdicts=$((base + 2)) health=$((base + 3)) backend=$((base + 4)) admin=$((base + 5)) assayd=$((base + 6)) assayd_http=$((base + 7))

# The backend.
cat >"$work/backend.yaml" <<YAML
receivers: { otlp: { protocols: { grpc: { endpoint: "127.0.0.1:$backend" } } } }
exporters: { debug: { verbosity: detailed } }
service:
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [debug] }
    logs: { receivers: [otlp], exporters: [debug] }
YAML
otelcol-assayd --config "$work/backend.yaml" >"$work/backend.log" 2>&1 &
jobs_to_stop+=($!)

cat >"$work/assayd.yaml" <<YAML
receive: { grpc: { listen: "127.0.0.1:$assayd" }, http: { listen: "127.0.0.1:$assayd_http" } }
serve: { listen: "127.0.0.1:$admin" }
assemble: { root_grace: 200ms }
emit: { otlp: { endpoint: "http://127.0.0.1:$verdicts" }, jsonl: { path: $work/verdicts.jsonl } }
data_dir: $work/data
YAML
"$binary" serve --config "$work/assayd.yaml" 2>"$work/assayd.log" &
jobs_to_stop+=($!)

# The shipped configuration; only the ports differ.
sed -e "s/0\.0\.0\.0:4317/127.0.0.1:$agents_grpc/" -e "s/0\.0\.0\.0:4318/127.0.0.1:$agents_http/" \
  -e "s/0\.0\.0\.0:4327/127.0.0.1:$verdicts/" -e "s/0\.0\.0\.0:13133/127.0.0.1:$health/" \
  deploy/collector/otlp.yaml >"$work/collector.yaml"
printf '  telemetry: { metrics: { level: none } }\n' >>"$work/collector.yaml"
BACKEND_ENDPOINT=127.0.0.1:$backend ASSAYD_ENDPOINT=127.0.0.1:$assayd QUEUE_DIRECTORY=$work/queue \
  otelcol-assayd --config "$work/collector.yaml" >"$work/collector.log" 2>&1 &
jobs_to_stop+=($!)

for _ in $(seq 150); do
  curl -fsS "http://127.0.0.1:$admin/readyz" >/dev/null 2>&1 && curl -fsS "http://127.0.0.1:$health/" >/dev/null 2>&1 && break
  sleep 0.2
done
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$agents_http deploy/quickstart/send.sh hallucination 3 || die "the Collector took no traces"
# verdicts VERDICTS: whether the backend has that many of them.
arrived() { [ "$(grep -c 'EventName: gen_ai.evaluation.result' "$work/backend.log")" -ge "$1" ]; }
for _ in $(seq 150); do arrived 3 && break; sleep 0.2; done
arrived 3 || die "no verdicts came back through the Collector"
say "ok: three traces went through the Collector to assayd, three verdicts came back to the backend"
checked=$((checked + 1))
check "spans reached the backend as before" grep -q 'Name *: chat demo-model' "$work/backend.log"
check "the verdict names its label" grep -q 'gen_ai.evaluation.score.label: Str(hallucination)' "$work/backend.log"
check "and its evaluation" grep -q 'gen_ai.evaluation.name: Str(grounding)' "$work/backend.log"
# The chat span ends in cc: the one whose output is the answer.
check "the record carries the id of the span that answered" bash -c \
  "sed -n '/EventName: gen_ai.evaluation.result/,/Flags:/p' '$work/backend.log' | grep -qE 'Span ID: [0-9a-f]{14}cc'"
check "assayd judged them once each" bash -c "[ \$(wc -l <'$work/verdicts.jsonl') -eq 3 ]"
finish
