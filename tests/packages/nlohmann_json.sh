# JSON for Modern C++, with programs of its suite that need no further files.
tests="test-algorithms_cpp11 test-class_const_iterator_cpp11 test-merge_patch_cpp11 test-ordered_map_cpp11"
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
