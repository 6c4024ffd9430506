# The process list shows on which island each process is.
for isa in x86_64 aarch64 riscv64; do on $isa sleep 100 & done
until [ "$(/bin/ps | grep -c ' sleep$')" = 3 ]; do sleep 0.05; done
/bin/ps | head -1 | grep -o ISLAND
for isa in x86_64 aarch64 riscv64; do
    /bin/ps | grep ' sleep$' | grep -c " $isa"
    on $isa cat /proc/motet-ps | grep -c ' sleep$'
done
kill %1 %2 %3
wait 2>/dev/null
/bin/ps | grep ' sleep$'
# Nobody stays a zombie: the shell takes what is left when it waits for the next command.
until [ "$(/bin/ps | awk '$4 ~ /^Z/' | wc -l)" = 0 ]; do sleep 0.05; done
/bin/ps | awk '$1 == 1 { print "the first process is there" }'
