# QuickJS, with its suite, but for modules that are shared libraries. It measures its stack by addresses.
build() { make -j2 CONFIG_LTO= CONFIG_CLANG=y HOST_CC=cc CC="$CC" AR="$AR" EXTRA_LIBS=-Wl,-z,one-stack qjs; }
check() {
    for test in closure language builtin loop bigint std; do
        echo "-- $test"
        ./qjs --std tests/test_$test.js || echo "status $?"
    done
    ./qjs tests/test_cyclic_import.js || echo "status $?"
}
files="qjs tests"
