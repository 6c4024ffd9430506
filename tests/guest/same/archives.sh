# An archive travels: packed by one instruction set, compressed by the second, unpacked by the third.
mkdir -p source/inner
cp "$TEXT" source/text
seq 1 5000 > source/inner/numbers
ln -s inner/numbers source/link
chmod 750 source/inner
turn() {
    on $1 tar -cf - source | on $2 gzip -9 | on $3 sh -c 'mkdir $0 && gunzip | tar -xf - -C $0' $1
    (cd $1/source && on $2 find . | sort && on $3 md5sum text inner/numbers && readlink link && stat -c %a inner)
    on $2 diff -r source $1/source && echo "equal"
}
turn x86_64 aarch64 riscv64
turn aarch64 riscv64 x86_64
turn riscv64 x86_64 aarch64
on aarch64 tar -czf all.tgz source
on riscv64 tar -tzf all.tgz | sort
on riscv64 sh -c 'find source -type f | sort | cpio -o -H newc 2>/dev/null' | on aarch64 cpio -t 2>/dev/null
