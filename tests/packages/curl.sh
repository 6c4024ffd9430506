# curl, with its unit tests that need no network.
tests="unit1300 unit1302 unit1303 unit1304 unit1309 unit1323 unit1395 unit1396 unit1397 unit1398 unit1399 unit1601 unit1602 unit1603 unit1605
    unit1606 unit1608 unit1609 unit1611 unit1612 unit1614 unit1616 unit1650 unit1651 unit1652 unit1653 unit1655 unit1656 unit1657
    unit1660 unit1661 unit2601 unit2602 unit2603 unit3200 unit3205"
build() {
    ./configure --disable-shared --enable-debug --enable-test-bundles --without-ssl --without-libpsl --without-zlib --disable-ldap
    make -j2 -C lib
    make -j2 -C src
    make -j2 -C tests/unit
}
check() {
    for test in $tests; do
        tests/unit/units $test - 2>&1
        echo "$test $?"
    done
}
files="tests/unit/units"
