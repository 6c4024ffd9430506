# Thirty stages.
stage() { on $1 sed 's/$/ x/'; }
seq 1 200 | stage x86_64 | stage aarch64 | stage riscv64 | stage x86_64 | stage aarch64 | stage riscv64 |
    stage x86_64 | stage aarch64 | stage riscv64 | stage x86_64 | stage aarch64 | stage riscv64 |
    stage x86_64 | stage aarch64 | stage riscv64 | stage x86_64 | stage aarch64 | stage riscv64 |
    stage x86_64 | stage aarch64 | stage riscv64 | stage x86_64 | stage aarch64 | stage riscv64 |
    stage x86_64 | stage aarch64 | stage riscv64 | on riscv64 tee middle | on aarch64 md5sum
on x86_64 tail -1 middle
