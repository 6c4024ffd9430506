# Memory comes back: what a round of work takes, it gives back.
work() {
    for isa in x86_64 aarch64 riscv64; do
        on $isa dd if=/dev/zero bs=64k count=16 2>/dev/null | on aarch64 cat | on riscv64 md5sum
        on $isa sh -c 'seq 1 3000 > file; sort -r file > sorted; mkdir d; cp file sorted d; rm -r file sorted d'
        on $isa sleep 100 &
        on riscv64 kill -KILL $!
        wait $! 2>/dev/null
        mkfifo fifo
        on $isa cat fifo >/dev/null &
        on aarch64 echo text > fifo
        wait
        rm fifo
        (for number in 1 2 3 4 5 6 7 8; do on $isa true & done; wait)
    done >/dev/null
}
# The kernel's own memory may grow, and is not lost.
left_kib() { awk '/^(MemFree|Slab)/ { kib += $2 } END { print kib }' /proc/meminfo; }
work
work
before=$(left_kib)
for round in 1 2 3 4 5 6; do work; done
# What is not in use goes back when cores have time.
lost=512
until [ $((n += 1)) -gt 100 ] || [ $((lost = before - $(left_kib))) -lt 512 ]; do usleep 100000; done
[ $lost -lt 512 ] && echo "nothing is lost" || echo "$lost KiB are lost"
/bin/ps | awk '$4 ~ /^Z/'
