# {fmt}, a C++ library for formatting, with programs of its suite. They need GoogleTest, which Debian's package is without.
needs=googletest
tests="args-test assert-test color-test core-test gtest-extra-test ostream-test printf-test"
build() {
    mkdir test/gtest
    cat >test/gtest/CMakeLists.txt <<CMAKE
add_library(gtest STATIC $LIBRARIES/googletest/googletest/src/gtest-all.cc $LIBRARIES/googletest/googlemock/src/gmock-all.cc)
target_include_directories(gtest PUBLIC $LIBRARIES/googletest/googletest/include $LIBRARIES/googletest/googlemock/include
    PRIVATE $LIBRARIES/googletest/googletest $LIBRARIES/googletest/googlemock)
CMAKE
    cmake -S . -B build -DFMT_DOC=OFF
    make -C build -j2 $tests
}
check() {
    cd build/bin
    for test in $tests; do
        [ ! -x $test ] || ./$test --gtest_print_time=0 2>&1 || echo "status $?"
    done
    echo done
}
files="build/bin"
levels="-O0 -O1"
