on aarch64 tr -cs a-z '\n' </in/text.txt | on riscv64 sort | on x86_64 uniq -c | on riscv64 sort -rn | on x86_64 head -n 3
