# Every island shows the same system; only the machine's name in `uname` is the island's own.
for isa in x86_64 aarch64 riscv64; do
    on $isa uname -sm
    on $isa hostname
    on $isa nproc
    on $isa grep -c ^processor /proc/cpuinfo
done
grep '^isa' /proc/cpuinfo | sort | uniq -c | awk '{ print $1, $NF }'
for file in cpuinfo filesystems mounts version sys/kernel/hostname; do
    for isa in x86_64 aarch64 riscv64; do on $isa md5sum /proc/$file; done | sort -u | wc -l
done
taskset 1 grep '^Cpus_allowed' /proc/self/status
on riscv64 taskset 200000000 grep '^Cpus_allowed' /proc/self/status
# One process table.
[ "$(on riscv64 sh -c 'echo $PPID')" = $$ ] && echo "a parent on another island"
sh -c 'echo $$; exec on aarch64 sh -c "echo \$\$; exec on riscv64 sh -c \"echo \\\$\\\$\""' | sort -u | wc -l
on aarch64 sleep 100 &
sleeper=$!
until readlink /proc/$sleeper/exe | grep -q aarch64; do sleep 0.05; done
for isa in x86_64 aarch64 riscv64; do on $isa readlink /proc/$sleeper/exe; done
kill $sleeper
wait $sleeper 2>/dev/null
# A file's number, size and times are the same everywhere.
on aarch64 touch file
for isa in x86_64 aarch64 riscv64; do on $isa stat -c '%i %Y %s %a' file; done | sort -u | wc -l
