# cJSON, with its suite.
build() {
    cmake -S . -B build -DBUILD_SHARED_LIBS=OFF -DENABLE_CJSON_UTILS=ON -DENABLE_CUSTOM_COMPILER_FLAGS=OFF
    make -C build -j2
}
check() {
    cd build/tests
    for test in *_tests *_add parse_* print_* compare_* readme_examples minify_tests; do
        [ ! -x "$test" ] || ./"$test" || echo "status $?"
    done
}
files="build/tests"
