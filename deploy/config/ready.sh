#!/bin/bash
# Ready when each model of models.config has a version that answers. The image has bash, but no curl.
#
#     ready.sh [models.config] [REST port]
set -eu
config=${1:-/config/models.config}
port=${2:-8501}

names=$(sed -n 's/^ *name: *"\(.*\)".*/\1/p' "$config")
if [ -z "$names" ]; then
  echo "$config names no model" >&2
  exit 1
fi
for name in $names; do
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET /v1/models/%s HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$name" >&3
  # The route answers 200 for a version that is loading or has failed, too: its state says.
  if ! grep -Eq '"state": *"AVAILABLE"' <&3; then
    echo "$name has no version that answers" >&2
    exit 1
  fi
  exec 3>&-
done
