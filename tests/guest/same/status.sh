# Subshells and exit statuses, also of programs of other instruction sets.
for isa in x86_64 aarch64 riscv64; do
    on $isa true
    echo "true $?"
    on $isa false
    echo "false $?"
    on $isa sh -c 'exit 42'
    echo "exit 42: $?"
    on $isa sh -c 'kill -TERM $$'
    echo "killed by TERM: $?"
    on $isa sh -c 'kill -KILL $$'
    echo "killed by KILL: $?"
    on $isa sh -c 'kill -SEGV $$'
    echo "killed by SEGV: $?"
    on $isa test -e /nowhere || echo "nowhere is not"
done 2>/dev/null
on riscv64 no-such-program 2>/dev/null
echo "not found $?"
on aarch64 /etc/passwd 2>/dev/null
echo "not executable $?"
(exit 3)
echo "subshell $?"
(
    cd /
    value=inner
    pwd
    (on aarch64 sh -c 'exit 9')
    exit $(($? + 1))
)
echo "nested ${value:-unset} $?"
on riscv64 false | on aarch64 true
echo "last of a pipeline $?"
on aarch64 true | on riscv64 false
echo "last of a pipeline $?"
set -o pipefail
on aarch64 sh -c 'exit 5' | on riscv64 true | on x86_64 true
echo "pipefail $?"
! on riscv64 false
echo "negated $?"
on riscv64 true && on aarch64 false || echo "and, or"
on aarch64 ls /nowhere
echo "ls $?"
exit 17
