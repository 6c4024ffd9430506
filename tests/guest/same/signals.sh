# Signals between programs of different instruction sets: handlers, ignoring, killing, waiting.
trap 'echo "the shell got USR1"' USR1
on riscv64 kill -USR1 $$
on aarch64 sh -c 'kill -USR1 $PPID'
trap - USR1

on aarch64 sh -c 'trap "echo arm got TERM; exit 4" TERM; echo ready > ready; while :; do sleep 0.05; done' &
victim=$!
until [ -s ready ]; do sleep 0.02; done
on riscv64 kill -TERM $victim
wait $victim
echo "handled: $?"

for isa in x86_64 aarch64 riscv64; do
    on $isa sleep 100 &
    victim=$!
    on aarch64 kill -0 $victim && echo "alive"
    on riscv64 kill -KILL $victim
    wait $victim 2>/dev/null
    echo "killed while it slept: $?"
    kill -0 $victim 2>/dev/null || echo "gone"
done

# A loop that makes no system call.
for isa in x86_64 aarch64 riscv64; do
    on $isa awk 'BEGIN { while (1) i++ }' &
    victim=$!
    sleep 0.1
    on aarch64 kill -KILL $victim
    wait $victim 2>/dev/null
    echo "killed while it computed: $?"
done

on riscv64 sh -c 'trap "" TERM; kill -TERM $$; echo "ignored TERM"'
on aarch64 sh -c 'trap "echo at exit" EXIT; exit 6'
echo "$?"
on aarch64 sleep 100 &
victim=$!
on riscv64 kill -STOP $victim
on x86_64 kill -CONT $victim
on riscv64 kill $victim
wait $victim 2>/dev/null
echo "stopped, continued, ended: $?"
