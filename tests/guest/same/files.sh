# Links, renaming, permissions, times, removal.
for isa in x86_64 aarch64 riscv64; do
    mkdir $isa
    cd $isa
    on $isa sh -c 'echo contents > file; chmod 640 file'
    on aarch64 ln -s file link
    on riscv64 ln file hard
    on $isa readlink link
    on x86_64 cat link hard
    on $isa stat -c '%n %F %h %a %s' file hard link
    [ "$(on aarch64 stat -c %i file)" = "$(on riscv64 stat -c %i hard)" ] && echo "one inode"
    on riscv64 mv file renamed
    on $isa cat link
    echo "dangling: $?"
    on aarch64 rm hard
    stat -c '%h' renamed
    on $isa mkdir -p a/b/c
    on riscv64 touch -d '2001-02-03 04:05:06' a/b/c/old
    on aarch64 stat -c '%y' a/b/c/old | cut -c1-19
    on $isa mv a/b moved
    on aarch64 find . | sort
    on $isa rmdir a moved
    echo "rmdir: $?"
    on riscv64 rm -r a moved
    on $isa cp -a renamed copy
    on aarch64 cmp renamed copy && echo same
    on $isa ln -sf /nowhere link
    on riscv64 readlink link
    on $isa ln -s loop loop
    on $isa cat loop
    on aarch64 truncate -s 100000 renamed
    on riscv64 wc -c renamed
    on $isa ls -1
    cd ..
done
on riscv64 mkdir x86_64
on aarch64 rm x86_64
on x86_64 mv x86_64 aarch64/inside && on riscv64 ls aarch64/inside
on aarch64 mv aarch64 aarch64/inside/loop
echo "into itself: $?"
umask 077
on riscv64 touch private
on aarch64 stat -c %a private
