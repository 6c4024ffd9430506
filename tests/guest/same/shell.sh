# The shell itself, run by each instruction set.
cat > program <<'END'
fibonacci() {
    if [ $1 -lt 2 ]; then echo $1; else echo $(($(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2))))); fi
}
fibonacci 7
for word in "a b" c*d 'e'; do echo "[$word]"; done
text=one/two/three.txt
echo "${text##*/} ${text%.txt} ${#text} ${text%%/*} ${none:-default}"
case $text in *.txt) echo matched ;; *) echo "not matched" ;; esac
set -- x y z
shift
echo "$# $* $1"
count=0
while read key value; do count=$((count + value)); done <<LIST
a 1
b 2
c 3
LIST
echo "count $count"
eval 'echo $((1 << 40)) $((-7 / 2)) $((-7 % 3)) $((0x10 + 010))'
printf '%s-%s\n' a b c
trap 'echo leaving' EXIT
false || (echo "subshell"; exit 2)
echo "status $?"
type cd >/dev/null && echo known
unset nothing
(set -u; echo $nothing) 2>/dev/null
echo "unset is an error: $?"
local_test() { local v=inner; echo $v; }
v=outer; local_test; echo $v
getopts ab: option -b value && echo "$option $OPTARG"
echo a b c | { read -r first rest; echo "$rest $first"; }
END
for isa in x86_64 aarch64 riscv64; do
    on $isa sh ./program
    echo "== $?"
done
