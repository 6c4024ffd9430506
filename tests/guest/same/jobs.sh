# Background jobs of several instruction sets, waited for in turn and together.
for number in 1 2 3 4 5 6; do
    case $((number % 3)) in 0) isa=x86_64 ;; 1) isa=aarch64 ;; *) isa=riscv64 ;; esac
    on $isa sh -c "echo job $number > out.$number; exit $((number * 10))" &
    eval "pid$number=$!"
done
for number in 6 5 4 3 2 1; do
    eval "wait \$pid$number"
    echo "job $number: $? $(cat out.$number)"
done
on aarch64 sleep 0.2 &
on riscv64 sleep 0.1 &
wait
echo "all done $?"
wait 999999 2>/dev/null
echo "no such child $?"
(on riscv64 sh -c 'until [ -e go ]; do usleep 10000; done' && echo late) &
echo early
: > go
wait $!
{ echo grouped; on aarch64 echo together; } | on riscv64 cat &
wait
