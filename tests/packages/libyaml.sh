# libyaml, with its suite, and programs of it that read, write and copy examples.
build() {
    cmake -S . -B build -DBUILD_SHARED_LIBS=OFF
    make -C build -j2
}
check() {
    [ ! -x build/test-version ] || build/test-version || return
    [ ! -x build/test-reader ] || build/test-reader || return
    for file in examples/*.yaml; do
        for program in run-scanner run-parser run-loader run-emitter run-dumper; do
            [ ! -x build/$program ] || build/$program "$file" || echo "status $?"
        done
    done
}
files="build examples"
