# Abseil, with its suite of what the rest is based on.
needs=googletest
tests="absl_atomic_hook_test absl_bit_cast_test absl_errno_saver_test absl_throw_delegate_test absl_inline_variable_test absl_invoke_test
    absl_endian_test absl_config_test absl_call_once_test absl_low_level_alloc_test absl_scoped_set_env_test absl_log_severity_test
    absl_strerror_test absl_fast_type_id_test absl_prefetch_test"
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
