# /proc/motet counts what each island does: a line per counter, a column per island.
head -3 /proc/motet | awk '{ $1 = $1; print }'
row() { awk -v name=$1 -v column=$2 '$1 == name { print $(column + 2) }' /proc/motet; }
column=0
for isa in x86_64 aarch64 riscv64; do
    before=$(row syscalls $column)
    faults=$(row page_faults $column)
    on $isa sh -c 'for number in 1 2 3 4 5 6 7 8 9 10; do echo $(echo $number); done' >/dev/null
    [ $(row syscalls $column) -gt $((before + 50)) ] && echo "$isa counts system calls"
    [ $(row page_faults $column) -gt $faults ] && echo "$isa counts page faults"
    [ $(row icache_syncs $column) -gt 0 ] && echo "$isa has synchronised its fetches"
    [ $(row frames_owned $column) -gt 0 ] && echo "$isa owns memory"
    column=$((column + 1))
done
awk 'NF != 4' /proc/motet
awk 'NR > 2 { for (i = 2; i <= NF; i++) if ($i !~ /^[0-9]+$/) print }' /proc/motet
