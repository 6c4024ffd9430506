# Clocks run, sleeps end in the order of their lengths, `time` and `timeout` work.
for isa in x86_64 aarch64 riscv64; do
    (on $isa time sleep 0.2) 2>&1 | sed -n 's/^real.*0m *\(0\.[2-9]\|[1-9]\).*/real time/p'
    on $isa timeout 0.2 sleep 60
    echo "timeout $?"
    on $isa timeout -s KILL 0.2 sh -c 'trap "" TERM; while :; do :; done' 2>/dev/null
    echo "timeout by KILL $?"
    on $isa timeout 20 true
    echo "in time $?"
    [ "$(on $isa date +%Y)" -ge 2024 ] && echo "the year is plausible"
    before=$(on $isa date +%s)
    on $isa sleep 1.1
    after=$(on riscv64 date +%s)
    [ "$after" -gt "$before" ] && [ "$after" -le $((before + 20)) ] && echo "one clock"
done
(
    (on riscv64 sleep 3.6; echo fourth) &
    (on aarch64 sleep 2.4; echo third) &
    (on x86_64 sleep 1.2; echo second) &
    (on riscv64 sleep 0; echo first) &
    wait
)
