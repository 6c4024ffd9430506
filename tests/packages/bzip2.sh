# bzip2, with the samples of its `make test`, and a damaged file.
build() { make CC="$CC" AR="$AR" RANLIB="$RANLIB" bzip2 bzip2recover; }
check() {
    for level in 1 2 3; do
        ./bzip2 -$level <sample$level.ref | cmp - sample$level.bz2 && echo same
    done
    ./bzip2 -d <sample1.bz2 | cmp - sample1.ref && ./bzip2 -d <sample2.bz2 | cmp - sample2.ref && echo same
    ./bzip2 -ds <sample3.bz2 | cmp - sample3.ref && echo same
    head -c 20000 sample1.bz2 >cut.bz2
    ./bzip2 -t cut.bz2 2>&1 || echo "status $?"
    ./bzip2recover cut.bz2 2>&1 | sed 1d
}
files="bzip2 bzip2recover sample1.bz2 sample1.ref sample2.bz2 sample2.ref sample3.bz2 sample3.ref"
