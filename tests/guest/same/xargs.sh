# Programs that start programs, of other instruction sets.
seq 1 60 | on aarch64 xargs -n 7 on riscv64 echo
seq 1 20 | on riscv64 xargs -I {} on aarch64 sh -c 'exit 0'
echo "status $?"
seq 1 9 | on x86_64 xargs -n 1 -P 4 on riscv64 sh -c 'echo $(($0 * $0))' | sort -n
on aarch64 find "$TEXT" -exec on riscv64 wc -c {} \; | sed 's/ .*//'
on riscv64 env on aarch64 env on x86_64 echo "three times"
on aarch64 sh -c 'on riscv64 sh -c "on x86_64 sh -c \"echo nested; exit 3\""'
echo "status $?"
on aarch64 sh -c 'exec on riscv64 sh -c "echo \$PPID"' | grep -c '^[0-9]*$'
on riscv64 setsid sh -c 'echo "a session of its own"'
