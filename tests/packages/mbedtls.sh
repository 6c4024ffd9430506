# Mbed TLS, with its suites and its program of tests. For RISC-V its numbers have 32 bits where the others' have 64, if nothing else is said.
build() {
    python3 scripts/config.py unset MBEDTLS_HAVE_ASM
    python3 scripts/config.py unset MBEDTLS_PADLOCK_C
    export CFLAGS="-O2 -DMBEDTLS_HAVE_INT64"
    make -j2 CC="$CC" AR="$AR" lib
    make -j2 -C programs CC="$CC" test/selftest
    make -j2 -C tests CC="$CC"
}
check() {
    # Without what measures time.
    programs/test/selftest | sed '/TIMING/,/^$/d'
    cd tests
    for test in test_suite_*; do
        [ ! -x $test ] || ./$test | tail -n 1
    done
}
files="programs/test/selftest tests/test_suite_* tests/data_files"
