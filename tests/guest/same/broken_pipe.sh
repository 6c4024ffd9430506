# A reader that leaves: the writer on another island gets SIGPIPE.
for writer in x86_64 aarch64 riscv64; do
    for reader in x86_64 aarch64 riscv64; do
        on $writer yes $writer | on $reader head -1
    done
done
set -o pipefail
on riscv64 yes | on aarch64 head -1
echo "status $?"
(trap '' PIPE; on riscv64 sh -c 'while echo lost || exit; do usleep 10000; done' 2>/dev/null; echo "write error: $?" >&2) | on aarch64 true
on aarch64 yes | on riscv64 cat | on x86_64 cat | on aarch64 head -2
echo "status $?"
# A stage that is killed ends what reads from it, and what writes to it.
on aarch64 cat "$TEXT" | on riscv64 sh -c 'read line; echo "read: $line"; kill -KILL $$' | on x86_64 cat
