#!/usr/bin/env bash
# Holds `assayd serve` against jevcompat, the public conformance suite of /v1/systemone, over a tiny checkpoint (with and
# without tokens) and over the embedded model.
# usage: tests/systemone/conformance.sh [BINARY]      needs python3; installs jevcompat and typesafe-sdk from PyPI
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=${1:-target/release/assayd}
venv=target/conformance/venv

if ! command -v python3 >/dev/null; then
  echo "python3 is not installed here: conformance is NOT checked"
  exit 0
fi
if ! "$venv/bin/python" -c 'import jevcompat, typesafe_sdk' 2>/dev/null; then
  rm -rf "$venv"
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q 'jevcompat==0.1.1' 'typesafe-sdk[zstd]>=0.7,<0.8'; }; then
    echo "jevcompat could not be installed from PyPI here: conformance is NOT checked"
    exit 0
  fi
fi
exec "$venv/bin/python" tests/systemone/conformance.py "$binary"
