# Many children at once, of three instruction sets.
number=0
while [ $number -lt 100 ]; do
    case $((number % 3)) in 0) isa=x86_64 ;; 1) isa=aarch64 ;; *) isa=riscv64 ;; esac
    on $isa sh -c "echo child $number >> children" &
    number=$((number + 1))
done
wait
on riscv64 wc -l < children
sort -k2n children | on aarch64 md5sum
# Generations: each child makes the next one on the next island.
cat > generation <<'END'
if [ $1 -gt 0 ]; then
    on $2 sh ./generation $(($1 - 1)) $3 $4 $2
    echo "generation $1 $2 $?"
fi
exit $1
END
sh ./generation 12 aarch64 riscv64 x86_64
# Subshells are forks without exec.
(((((((((echo deep)))))))))
for i in 1 2 3 4 5; do (for j in 1 2 3 4 5; do (exit $((i * j))) & done; wait; echo $i) & done | sort
