# zlib, with the programs of its `make test` and `make cover`.
build() {
    ./configure --static
    make -j2 example minigzip infcover
}
check() {
    ./example example.gz && ./infcover 2>&1
    for level in 1 6 9; do
        ./minigzip -$level <ChangeLog >text.gz && wc -c <text.gz && md5sum <text.gz
        ./minigzip -d <text.gz | cmp - ChangeLog && echo same
    done
}
files="example minigzip infcover ChangeLog"
