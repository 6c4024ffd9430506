# Devices.
for isa in x86_64 aarch64 riscv64; do
    on $isa sh -c 'echo nothing > /dev/null' && echo "null takes"
    on $isa wc -c < /dev/null
    on $isa head -c 100000 /dev/zero | on $isa md5sum
    on $isa head -c 1000 /dev/urandom | wc -c
    [ "$(on $isa head -c 16 /dev/urandom | md5sum)" != "$(on $isa head -c 16 /dev/urandom | md5sum)" ] && echo "random"
    on $isa sh -c 'echo full > /dev/full' 2>/dev/null
    echo "full $?"
    on $isa test -c /dev/null && echo "a character device"
    echo text | on $isa cat /dev/stdin
    on $isa sh -c 'echo by name > /dev/stderr' 2>&1 | cat
done
