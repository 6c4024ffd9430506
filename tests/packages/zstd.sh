# Zstandard, with those programs of its suite that a seed decides.
build() {
    make -C programs -j2 zstd-release HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0
    make -C tests -j2 zstreamtest poolTests datagen
}
check() {
    cd tests
    # How far it is is told by time.
    [ ! -x zstreamtest ] || ./zstreamtest -s1 -i3 2>&1 | tr '\r' '\n' | tail -n 1
    [ ! -x poolTests ] || ./poolTests 2>&1 || echo "status $?"
    [ ! -x ../programs/zstd ] || for level in 1 6 19; do
        ../programs/zstd -q -$level <fuzzer.c >c.zst && wc -c <c.zst && ../programs/zstd -q -d <c.zst | cmp - fuzzer.c && echo same
    done
    ./datagen -g100000 -s1 | ../programs/zstd -q --long -T2 | ../programs/zstd -q -d | md5sum
}
files="programs/zstd tests/zstreamtest tests/poolTests tests/datagen tests/fuzzer.c"
