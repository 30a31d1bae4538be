#!/usr/bin/env bash
# The console in a real browser, before the real daemon. usage: tests/console/run.sh [BINARY]
# Screenshots are left in target/console. Where Node.js or Chromium cannot be had, it says so and ends well.
set -euo pipefail
cd "$(dirname "$0")/../.."

binary=${1:-target/release/assayd}
[ -x "$binary" ] || { echo "there is no $binary; build it first"; exit 1; }

skip() { echo "the console's test is skipped: $*"; exit 0; }
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome || true; }
install() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 ||
    { apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
}

command -v node >/dev/null && command -v npm >/dev/null || install nodejs npm || skip "Node.js is not here and cannot be installed"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "Node.js $(node --version) is too old; it takes 20"
[ -n "$(browser)" ] || install chromium || skip "Chromium is not here and cannot be installed"
(cd tests/console && npm ci --silent --no-audit --no-fund) || skip "playwright-core cannot be installed from the npm registry"

exec node tests/console/console.test.mjs "$binary" target/console "$(browser)"
