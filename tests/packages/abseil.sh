# Abseil, with programs of its suite that need its base and its strings.
needs=googletest
tests="absl_throw_delegate_test absl_endian_test absl_ascii_test absl_strip_test"
build() {
    cmake -S . -B build -DBUILD_TESTING=ON -DABSL_BUILD_TESTING=ON -DABSL_USE_GOOGLETEST_HEAD=OFF \
        -DABSL_LOCAL_GOOGLETEST_DIR="$LIBRARIES/googletest" -DCMAKE_CXX_STANDARD=17
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
