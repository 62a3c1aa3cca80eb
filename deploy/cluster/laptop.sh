#!/usr/bin/env bash
# A cluster of this machine and others of a small network, by hand: no scheduler, no cloud.
#
#     deploy/cluster/laptop.sh head 192.168.1.10             # on the first machine: the address that others reach
#     deploy/cluster/laptop.sh worker 192.168.1.10           # on every other machine
#     rookery doctor --on ray --address auto                 # on the first machine
#     rookery train CartPole-v1 --on ray --address auto
#     deploy/cluster/laptop.sh stop                          # on every machine
#
# Every machine needs the token of the first one, which is made there: copy its file ~/.ray/auth_token to the same place.
# Nothing is encrypted: anyone who listens can read the token, and run code. Use it in a network that you trust.
set -euo pipefail

port=6379
export RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=3000 RAY_health_check_failure_threshold=3
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token

case "${1:-}" in
    head)
        ray get-auth-token --generate > /dev/null 2>&1 || true # older versions of Ray have no tokens
        ray start --head --node-ip-address="${2:?the address of this machine}" --port="$port"
        ;;
    worker) ray start --address="${2:?the address of the first machine}:$port" ;;
    stop) ray stop ;;
    *)
        echo "usage: $0 head ADDRESS | worker ADDRESS | stop" >&2
        exit 2
        ;;
esac
