# MicroPython, with a part of its suite. Its collector of garbage looks for pointers on the stack, and it is told not to choose types by the
# instruction set: for registers, for digits of large integers, for machine code of its own.
python="ports/unix/build-standard/micropython"
build() {
    same="-DMICROPY_NLR_SETJMP=1 -DMICROPY_GCREGS_SETJMP=1 -DMPZ_DIG_SIZE=16"
    set -- -j2 CC="$CC" STRIP= LDFLAGS_EXTRA=-Wl,-z,one-stack
    make -C mpy-cross "$@" CFLAGS_EXTRA="$same"
    # Without what other projects' sources are needed for.
    make -C ports/unix "$@" CFLAGS_EXTRA="$same -DMICROPY_EMIT_X64=0" FROZEN_MANIFEST= MICROPY_PY_BTREE=0 MICROPY_PY_FFI=0 \
        MICROPY_PY_SSL=0 MICROPY_ROM_TEXT_COMPRESSION=0
}
check() {
    cd tests/basics
    for kind in async class closure dict exception gc gen int_big memoryerror special subclass try with; do
        for test in $kind*.py; do
            echo "-- $test"
            [ ! -x ../../$python ] || ../../$python $test 2>&1 || echo "status $?"
        done
    done
    [ ! -x ../../mpy-cross/build/mpy-cross ] || for test in fun*.py list*.py string*.py; do
        ../../mpy-cross/build/mpy-cross -o code.mpy $test 2>&1 && md5sum <code.mpy
    done
}
files="$python mpy-cross/build/mpy-cross tests/basics"
