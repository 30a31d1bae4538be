#!/usr/bin/env bash
# A fire drill: sends traces of an agent that hallucinates (or of one that does not) over OTLP/HTTP, each with ids of its own.
#
#   deploy/quickstart/send.sh hallucination 40        # 40 traces of shop/refunds, whose answer contradicts its tool
#   deploy/quickstart/send.sh faithful 40             # 40 traces of shop/orders, whose answer says what the tool said
#
# OTEL_EXPORTER_OTLP_ENDPOINT is where to (http://127.0.0.1:4318), OTLP_TOKEN a bearer token if one is asked for.
set -euo pipefail
kind=${1:?hallucination or faithful}
count=${2:-1}
endpoint=${OTEL_EXPORTER_OTLP_ENDPOINT:-http://127.0.0.1:4318}
template=$(dirname "$0")/$kind.otlp.json
[ -r "$template" ] || { echo "there is no $template" >&2; exit 64; }
hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
token=(); [ -z "${OTLP_TOKEN:-}" ] || token=(-H "authorization: Bearer $OTLP_TOKEN")
for _ in $(seq "$count"); do
  # SPAN with two more digits is a span id of 16.
  sed -e "s/TRACE/$(hex 16)/g" -e "s/SPAN/$(hex 7)/g" -e "s/START/$(date +%s)/g" "$template" |
    curl -fsS -o /dev/null -X POST -H 'content-type: application/json' "${token[@]}" --data-binary @- "$endpoint/v1/traces"
done
echo "sent $count traces ($kind) to $endpoint"
