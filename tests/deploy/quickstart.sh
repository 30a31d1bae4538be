#!/usr/bin/env bash
# docs/quickstart-production.md for real: assayd, a real Prometheus with the rules of deploy/prometheus, and an agent that
# hallucinates beside one that does not, until the alert fires for the one and not for the other. The rules are the shipped
# ones but for their times, which are shortened so that this takes a minute.
set -uo pipefail
source "$(dirname "$0")/tools.sh"
cd "$root"
for binary in "${ASSAYD:-}" target/release/assayd target/debug/assayd; do
  [ -x "$binary" ] && break
done
[ -x "$binary" ] || { say "build assayd first, or name it in ASSAYD"; exit 1; }
if ! debian prometheus prometheus || ! have promtool || ! have curl; then
  miss "the quickstart" "there is no prometheus, promtool or curl (Debian: prometheus, curl)"
  finish
  exit
fi

work=$(mktemp -d)
assayd='' prometheus=''
stop() {
  [ -z "$prometheus" ] || kill "$prometheus" 2>/dev/null
  [ -z "$assayd" ] || kill "$assayd" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT
die() { say "FAILED: $1"; tail -n 30 "$work"/*.log; exit 1; }

cat >"$work/assayd.yaml" <<YAML
receive: { grpc: { listen: 127.0.0.1:0 }, http: { listen: 127.0.0.1:0 } }
serve: { listen: 127.0.0.1:0 }
assemble: { root_grace: 200ms }
emit: { jsonl: { path: $work/verdicts.jsonl } }
data_dir: $work/data
YAML
"$binary" serve --config "$work/assayd.yaml" 2>"$work/assayd.log" &
assayd=$!
address() { sed -n "s/.*[ \"]$1=*[\":]*\(127\.0\.0\.1:[0-9]*\).*/\1/p" "$work/assayd.log" | head -n 1; }
for _ in $(seq 300); do grep -q ' ready ' "$work/assayd.log" && break; sleep 0.2; done
admin=$(address admin)
otlp=$(address http)
[ -n "$admin" ] && [ -n "$otlp" ] || die "assayd did not start"
curl -fsS "http://$admin/readyz" >/dev/null || die "assayd is not ready"
say "ok: assayd is ready, metrics on $admin, OTLP/HTTP on $otlp"

port=$((20000 + RANDOM % 20000))
for file in rules alerts; do
  # Same names and expressions; evaluated every second, and pending for three instead of minutes.
  sed -E 's/^( *interval:) .*/\1 1s/; s/^( *for:) .*/\1 3s/' "deploy/prometheus/assayd.$file.yaml" >"$work/assayd.$file.yaml"
done
cat >"$work/prometheus.yaml" <<YAML
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [assayd.rules.yaml, assayd.alerts.yaml]
scrape_configs: [{ job_name: assayd, static_configs: [{ targets: ["$admin"] }] }]
YAML
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/tsdb" --web.listen-address="127.0.0.1:$port" \
  >"$work/prometheus.log" 2>&1 &
prometheus=$!
for _ in $(seq 100); do curl -fsS "http://127.0.0.1:$port/-/ready" >/dev/null 2>&1 && break; sleep 0.2; done
say "ok: prometheus is ready on 127.0.0.1:$port"

export OTEL_EXPORTER_OTLP_ENDPOINT=http://$otlp
firing() { promtool query instant "http://127.0.0.1:$port" 'ALERTS{alertname="AssaydHallucinationsFastBurn",alertstate="firing"}' 2>/dev/null; }
seen=''
for round in $(seq 60); do
  # Traffic goes on: rates need to see counters rise.
  deploy/quickstart/send.sh hallucination 2 >/dev/null && deploy/quickstart/send.sh faithful 2 >/dev/null || die "traces were not taken"
  seen=$(firing)
  [ -n "$seen" ] && break
  sleep 0.5
done
[ -n "$seen" ] || die "no alert after $((round * 4)) traces"
say "$seen"
case $seen in
  *'agent="refunds"'*) say "ok: AssaydHallucinationsFastBurn fires for the agent that hallucinates" ;;
  *) die "the alert does not name the agent" ;;
esac
case $seen in *'agent="orders"'*) die "the faithful agent is accused" ;; esac
say "ok: and not for the one that does not"
promtool query instant "http://127.0.0.1:$port" 'service_agent:assayd_hallucinations:lower1h' || die "no recorded rates"
curl -fsS "http://127.0.0.1:$port/api/v1/alerts" | grep -q '"summary":"refunds of shop hallucinates: at least' || die "the alert has no summary"
say "ok: the alert says what it means"
grep -q '"label":"hallucination"' "$work/verdicts.jsonl" || die "no such verdict was written"
checked=$((checked + 6))
finish
