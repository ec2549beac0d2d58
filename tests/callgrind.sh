#!/bin/sh
# Instructions per operation of the data path, as docs/performance.md quotes them:
# everything executed from entry to exit of one operation, callees included, the
# caller's loop not, in the steady state of rings of 1024.
# Needs valgrind. Run from anywhere; honours CARGO_TARGET_DIR.
set -eu
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not installed"
    exit 0
fi
target=${CARGO_TARGET_DIR:-target}
if [ -z "${CALLGRIND_BINARY:-}" ]; then
    cargo build --quiet --release -p e810-tests --example callgrind_datapath --example callgrind_lan
fi
binary=${CALLGRIND_BINARY:-$target/release/examples/callgrind_datapath}
lan=$target/release/examples/callgrind_lan
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# instructions BINARY ARGUMENT FUNCTION: of one operation, and there have to be some.
instructions() {
    ops=$(valgrind --tool=callgrind --callgrind-out-file="$out/$2" --collect-atstart=no \
        --toggle-collect="$3" "$1" "$2" 2>"$out/log" | tail -n 1)
    total=$(sed -n 's/^\(summary\|totals\): //p' "$out/$2" | tail -n 1)
    awk -v total="$total" -v ops="$ops" 'BEGIN { if (ops == 0) exit 1; print total / ops }'
}
say() { # label, instructions
    printf '%-38s %7.1f instructions\n' "$1" "$2"
}
count() { # label, argument, function
    each=$(instructions "$binary" "$2" "$3")
    say "$1" "$each"
}
# The registers of the LAN queues are a device in memory, whose part is taken off: a doorbell for each
# frame sent, and for every eighth received.
count_lan() { # label, argument, function, doorbells a frame
    each=$(instructions "$lan" "$2" "$3")
    say "$1" "$(awk -v each="$each" -v bell="$doorbell" -v bells="$4" 'BEGIN { print each - bells * bell }')"
}

count "post SEND 1 SGE + doorbell" send count_post_one
count "post RDMA WRITE 1 SGE + doorbell" write count_post_one
count "post inline SEND 32 B + doorbell" inline count_post_one
count "post SEND 1 SGE, list of 1" send_list1 count_post
count "post SEND 1 SGE, list of 64, per WR" list count_post
count "post_recv 1 SGE" recv count_recv_one
count "post_recv 1 SGE, list of 1" recv_list1 count_recv
count "poll SQ CQE, one a call" poll_sq_1 count_poll
count "poll SQ CQE, 16 a call, per CQE" poll_sq count_poll
count "poll RQ CQE, one a call" poll_rq_1 count_poll
count "poll RQ CQE, 16 a call, per CQE" poll_rq count_poll
count "poll an empty CQ" empty count_poll

[ -z "${CALLGRIND_BINARY:-}" ] || exit 0
doorbell=$(instructions "$lan" doorbell count_doorbell)
for bytes in 60 1514; do
    count_lan "LAN: transmit $bytes bytes" transmit_$bytes count_transmit 1
    count_lan "LAN: receive $bytes bytes" receive_$bytes count_receive 0.125
done
count_lan "LAN: look at an empty queue" empty count_receive 0
