# Zstandard, with programs of its suite. Its hooks for tracing and its second decoders for x86-64 are for some instruction sets only.
build() {
    export CPPFLAGS="-DZSTD_TRACE=0 -DDYNAMIC_BMI2=0"
    make -C programs -j2 zstd-release HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 ZSTD_LEGACY_SUPPORT=0
    # The library is compiled once.
    objects=$(find lib/{common,compress,decompress,dictBuilder} -name '*.c' -printf '%f ' | sed "s|\.c |.o |g; s|[^ ]*\.o|$(echo "$PWD"/programs/obj/*)/&|g")
    make -C tests -j2 ZSTD_OBJECTS="$objects" invalidDictionaries roundTripCrash poolTests datagen
}
check() {
    cd tests
    ./invalidDictionaries && ./poolTests 2>&1
    for file in golden-compression/*; do
        for level in 1 6 19; do
            ../programs/zstd -q -$level <$file >c.zst && wc -c <c.zst && ../programs/zstd -q -d <c.zst | cmp - $file && echo same
        done
        ./roundTripCrash $file 2>&1 || echo "status $?"
    done
    ../programs/zstd -q -t golden-decompression/*.zst && ../programs/zstd -q -D golden-dictionaries/* <golden-compression/http | md5sum
    ./datagen -g100000 -s1 | ../programs/zstd -q --long -T2 | ../programs/zstd -q -d | md5sum
}
files="programs/zstd tests/invalidDictionaries tests/roundTripCrash tests/poolTests tests/datagen $(echo tests/golden-*)"
