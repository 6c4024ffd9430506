# The environment and the arguments arrive on every island.
VALUE='with spaces and "quotes"'
export VALUE
for isa in x86_64 aarch64 riscv64; do
    on $isa env | grep '^VALUE='
    ONLY=here on $isa sh -c 'echo "$ONLY $VALUE"'
    on $isa sh -c 'echo "$0 $# $3"' zero one 'two  spaces' '' four | sed 's/ $/ (empty)/'
    on $isa env -i A=1 B=2 env | sort
    on $isa env -u VALUE sh -c 'echo ${VALUE-unset}'
    LONG=$(seq 1 3000) on $isa sh -c 'echo ${#LONG}'
    on $isa echo $(seq 1 5000) | on $isa md5sum
done
