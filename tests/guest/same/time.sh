# Clocks run, sleeps end in the order of their lengths, `time` and `timeout` work.
for isa in x86_64 aarch64 riscv64; do
    (on $isa time sleep 0.2) 2>&1 | sed -n 's/^real.*\(0m *0\.[2-9]\|0m *[1-9]\|[1-9]m\).*/real time/p'
    on $isa timeout 0.2 sleep 60
    echo "timeout $?"
    on $isa timeout -s KILL 0.2 sh -c 'trap "" TERM; while :; do :; done' 2>/dev/null
    echo "timeout by KILL $?"
    on $isa timeout 300 true
    echo "in time $?"
    [ "$(on $isa date +%Y)" -ge 2024 ] && echo "the year is plausible"
    before=$(on $isa date +%s)
    on $isa sleep 1.1
    there=$(on riscv64 date +%s)
    after=$(on $isa date +%s)
    [ "$before" -lt "$there" ] && [ "$there" -le "$after" ] && echo "one clock"
done
# A busy host may be late with any of them: how late is not known, so the lengths grow until that does not matter.
sleeps() {
    (on riscv64 sleep $(($1 * 3)); echo fourth) &
    (on aarch64 sleep $(($1 * 2)); echo third) &
    (on x86_64 sleep $1; echo second) &
    (on riscv64 sleep 0; echo first) &
    wait
}
for seconds in 1 2 5 10 20 40; do
    order=$(sleeps $seconds)
    [ "$(echo $order)" = "first second third fourth" ] && break
done
echo "$order"
