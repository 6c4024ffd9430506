# GoogleTest, with programs of its suite.
tests="gtest_pred_impl_unittest googletest-listener-test googletest-filepath-test gtest-typed-test_test gtest_environment_test"
build() {
    cmake -S . -B build -Dgtest_build_tests=ON
    make -C build -j2 $tests
}
check() {
    cd build/googletest
    for test in $tests; do
        [ ! -x $test ] || ./$test --gtest_print_time=0 2>&1 || echo "status $?"
    done
    echo done
}
files="build/googletest"
levels="-O0 -O1"
