# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by scripts/setup.sh: what tests and experiments fetch when they first need it. Nothing of it is installed.

# The Go module that has musl's tests among its own, with its checksum as in a go.sum.
libc_test=modernc.org/libc@v1.61.0
libc_test_sum=h1:eGFcvWpqlnoGwzZeZe3PWJkkKbM/3SUGyk1DVZQ0TpE=

# Debian's kernel that a test starts, by its file below pool/main and its checksum: it is found without the archive's indexes, which a
# mirror may be about to change.
declare -A known_file=([linux-image-riscv64:riscv64]=l/linux/linux-image-6.12.107+deb13-riscv64_6.12.107-1_riscv64.deb)
declare -A known_sum=([linux-image-riscv64:riscv64]=abe9f65d74b434692149482b031db7a2aaf832921e09f69f775293c0e0c5799c)

# Tests and experiments that need the same at the same time fetch it one after the other, in the same folders.
fetch_alone() {
    mkdir -p "$state"
    exec 8>"$state/fetch.lock"
    flock --nonblock 8 || { say "waiting for another download to end" && flock 8; }
}

# What experiments compare with, for instance Debian's kernels. DIR must exist. A package that only stands for the newest
# version of a kernel (linux-image-arm64) is replaced by the one that it stands for.
fetch_packages() {
    local folder=$1 wanted=("${@:2}") work=$state/fetch context=$state/fetch/apt.conf package unknown=()
    fetch_alone
    log=$state/fetch.log && : >"$log"
    needs_debian "the packages ${wanted[*]}, as .deb files in $folder"
    context_of_debian "$work" "${wanted[@]##*:}"
    mkdir -p "$work/new"
    for package in "${wanted[@]}"; do download_known_package "$context" "$work/new" "$package" || unknown+=("$package"); done
    [[ ${#unknown[@]} -eq 0 ]] || download_newest_packages "$context" "$work/new" "${unknown[@]}"
    # Each is there as a whole or not at all.
    mv -t "$folder" "$work"/new/*.deb
    rm -rf "$work"
}

# fetch_shown DIR: the programs of tests/shown/packages, unless DIR has them: DIR/root is to be laid over a machine's root. Each
# architecture's programs are in programs/ARCHITECTURE there, as they have the same names.
fetch_shown() {
    local folder=$1 list=$root/tests/shown/packages new=$1/new package file sum wanted=()
    ! cmp -s "$list" "$folder/packages" || return 0
    while read -r package file sum; do
        known_file[$package]=$file known_sum[$package]=$sum wanted+=("$package")
    done < <(grep -v '^#' "$list")
    mkdir -p "$folder"
    # Another test may have fetched them meanwhile.
    fetch_alone
    ! cmp -s "$list" "$folder/packages" || return 0
    rm -rf "$new" "$folder/root" "$folder/packages" && mkdir -p "$new"/{deb,root}
    download_shown "$new/deb" "${wanted[@]}"
    unpack_shown "$new/deb" "$new/root"
    mv "$new/root" "$folder/root"
    rm -rf "$new"
    cp "$list" "$folder/packages"
}

# download_shown DIR PACKAGE:ARCHITECTURE...: files with known checksums all at once; what the archive no longer has, in its newest version.
download_shown() {
    local folder=$1 context=$state/shown/apt.conf package file uri files=() left=()
    log=$state/fetch.log && : >"$log"
    needs_debian "the packages of tests/shown/packages, unpacked in $folder"
    context_of_debian "$state/shown" amd64 arm64 riscv64
    uri=$(debian_uri)/pool/main
    say "fetching $(($# - 1)) packages of programs that tests show"
    for package in "${@:2}"; do
        file=${known_file[$package]}
        files+=("$uri/$file" "$folder/${file##*/}" "SHA256:${known_sum[$package]}")
    done
    PATH=$PATH:/usr/lib/apt apt_command "$context" apt-helper download-file "${files[@]}" >>"$log" 2>&1 ||
        say "not all packages are there with the known checksums (more in $log)"
    for package in "${@:2}"; do
        file=$folder/$(basename "${known_file[$package]}")
        sha256sum --check --status <<<"${known_sum[$package]}  $file" 2>/dev/null || { rm -f "$file" && left+=("$package"); }
    done
    [[ ${#left[@]} -eq 0 ]] || download_newest_packages "$context" "$folder" "${left[@]}"
    rm -rf "$state/shown"
}

# unpack_shown DEBS ROOT: all but what programs do not need.
unpack_shown() {
    local deb architecture folder one=$2.one
    for deb in "$1"/*.deb; do
        architecture=${deb##*_} && architecture=${architecture%.deb}
        rm -rf "$one" && mkdir "$one"
        dpkg-deb -x "$deb" "$one"
        rm -rf "$one"/usr/share/{bash-completion,doc,info,lintian,locale,man} "$one"/usr/lib/*/gconv
        for folder in "$one"/usr/{bin,sbin,lib/git-core}; do
            [[ ! -d $folder ]] || { mkdir -p "$2/programs/$architecture" && cp -a "$folder/." "$2/programs/$architecture"; }
        done
        rm -rf "$one"/usr/{bin,sbin,lib/git-core}
        cp -a "$one/." "$2"
    done
    rm -rf "$one"
}

# download_newest_packages CONTEXT DIR PACKAGE:ARCHITECTURE...
download_newest_packages() {
    local context=$1 folder=$2 package newest packages=()
    run_apt "$context" update
    for package in "${@:3}"; do
        newest=$(apt_command "$context" apt-cache show "$package" 2>>"$log" | sed -n 's/^Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1)
        packages+=("${newest:-${package%:*}}:${package##*:}")
    done
    say "fetching with apt: ${packages[*]}"
    (cd "$folder" && run_apt "$context" download "${packages[@]}")
}

# download_known_package CONTEXT DIR PACKAGE:ARCHITECTURE: fails if its file is not known, or the archive no longer has it.
download_known_package() {
    local file=${known_file[$3]:-}
    [[ $file ]] || return 1
    say "fetching ${file##*/}"
    download_file "$1" "$(debian_uri)/pool/main/$file" "$2/${file##*/}" "${known_sum[$3]}" || {
        say "no ${file##*/} with the known checksum there (more in $log); taking the newest version"
        rm -f "$2/${file##*/}"
        return 1
    }
}

# The contrib plugins of the QEMU that is installed, the headers that they need, and Valgrind: contrib/plugins/*.c,
# qemu-plugin.h, glib and valgrind below DIR. Sources of another patch release do if Debian has no others.
fetch_simulators() {
    local folder=$1 work=$state/simulators context=$state/simulators/apt.conf version wanted tar
    fetch_alone
    log=$state/simulators.log && : >"$log"
    needs_debian "QEMU's contrib plugins, GLib's headers and Valgrind, as described in scripts/setup.sh, in $folder"
    context_for_sources "$work"
    run_apt "$context" update
    wanted=$(dpkg-query -W -f '${Version}' qemu-system-x86 2>/dev/null || true)
    version=$(apt_command "$context" apt-cache showsrc qemu 2>>"$log" | sed -n 's/^Version: //p' | closest_version "${wanted:-$(qemu_version qemu-system-x86_64)}")
    [[ $version ]] || fail "Debian's archive has no source of QEMU $(qemu_version qemu-system-x86_64)"
    say "fetching with apt: the source of qemu $version, libglib2.0-dev, valgrind"
    (cd "$work" && run_apt "$context" source --download-only --tar-only "qemu=$version" && run_apt "$context" download libglib2.0-dev valgrind)
    tar=$(echo "$work"/qemu_*.orig.tar.xz)
    mkdir -p "$folder"
    tar -xJf "$tar" -C "$folder" --strip-components=1 --wildcards '*/contrib/plugins/cache.c' '*/qemu-plugin.h' >>"$log" 2>&1 ||
        fail "$tar has no contrib plugins" with-log
    find "$folder/include" -name qemu-plugin.h -exec mv {} "$folder" \;
    dpkg-deb -x "$(echo "$work"/libglib2.0-dev_*.deb)" "$folder/glib"
    dpkg-deb -x "$(echo "$work"/valgrind_*.deb)" "$folder/valgrind"
    echo "$version" >"$folder/version"
    rm -rf "$work"
}

# fetch_libraries DIR NAME...: sources of libraries and programs that tests build, as DIR/NAME, if they are not there: musl's
# tests (libc-test), the Open POSIX Test Suite (posixtestsuite), and what has a recipe in tests/packages.
fetch_libraries() {
    local folder=$1 name
    fetch_alone
    mkdir -p "$folder"
    log=$state/libraries.log && : >"$log"
    for name in "${@:2}"; do
        if [[ -e $folder/$name ]]; then
            continue
        elif [[ $name == libc-test ]]; then
            fetch_libc_test "$folder"
        else
            fetch_debian_library "$folder" "$name"
        fi
    done
}

# Debian's names of source packages, where they are others than the recipes'.
declare -A debian_source=([abseil]=abseil [fmt]=fmtlib [libpng]=libpng1.6 [lua]=lua5.1 [nlohmann_json]=nlohmann-json3 [sqlite]=sqlite3 [zstd]=libzstd)

# fetch_debian_library DIR NAME
fetch_debian_library() {
    local folder=$1 name=$2 package=${debian_source[$2]:-$2} work=$state/libraries context=$state/libraries/apt.conf
    needs_debian "the source of $package, in $folder/$name"
    context_for_sources "$work"
    run_apt "$context" update
    # Debian 13 has some that Debian 12 has not.
    if [[ $codename == bookworm ]] && ! apt_command "$context" apt-cache showsrc --only-source "$package" 2>>"$log" | grep '^Package:' >/dev/null; then
        source_line trixie | sed 's/^deb /deb-src /' >>"$work/sources.list"
        run_apt "$context" update
    fi
    say "fetching with apt: the source of $package"
    mkdir "$work/$name"
    (cd "$work" && run_apt "$context" source --download-only --tar-only "$package")
    tar -xf "$(echo "$work/${package}"_*.orig.tar.*)" -C "$work/$name" --strip-components=1 >>"$log" 2>&1 ||
        fail "the source package of $package is not as expected" with-log
    [[ $name != sqlite ]] || join_sqlite "$work" "$context"
    # It is there as a whole or not at all.
    mv "$work/$name" "$folder"
    rm -rf "$work"
}

# join_sqlite DIR CONTEXT: SQLite's sources become one file, which its makefile does with Tcl.
join_sqlite() {
    local work=$1 context=$2 package
    command -v make >/dev/null || fail "SQLite's sources need 'make' (Debian: apt-get install make)"
    mkdir -p "$work"/{tcl,sqlite/build}
    say "fetching with apt: tcl8.6"
    (cd "$work" && run_apt "$context" download tcl8.6 libtcl8.6)
    for package in tcl8.6 libtcl8.6; do dpkg-deb -x "$(echo "$work/${package}"_*.deb)" "$work/tcl"; done
    (
        cd "$work/sqlite/build"
        LD_LIBRARY_PATH=$(echo "$work"/tcl/usr/lib/*-linux-gnu) TCL_LIBRARY=$work/tcl/usr/share/tcltk/tcl8.6
        # Where Tcl is not installed, it finds its own modules nowhere else.
        TCL8_6_TM_PATH=$TCL_LIBRARY/tcl8
        export LD_LIBRARY_PATH TCL_LIBRARY TCL8_6_TM_PATH
        ../configure --disable-tcl --disable-readline && make TCLSH_CMD="$work/tcl/usr/bin/tclsh8.6" sqlite3.c
    ) >>"$log" 2>&1 || fail "SQLite's sources cannot be joined" with-log
}

# Debian's source package of musl is without its tests; a Go module has them, and brings them through Go's own proxy.
fetch_libc_test() {
    local folder=$1 work=$state/libc-test answer
    command -v go >/dev/null || fail "musl's tests come in a Go module, which 'go' fetches (Debian: apt-get install golang-go)"
    rm -rf "$work" && mkdir -p "$work"
    say "fetching with go: musl's tests, in $libc_test"
    answer=$(cd "$work" && GOPATH=$work/go GOMODCACHE=$work/go/mod GOFLAGS=-modcacherw go mod download -json "$libc_test" 2>>"$log") ||
        { echo "$answer" >>"$log" && fail "go mod download $libc_test failed" with-log; }
    grep -qF "\"Sum\": \"$libc_test_sum\"" <<<"$answer" || fail "$libc_test is not the one with the checksum $libc_test_sum: $answer"
    mv "$work/go/mod/$libc_test/testdata/nsz.repo.hu/libc-test" "$folder" || fail "$libc_test has no libc-test"
    rm -rf "$work"
}

# mdBook, which makes a book of the documents: what is newer could make another one.
mdbook_version=0.5.4

# Builds it below target/docs-tools, if it is not there, and sets `mdbook`. Its watching of files is left out, and what that needs.
fetch_mdbook() {
    local tools=$out/docs-tools
    mdbook=$tools/mdbook-$mdbook_version/bin/mdbook
    [[ ! -x $mdbook ]] || return 0
    fetch_alone
    [[ ! -x $mdbook ]] || return 0
    log=$state/mdbook.log
    say "building mdBook $mdbook_version from crates.io (once, some minutes)"
    # From another folder than the project's, whose settings are for kernels.
    (cd / && run_rust cargo install mdbook --version "$mdbook_version" --locked --no-default-features --features search,serve \
        --root "$tools/partial" --target-dir "$tools/build") >"$log" 2>&1 || fail "mdBook cannot be built" with-log
    rm -rf "$tools/build" "${mdbook%/bin/mdbook}"
    # It is there as a whole or not at all.
    mv "$tools/partial" "${mdbook%/bin/mdbook}"
}

# Of the versions on standard input: the one asked for, or else the newest with the same first two numbers.
closest_version() {
    local all series
    all=$(sort -V)
    series=$(sed 's/^[0-9]*://' <<<"$1" | cut -d. -f1,2)
    grep -Fx -- "$1" <<<"$all" || grep -E "^([0-9]+:)?${series/./\\.}\." <<<"$all" | tail -n 1
}
