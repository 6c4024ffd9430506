# xxHash, with its test of values.
build() { make -j2 xxhsum; }
check() {
    ./xxhsum -C 2>&1 | tr '\r' '\n' | tail -n 1
    ./xxhsum -b1 -i1 2>&1 | wc -l
    for hash in 0 1 2 3; do ./xxhsum -H$hash xxhash.h cli/xxhsum.c; done
    ./xxhsum xxhash.h cli/xxhsum.c >list && ./xxhsum -c list
}
files="xxhsum xxhash.h cli/xxhsum.c"
