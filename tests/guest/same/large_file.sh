# Large files: sparse, written backwards, truncated, copied between instruction sets.
on aarch64 dd if=/dev/zero of=zeros bs=1M count=8 2>/dev/null
on riscv64 md5sum zeros
on x86_64 dd if="$TEXT" of=sparse bs=1 seek=5000000 count=100 2>/dev/null
on aarch64 wc -c sparse
on riscv64 md5sum sparse
on riscv64 cp sparse copy
on aarch64 cmp sparse copy && echo equal
on aarch64 truncate -s 1000 copy
on riscv64 md5sum copy
on riscv64 truncate -s 2000000 copy
on x86_64 md5sum copy
for block in 9 3 7 1 5; do
    on aarch64 dd if="$TEXT" of=backwards bs=1000 seek=$block count=1 conv=notrunc 2>/dev/null
done
on riscv64 md5sum backwards
