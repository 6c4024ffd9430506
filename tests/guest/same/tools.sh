# The same work by the programs of each instruction set, with equal results.
mkdir tree
cd tree
for number in $(seq 1 40); do
    mkdir -p d$((number % 7))
    seq $number $((number * 20)) > d$((number % 7))/f$number
done
cd ..
for isa in x86_64 aarch64 riscv64; do
    echo "== tools"
    on $isa find tree -type f -name 'f*' | on $isa sort | on $isa md5sum
    on $isa sort -k2 "$TEXT" | on $isa md5sum
    on $isa sort -rn tree/d3/f3 | on $isa head -3
    on $isa awk '{ for (i = 1; i <= NF; i++) n[length($i)]++ } END { for (l = 1; l < 20; l++) printf "%d:%d ", l, n[l]; print "" }' "$TEXT"
    on $isa awk 'BEGIN { printf "%.6f %.3e %d\n", sqrt(2), 1 / 3, int(10 / 3); print exp(1), sin(1), cos(1), log(10) }'
    on $isa sed -e 's/[aeiou]/<&>/g' -e '/^ *$/d' "$TEXT" | on $isa md5sum
    on $isa grep -n -i 'licen[sc]e' "$TEXT" | on $isa wc
    on $isa gzip -c "$TEXT" | on $isa gunzip | on $isa cmp - "$TEXT" && echo "gzip"
    on $isa dd if="$TEXT" bs=7 skip=100 count=3 2>/dev/null | on $isa hexdump -C
    on $isa find tree -type f | on $isa sort | on $isa xargs -n 5 on $isa cat | on $isa md5sum
    on $isa find tree -name 'f1*' -exec wc -l {} + | on $isa sort | on $isa tail -2
    on $isa find tree -type f -size +1k | on $isa sort | on $isa head -3
    on $isa cut -c1-20 "$TEXT" | on $isa uniq | on $isa tac | on $isa nl | on $isa tail -2
    on $isa sha256sum < "$TEXT"
    on $isa diff tree/d1/f1 tree/d2/f2 | on $isa tail -2
    on $isa expr 6 '*' 7
    on $isa od -An -tx1 -N 8 "$TEXT"
    echo '2^64; scale=20; 1/7' | on $isa bc
    on $isa printf '%s %05d %x\n' text 42 255
done
