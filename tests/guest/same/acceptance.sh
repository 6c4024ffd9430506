# Words of a text, counted by a pipeline over three instruction sets.
on aarch64 cat "$TEXT" | on riscv64 tr -cs A-Za-z '\n' | on x86_64 tr A-Z a-z | on aarch64 sort | on riscv64 uniq -c |
    on x86_64 sort -k1,1rn -k2 | on aarch64 head -20
