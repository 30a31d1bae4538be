# Sourced by the scripts beside it: gets the outside tools by their ordinary package clients into target/deploy-tools, and
# keeps count of what was checked and what could not be.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools=$root/target/deploy-tools
mkdir -p "$tools/bin"
PATH=$tools/bin:$PATH
COLLECTOR_VERSION=0.165.0

failed=0
checked=0
missed=0

say() { printf '%s\n' "$*"; }
miss() { missed=$((missed + 1)); say "NOT CHECKED: $1, since $2"; }

# check WHAT COMMAND…: runs it; says its output if it fails.
check() {
  local what=$1 out
  shift
  if out=$("$@" 2>&1); then
    checked=$((checked + 1)); say "ok: $what"
  else
    failed=$((failed + 1)); say "FAILED: $what"; say "$out"
  fi
}

finish() {
  say "$checked checked, $missed could not be checked, $failed failed"
  [ "$failed" -eq 0 ]
}

have() { command -v "$1" >/dev/null 2>&1; }

# debian PROGRAM PACKAGE
debian() {
  have "$1" && return
  have apt-get && [ "$(id -u)" = 0 ] || return 1
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2"; } >"$tools/$2.log" 2>&1
  have "$1"
}

# python PROGRAM REQUIREMENT
python() {
  have "$1" && return
  have python3 || return 1
  [ -x "$tools/venv/bin/pip" ] || python3 -m venv "$tools/venv" >"$tools/venv.log" 2>&1 || return 1
  "$tools/venv/bin/pip" install -q --disable-pip-version-check "$2" >"$tools/pip.log" 2>&1 || return 1
  ln -sf "$tools/venv/bin/$1" "$tools/bin/$1"
  have "$1"
}

# golang PROGRAM MODULE@VERSION [NAME THAT THE MODULE GIVES IT]
golang() {
  have "$1" && return
  have go || return 1
  GOBIN=$tools/gobin go install "$2" >"$tools/$1.log" 2>&1 || return 1
  ln -sf "$tools/gobin/${3:-$1}" "$tools/bin/$1"
  have "$1"
}

# A real OpenTelemetry Collector with the parts that deploy/collector uses. Three to five minutes the first time.
collector() {
  have otelcol-assayd && return
  have go || return 1
  golang ocb "go.opentelemetry.io/collector/cmd/builder@v$COLLECTOR_VERSION" builder || return 1
  (cd "$tools" && ocb --config "$root/tests/deploy/collector-builder.yaml") >"$tools/collector.log" 2>&1 || return 1
  ln -sf "$tools/collector/otelcol-assayd" "$tools/bin/otelcol-assayd"
  have otelcol-assayd
}
