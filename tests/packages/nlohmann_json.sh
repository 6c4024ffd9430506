# JSON for Modern C++, with programs of its suite that need no further files.
tests="test-algorithms_cpp11 test-byte_order_cpp11 test-capacity_cpp11 test-concepts_cpp11 test-json_pointer_cpp11 test-merge_patch_cpp11 test-iterators1_cpp11"
build() {
    cmake -S . -B build -DJSON_BuildTests=ON
    make -C build -j2 $tests
}
check() {
    cd build/tests
    for test in $tests; do
        [ ! -x $test ] || ./$test --no-version || echo "status $?"
    done
    echo done
}
files="build/tests"
levels="-O0 -O1"
