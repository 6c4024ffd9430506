# LZ4, with those programs of its suite that a seed or a file decides.
build() {
    make -C programs -j2 lz4
    make -C tests -j2 fuzzer frametest roundTripTest decompress-partial decompress-partial-usingDict
}
check() {
    cd tests
    ./decompress-partial && ./decompress-partial-usingDict
    # How far they are is told by time.
    [ ! -x fuzzer ] || ./fuzzer -s1 -i20 2>&1 | tr '\r' '\n' | tail -n 1
    [ ! -x frametest ] || ./frametest -s1 -i10 2>&1 | tr '\r' '\n' | tail -n 1
    for level in 1 9 12; do
        ../programs/lz4 -$level <../lib/lz4.c >c.lz4 && wc -c <c.lz4 && ../programs/lz4 -d <c.lz4 | cmp - ../lib/lz4.c && echo same
    done
    ./roundTripTest ../lib/lz4.c
}
files="programs/lz4 lib/lz4.c tests/fuzzer tests/frametest tests/roundTripTest tests/decompress-partial
    tests/decompress-partial-usingDict"
