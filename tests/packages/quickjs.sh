# QuickJS, with its suite, but for modules that are shared libraries. It measures its stack by addresses, of which a thread has one
# for each instruction set, so that is switched off.
build() { make -j2 CONFIG_LTO= CONFIG_CLANG=y HOST_CC=cc CC="$CC" AR="$AR" qjs; }
check() {
    for test in closure language builtin loop bigint std; do
        echo "-- $test"
        ./qjs --stack-size 65536G --std tests/test_$test.js || echo "status $?"
    done
    ./qjs --stack-size 65536G tests/test_cyclic_import.js || echo "status $?"
}
files="qjs tests"
