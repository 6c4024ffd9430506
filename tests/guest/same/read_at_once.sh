# A file that one island appends to is read by the others at once, a hundred times.
number=0
while [ $number -lt 34 ]; do
    on x86_64 sh -c "echo x $number >> log"
    [ "$(on aarch64 tail -1 log)" = "x $number" ] || echo "arm does not see x $number"
    on aarch64 sh -c "echo a $number >> log"
    [ "$(on riscv64 tail -1 log)" = "a $number" ] || echo "riscv does not see a $number"
    on riscv64 sh -c "echo r $number >> log"
    [ "$(on x86_64 tail -1 log)" = "r $number" ] || echo "x86 does not see r $number"
    number=$((number + 1))
done
on riscv64 wc -l < log
on aarch64 md5sum log
