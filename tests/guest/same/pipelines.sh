# Pipelines in every order of three instruction sets.
for first in x86_64 aarch64 riscv64; do
    for second in x86_64 aarch64 riscv64; do
        for third in x86_64 aarch64 riscv64; do
            echo "$first $second $third: $(on $first cat "$TEXT" | on $second grep -c the)" \
                "$(on $second cat "$TEXT" | on $third md5sum)"
        done
    done
done
echo one | on riscv64 cat - "$TEXT" | on aarch64 sed -n '1p;$p'
seq 1 1000 | on aarch64 awk '{ sum += $1 } END { print sum }' | on riscv64 tee sum | on x86_64 rev
on aarch64 cat sum
