# The current directory is inherited by every instruction set.
mkdir -p a/b
cd a/b
for isa in x86_64 aarch64 riscv64; do
    on $isa pwd | sed 's|.*/\(a/b\)|\1|'
    on $isa sh -c 'cd .. && pwd' | sed 's|.*/\(a\)|\1|'
    (cd / && on $isa pwd)
    on $isa sh -c 'cd nowhere' 2>/dev/null
    echo "cd $?"
    on $isa mkdir here.$isa
    on $isa realpath ../b/./here.$isa/.. | sed 's|.*/\(a/b\)|\1|'
done
on aarch64 ls
on riscv64 ls -a .. | sort
on x86_64 find .. -type d | sort
seq 1 300 | on aarch64 sh -c 'while read name; do : > file.$name; done'
on riscv64 ls | wc -l
on x86_64 sh -c 'rm file.*'
on aarch64 ls
