# curl, with its unit tests that need neither a network nor files, and show no times. They are one program.
tests="1300 1302 1303 1309 1323 1395 1396 1397 1398 1600 1601 1602 1603 1605 1606 1607 1608 1609 1610 1611 1612 1614 1615 1616 1620 1650 1651
    1652 1653 1655 1656 1657 1658 1661 1663 1664 1979 1980 2601 2602 2603 3205 3211 3212 3213"
build() {
    ./configure --disable-shared --enable-debug --enable-test-bundles --without-ssl --without-libpsl --without-zlib --disable-ldap \
        --without-brotli --without-zstd --without-nghttp2 --without-libidn2 --disable-docs --disable-dependency-tracking
    make -C lib -j2 libcurlu.la
    make -C tests/unit units
}
check() {
    for test in $tests; do
        tests/unit/units unit$test - 2>&1 || return
    done
}
files="tests/unit/units"
