# 16 MiB through three instruction sets, unchanged.
on x86_64 dd if=/dev/zero bs=64k count=256 2>/dev/null | on aarch64 tr '\0' m | on riscv64 md5sum
on riscv64 seq 1 300000 | on x86_64 cat | on aarch64 tee copy | on riscv64 md5sum
on x86_64 md5sum copy
on aarch64 wc copy
