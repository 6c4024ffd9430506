# Expat, an XML parser, with its suite.
build() {
    cmake -S expat -B build -DEXPAT_SHARED_LIBS=OFF -DEXPAT_BUILD_TOOLS=OFF -DEXPAT_BUILD_EXAMPLES=OFF
    make -C build -j2 runtests
}
check() { build/tests/runtests; }
files="build/tests/runtests"
