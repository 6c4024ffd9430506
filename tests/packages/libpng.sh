# libpng, with its programs of tests. It needs zlib.
needs=zlib
build() {
    cp -a "$LIBRARIES/zlib" zlib
    (cd zlib && ./configure --static && make -j2 libz.a)
    # Which files have what only some processors can do is decided by the computer that configures.
    CPPFLAGS=-I$PWD/zlib LDFLAGS=-L$PWD/zlib ./configure --disable-hardware-optimizations --disable-shared --disable-dependency-tracking
    make -j2 pngtest pngstest pngunknown pngvalid
}
check() {
    ./pngtest pngtest.png 2>&1
    ./pngunknown --strict default=discard pngtest.png 2>&1 || echo "status $?"
    ./pngvalid --strict --gamma-threshold 2>&1 || echo "status $?"
    for file in contrib/testpngs/rgb-8*.png contrib/testpngs/palette-[124]*.png; do ./pngstest --strict "$file" 2>&1 || echo "status $?"; done
}
files="pngtest pngstest pngunknown pngvalid pngtest.png contrib/testpngs"
