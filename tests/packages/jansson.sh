# Jansson, a JSON library, with its suite.
build() {
    cmake -S . -B build -DJANSSON_BUILD_SHARED_LIBS=OFF -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF
    make -C build -j2
}
check() {
    for test in build/bin/test_*; do
        echo "-- $test"
        $test || echo "status $?"
    done
    # What is valid is written again, of what is not the error is told.
    [ ! -x build/bin/json_process ] || for test in test/suites/valid/*/ test/suites/invalid/*/; do
        echo "-- $test"
        (cd "$test" && JSON_SORT_KEYS=1 ../../../../build/bin/json_process --strip --env <input 2>&1) || echo "status $?"
    done
}
files="build/bin test/suites"
