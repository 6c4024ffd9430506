#!/usr/bin/env bash
# Makes this computer able to build and run Motet: QEMU, Rust with the kernels' targets, and the guests' programs.
#
#   scripts/setup.sh run|test|bench    install what is missing
#   scripts/setup.sh --check run|test  only say what is missing
#   scripts/setup.sh --fetch DIR PACKAGE:ARCHITECTURE...  download Debian packages, install nothing
#   scripts/setup.sh --simulators DIR  fetch what other cache simulators are built from or run from, install nothing
#   scripts/setup.sh --libraries DIR   fetch the sources of libraries that tests compile, if missing, install nothing
#
# Package hosts come from this computer's own apt configuration, which is never changed: what needs other suites
# than it names goes through private lists below target/setup. docs/setup.md tells what is installed and why.
set -euo pipefail

root=${MOTET_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
out=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
state=$out/setup
log=$state/setup.log

qemu_min=10.0
qemu_packages=(qemu-system-x86 qemu-system-arm qemu-system-riscv)
# The highest that a crate of this project names.
rust_min=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root"/Cargo.toml "$root"/*/*/Cargo.toml | sort -V | tail -n 1)
isas=(x86_64 aarch64 riscv64)
rust_targets=(x86_64-unknown-none aarch64-unknown-none-softfloat riscv64imac-unknown-none-elf)
# Debian's name of each instruction set.
declare -A debian_arch=([x86_64]=amd64 [aarch64]=arm64 [riscv64]=riscv64)
# The Go module that has musl's tests among its own, with its checksum as in a go.sum.
libc_test=modernc.org/libc@v1.61.0
libc_test_sum=h1:eGFcvWpqlnoGwzZeZe3PWJkkKbM/3SUGyk1DVZQ0TpE=

main() {
    local check=false
    case ${1-} in
        --fetch)
            fetch_packages "${@:2}"
            return
            ;;
        --simulators)
            fetch_simulators "$2"
            return
            ;;
        --libraries)
            fetch_libraries "$2"
            return
            ;;
    esac
    [[ ${1-} != --check ]] || { check=true && shift; }
    level=${1-run}
    # Guest programs that compute with floating point.
    [[ $level == run ]] || rust_targets+=(aarch64-unknown-none riscv64gc-unknown-none-elf)
    mkdir -p "$state"
    find_rust
    if $check; then
        report
        return
    fi
    ! is_ready || return 0
    # Two first calls at the same time: the second waits, then finds everything there.
    exec 9>"$state/lock" && flock 9
    : >"$log"
    [[ $EUID -eq 0 ]] || check_without_root
    set_up_qemu
    set_up_rust
    set_up_guests
    # For the libraries and musl's tests, which tests compile.
    [[ $level != test ]] || command -v make >/dev/null || install_packages make
    [[ $level != test ]] || { command -v cmake && command -v g++; } >/dev/null || install_packages cmake g++
    [[ $level != test ]] || command -v go >/dev/null || install_packages golang-go
    # For the test of `motet run --gdb`.
    [[ $level != test ]] || command -v gdb-multiarch >/dev/null || install_packages gdb-multiarch
    write_env
    stamp >"$state/ready-$level"
}

# ---------------------------------------------------------------------------------------------------------------------
# Knowing that nothing is to be done, without asking apt or cargo

# What an earlier set-up depended on. If this changes, everything is looked at again.
stamp() {
    cksum <"$root/scripts/setup.sh"
    echo "$rust_min"
    command -v "${isas[@]/#/qemu-system-}" || true
    echo "$rust_dir $rust_version"
}

is_ready() {
    [[ -e $state/env && -e $state/ready-$level ]] && guests_present && [[ $(<"$state/ready-$level") == "$(stamp)" ]]
}

# The environment that builds need: which Rust, and where the kernels' `core` is if Rust does not bring it.
write_env() {
    local target name new=$state/env.new
    {
        echo "# Written by scripts/setup.sh."
        printf 'export PATH=%q:$PATH\n' "$rust_dir"
        if [[ ${sysroot-} ]]; then
            # All that were built, whichever level needed them.
            for target in "$sysroot"/lib/rustlib/*/lib; do
                target=$(basename "$(dirname "$target")")
                name=${target^^}
                printf 'export CARGO_TARGET_%s_RUSTFLAGS=%q\n' "${name//-/_}" "--sysroot=$sysroot"
            done
        fi
    } >"$new"
    # Left alone when equal: what is built is checked against its date.
    if cmp --quiet "$new" "$state/env"; then rm "$new"; else mv "$new" "$state/env"; fi
}

# `./motet doctor`: one line for each thing; the exit code says whether all are there.
report() {
    local complete=true
    line() {
        printf '  %-8s %-15s %s\n' "$1" "$2" "$3" >&2
        [[ $1 == ok ]] || complete=false
    }
    local qemu rust target name
    for qemu in "${isas[@]/#/qemu-system-}"; do
        if qemu_fits "$qemu"; then line ok QEMU "$qemu $(qemu_version "$qemu")"; else line missing QEMU "$qemu >= $qemu_min"; fi
    done
    if command -v cc >/dev/null; then line ok linker "$(command -v cc)"; else line missing linker "a C compiler (cc)"; fi
    rust="rustc >= $rust_min with cargo"
    if [[ $rust_dir ]]; then line ok Rust "$rust_version, $rust_dir"; else line missing Rust "$rust"; fi
    for target in "${rust_targets[@]}"; do
        if has_target "$target"; then line ok "Rust target" "$target"; else line missing "Rust target" "$target"; fi
    done
    for name in fmt clippy; do
        if has_tool $name; then line ok "Rust tool" "cargo $name"; else line missing "Rust tool" "cargo $name (for ./motet test)"; fi
    done
    for name in "${isas[@]}"; do
        if [[ -x $out/userland/$name/busybox ]]; then line ok "guest program" "busybox, $name"; else line missing "guest program" "busybox, $name"; fi
    done
    local wheel
    wheel="ziglang $(sed -n 's/^const VERSION: &str = "\(.*\)";$/\1/p' "$root/host/toolchain/src/tools.rs")"
    if [[ -x $out/toolchain/${wheel/ /-}/ziglang/zig ]]; then
        line ok "C compiler" "$wheel, for ./motet cc"
    elif python3 -m pip --version >/dev/null 2>&1; then
        printf '  %-8s %-15s %s\n' later "C compiler" "$wheel: the first ./motet cc fetches it" >&2
    else
        printf '  %-8s %-15s %s\n' later "C compiler" "$wheel: ./motet cc needs python3 with pip to fetch it" >&2
    fi
    $complete || { say "'./motet build' installs what is missing" && return 69; }
}

# ---------------------------------------------------------------------------------------------------------------------
# QEMU

qemu_version() { "$1" --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p'; }

qemu_fits() { command -v "$1" >/dev/null && at_least "$(qemu_version "$1")" "$qemu_min"; }

qemus_fit() {
    local isa
    for isa in "${isas[@]}"; do qemu_fits "qemu-system-$isa" || return; done
}

set_up_qemu() {
    ! qemus_fit || return 0
    needs_debian "QEMU >= $qemu_min (${isas[*]/#/qemu-system-})"
    if [[ $codename == bookworm ]]; then
        apt_with_backports
        install_packages -t bookworm-backports "${qemu_packages[@]}"
    else
        install_packages "${qemu_packages[@]}"
    fi
    hash -r
    qemus_fit || fail "one of ${isas[*]/#/qemu-system-} is still older than $qemu_min; is another QEMU in PATH?"
}

# ---------------------------------------------------------------------------------------------------------------------
# Rust

# The first Rust that is new enough: of PATH, of rustup's usual place, of Debian; looks first in the directory given.
find_rust() {
    local dir
    rust_dir=
    rust_version=
    for dir in "${1-$(dirname "$(type -P rustc || echo /usr/bin/rustc)")}" "${CARGO_HOME:-${HOME-}/.cargo}/bin" /usr/bin; do
        if rust_fits "$dir"; then
            rust_dir=$dir
            rust_version=$("$dir/rustc" -V)
            break
        fi
    done
    # The `core` that an earlier set-up built, if it belongs to this compiler.
    sysroot=
    [[ $(cat "$state/sysroot/rustc-version" 2>/dev/null) != "$rust_version" || ! $rust_version ]] || sysroot=$state/sysroot
}

rust_fits() { [[ -x $1/cargo && -x $1/rustc ]] && at_least "$("$1/rustc" -V 2>/dev/null | cut -d' ' -f2)" "$rust_min"; }

# run_rust rustc|cargo|rustup ARGUMENT...
run_rust() { [[ $rust_dir ]] && PATH=$rust_dir:$PATH "$rust_dir/$1" "${@:2}"; }

has_target() {
    [[ $rust_dir ]] || return
    compgen -G "$(run_rust rustc --print target-libdir --target "$1" ${sysroot:+--sysroot "$sysroot"})/libcore-*.rlib" >/dev/null
}

has_targets() {
    local target
    for target in "${rust_targets[@]}"; do has_target "$target" || return; done
}

has_tool() { run_rust cargo "$1" --version >/dev/null 2>&1; }

has_tools() { [[ $level != test ]] || { has_tool fmt && has_tool clippy; }; }

# rustup first, if it is there; then what Debian has, with `core` built from Debian's own Rust sources.
set_up_rust() {
    command -v cc >/dev/null || install_packages gcc libc6-dev
    if ! { has_targets && has_tools; }; then
        if ! rustup_adds; then debian_adds; fi
    fi
    has_targets || fail "Rust ($rust_dir) still lacks one of: ${rust_targets[*]}"
    has_tools || fail "Rust ($rust_dir) still lacks 'cargo fmt' or 'cargo clippy'"
}

rustup_adds() {
    [[ $rust_dir && -x $rust_dir/rustup ]] || return
    say "adding to Rust by rustup: ${rust_targets[*]}"
    run_rust rustup target add "${rust_targets[@]}" >>"$log" 2>&1 || return
    has_tools || run_rust rustup component add rustfmt clippy >>"$log" 2>&1 || return
    has_targets && has_tools
}

# Debian has no `core` for bare machines, but the sources of the `core` that belongs to its compiler.
debian_adds() {
    needs_debian "Rust >= $rust_min with the targets ${rust_targets[*]} (by rustup: 'rustup target add ...')"
    rust_fits /usr/bin || update_lists
    choose_debian_rust
    install_missing "${rust_packages[@]}"
    find_rust /usr/bin
    [[ $rust_dir ]] || fail "Debian's Rust is older than $rust_min here; enable Debian's security updates or install Rust with rustup, then try again"
    has_targets || build_sysroot
}

# The Rust that Debian's packages brought or would bring: either the compiler that Debian keeps new for building web
# browsers, or the ordinary one.
choose_debian_rust() {
    if is_installed rustc && rust_fits /usr/bin || ! at_least "$(candidate rustc-web)" "$rust_min"; then
        rust_packages=(rustc cargo rust-src rustfmt rust-clippy lld)
    else
        rust_packages=(rustc-web cargo-web rust-web-src rustfmt-web rust-web-clippy lld)
    fi
}

# Builds `core` for the kernels' targets into a sysroot of our own, with the linker where Rust looks for it.
build_sysroot() {
    local source build=$state/sysroot-build target host vendored=()
    source=$(run_rust rustc --print sysroot)/lib/rustlib/src/rust/library
    host=$(run_rust rustc -vV | sed -n 's/^host: //p')
    say "building Rust's core library for ${rust_targets[*]} (once, a few minutes)"
    rm -rf "$state/sysroot" "$build" && mkdir -p "$build" "$state/sysroot/lib/rustlib/$host/bin"
    printf '[package]\nname = "bare"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n' >"$build/Cargo.toml"
    echo '#![no_std]' >"$build/lib.rs"
    # Newer source packages bring their dependencies along; older ones need the crate registry.
    [[ ! -d $source/vendor ]] || vendored=(
        --offline --config 'source.crates-io.replace-with="vendored"' --config "source.vendored.directory=\"$source/vendor\""
    )
    # `core` is stable, but building it is an unstable feature of cargo: the first variable allows it here only.
    # Kernels are optimised at link time together with `core`, so its bitcode is kept.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cembed-bitcode=yes CARGO_TARGET_DIR=$build/target CARGO_PROFILE_RELEASE_DEBUG=0 \
        run_rust cargo build --release --manifest-path "$build/Cargo.toml" "${vendored[@]}" "${rust_targets[@]/#/--target=}" \
        -Zbuild-std=core,alloc,compiler_builtins -Zbuild-std-features=compiler-builtins-mem >>"$log" 2>&1 ||
        fail "building Rust's core library failed" with-log
    for target in "${rust_targets[@]}"; do
        mkdir -p "$state/sysroot/lib/rustlib/$target/lib"
        rm "$build/target/$target"/release/deps/libbare-*
        cp "$build/target/$target"/release/deps/*.rlib "$state/sysroot/lib/rustlib/$target/lib"
    done
    ln -s "$(command -v ld.lld)" "$state/sysroot/lib/rustlib/$host/bin/rust-lld"
    rm -rf "$build"
    echo "$rust_version" >"$state/sysroot/rustc-version"
    sysroot=$state/sysroot
}

# ---------------------------------------------------------------------------------------------------------------------
# The guests' programs: Debian's busybox-static of each instruction set, unmodified. Needs no root.

guests_present() {
    local isa
    for isa in "${isas[@]}"; do [[ -x $out/userland/$isa/busybox ]] || return; done
}

set_up_guests() {
    ! guests_present || return 0
    needs_debian "a static busybox of each instruction set, as target/userland/{x86_64,aarch64,riscv64}/busybox"
    local isa deb work=$state/guests
    say "fetching guest programs: Debian's busybox-static for ${isas[*]}"
    rm -rf "$work" && mkdir -p "$work"
    apt_for_guests "$work"
    run_apt update
    (
        cd "$work"
        run_apt download "${debian_arch[@]/#/busybox-static:}"
        echo "# isa package version sha256(package) sha256(busybox)" >MANIFEST
        for isa in "${isas[@]}"; do
            deb=$(echo busybox-static_*_"${debian_arch[$isa]}.deb")
            dpkg-deb -x "$deb" "$isa"
            install -D -m 755 "$(find "$isa" -type f -path '*/bin/busybox')" "$out/userland/$isa/busybox"
            install -D -m 644 "$isa/usr/share/doc/busybox-static/copyright" "$out/userland/$isa/busybox.copyright"
            echo "$isa busybox-static $(dpkg-deb -f "$deb" Version) $(sha256 "$deb") $(sha256 "$out/userland/$isa/busybox")" >>MANIFEST
        done
        mv MANIFEST "$out/userland/MANIFEST"
    )
    rm -rf "$work"
}

# What experiments compare with, for instance Debian's kernels. DIR must exist. A package that only stands for the newest
# version of a kernel (linux-image-arm64) is replaced by the one that it stands for.
fetch_packages() {
    local folder=$1 package newest packages=()
    log=$state/fetch.log
    mkdir -p "$state" && : >"$log"
    needs_debian "the packages ${*:2}, as .deb files in $folder"
    apt_for_guests "$state/fetch"
    run_apt update
    for package in "${@:2}"; do
        newest=$(apt-cache "${apt_options[@]}" show "$package" 2>>"$log" | sed -n 's/^Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1)
        packages+=("${newest:-${package%:*}}:${package##*:}")
    done
    say "fetching with apt: ${packages[*]}"
    (cd "$folder" && run_apt download "${packages[@]}")
    rm -rf "$state/fetch"
}

# The contrib plugins of the QEMU that is installed, the headers that they need, and Valgrind: contrib/plugins/*.c,
# qemu-plugin.h, glib and valgrind below DIR. Sources of another patch release do if Debian has no others.
fetch_simulators() {
    local folder=$1 work=$state/simulators version wanted tar
    mkdir -p "$state"
    log=$state/simulators.log && : >"$log"
    needs_debian "QEMU's contrib plugins, GLib's headers and Valgrind, as described in scripts/setup.sh, in $folder"
    rm -rf "$work" && mkdir -p "$work"
    apt_for_sources "$work"
    run_apt update
    wanted=$(dpkg-query -W -f '${Version}' qemu-system-x86 2>/dev/null || true)
    version=$(apt-cache "${apt_options[@]}" showsrc qemu 2>>"$log" | sed -n 's/^Version: //p' | closest_version "${wanted:-$(qemu_version qemu-system-x86_64)}")
    [[ $version ]] || fail "Debian's archive has no source of QEMU $(qemu_version qemu-system-x86_64)"
    say "fetching with apt: the source of qemu $version, libglib2.0-dev, valgrind"
    (cd "$work" && run_apt source --download-only --tar-only "qemu=$version" && run_apt download libglib2.0-dev valgrind)
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

# The sources of zlib, Lua and SQLite, with their tests, and musl's tests, as DIR/{zlib,lua,sqlite,libc-test}, if they are
# not there.
fetch_libraries() {
    local folder=$1
    mkdir -p "$state" "$folder"
    log=$state/libraries.log && : >"$log"
    [[ -e $folder/zlib && -e $folder/lua && -e $folder/sqlite ]] || fetch_debian_libraries "$folder"
    [[ -e $folder/libc-test ]] || fetch_libc_test "$folder"
}

# SQLite's sources are joined into one file, which its makefile does with Tcl.
fetch_debian_libraries() {
    local folder=$1 work=$state/libraries package
    needs_debian "the sources of zlib, Lua 5.1 and SQLite, as described in scripts/setup.sh, in $folder"
    command -v make >/dev/null || fail "SQLite's sources need 'make' (Debian: apt-get install make)"
    rm -rf "$work" && mkdir -p "$work"/{zlib,lua,sqlite/build,tcl}
    apt_for_sources "$work"
    run_apt update
    say "fetching with apt: the sources of zlib, lua5.1, sqlite3; tcl8.6"
    (cd "$work" && run_apt source --download-only --tar-only zlib lua5.1 sqlite3 && run_apt download tcl8.6 libtcl8.6)
    for package in zlib lua5.1 sqlite3; do
        tar -xf "$(echo "$work/${package}"_*.orig.tar.*)" -C "$work/${package%%[0-9]*}" --strip-components=1 >>"$log" 2>&1 ||
            fail "the source package of $package is not as expected" with-log
    done
    for package in tcl8.6 libtcl8.6; do dpkg-deb -x "$(echo "$work/${package}"_*.deb)" "$work/tcl"; done
    (
        cd "$work/sqlite/build"
        LD_LIBRARY_PATH=$(echo "$work"/tcl/usr/lib/*-linux-gnu) TCL_LIBRARY=$work/tcl/usr/share/tcltk/tcl8.6
        export LD_LIBRARY_PATH TCL_LIBRARY
        ../configure --disable-tcl --disable-readline && make TCLSH_CMD="$work/tcl/usr/bin/tclsh8.6" sqlite3.c
    ) >>"$log" 2>&1 || fail "SQLite's sources cannot be joined" with-log
    mkdir -p "$work/done"/{zlib,lua,sqlite}
    cp -a "$work"/zlib/{*.[ch],test} "$work/done/zlib"
    cp -a "$work"/lua/{src,test} "$work/done/lua"
    cp -a "$work"/sqlite/{build/sqlite3.[ch],test/speedtest1.c} "$work/done/sqlite"
    # Each is there as a whole or not at all.
    rm -rf "$folder"/{zlib,lua,sqlite} && mv "$work"/done/* "$folder"
    rm -rf "$work"
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

# Of the versions on standard input: the one asked for, or else the newest with the same first two numbers.
closest_version() {
    local all series
    all=$(sort -V)
    series=$(sed 's/^[0-9]*://' <<<"$1" | cut -d. -f1,2)
    grep -Fx -- "$1" <<<"$all" || grep -E "^([0-9]+:)?${series/./\\.}\." <<<"$all" | tail -n 1
}

sha256() { sha256sum "$1" | cut -d' ' -f1; }

# ---------------------------------------------------------------------------------------------------------------------
# apt

# Options that every apt-get call gets; with apt_for_guests or apt_with_backports, also other sources.
apt_options=(-o DPkg::Lock::Timeout=300)
lists_updated=false

run_apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y "${apt_options[@]}" "$@" >>"$log" 2>&1 || fail "apt-get $* failed" with-log; }

update_lists() {
    $lists_updated || [[ $EUID -ne 0 ]] || run_apt update
    lists_updated=true
}

install_packages() {
    needs_debian "the packages: $*"
    say "installing with apt: $*"
    update_lists
    run_apt install --no-install-recommends "$@"
}

install_missing() {
    local package missing=()
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] || install_packages "${missing[@]}"
}

is_installed() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'; }

candidate() { apt-cache "${apt_options[@]}" policy "$1" | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'; }

# This computer's own entry for Debian, as `URI SUITE`: the first whose release file says Debian, or, before the first
# `apt-get update`, the first with Debian's suite name.
debian_entry() {
    local fields='$(REPO_URI) $(RELEASE) $(COMPONENT)' names="$codename|stable|oldstable|testing|unstable|sid"
    {
        apt-get indextargets --format "$fields \$(ORIGIN)/\$(LABEL)" 'Created-By: Packages' | grep ' Debian/Debian$' || true
        apt-get indextargets --no-release-info --format "$fields" 'Created-By: Packages'
    } | awk -v names="^($names)\$" '$2 ~ names && $3 == "main" { print $1, $2; exit }'
}

# One line for a suite of the same mirror, believed by the same keys that came with Debian.
source_line() {
    local uri suite key option=
    read -r uri suite < <(debian_entry) || fail "apt knows no Debian main archive; see /etc/apt/sources.list*"
    for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        [[ ! -e $key ]] || option="[signed-by=$key] "
    done
    echo "deb $option$uri ${1:-$suite} main"
}

# From here on apt sees only Debian's archive, for all three instruction sets, with its files below DIR.
# Debian 12 has no riscv64; Debian 13 on the same mirror has.
apt_for_guests() {
    local suite=
    [[ $codename != bookworm ]] || suite=trixie
    mkdir -p "$1"/{lists,cache}/partial
    : >"$1/status"
    source_line "$suite" >"$1/sources.list"
    apt_options=(
        -o APT::Sandbox::User=root -o APT::Architectures="$(echo "${debian_arch[@]}" | tr ' ' ,)"
        -o Dir::State="$1" -o Dir::State::lists="$1/lists" -o Dir::State::status="$1/status" -o Dir::Cache="$1/cache"
        -o Dir::Etc::SourceList="$1/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    )
}

# From here on apt sees only Debian's archive of this computer's own release, sources included, with its files below DIR.
apt_for_sources() {
    apt_for_guests "$1"
    {
        source_line ''
        [[ $codename != bookworm ]] || source_line bookworm-backports
    } | sed 'p; s/^deb /deb-src /' >"$1/sources.list"
    apt_options+=(-o APT::Architectures="$(dpkg --print-architecture)")
}

# From here on apt sees this computer's sources and, if they lack it, Debian 12's backports.
apt_with_backports() {
    local work=$state/backports
    ! apt-get indextargets --no-release-info --format '$(RELEASE)' | grep -qx bookworm-backports || return 0
    rm -rf "$work" && mkdir -p "$work"/{sources,lists/partial}
    source_line bookworm-backports >"$work/sources/motet-backports.list"
    find /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) -exec cp -t "$work/sources" {} +
    apt_options+=(-o APT::Sandbox::User=root -o Dir::State::lists="$work/lists" -o Dir::Etc::SourceParts="$work/sources")
    lists_updated=false
}

# ---------------------------------------------------------------------------------------------------------------------
# Talking to the person

say() { echo "motet: $*" >&2; }

# fail MESSAGE [with-log]: says why, and stops with the exit code for "something needed is unavailable".
fail() {
    say "$1"
    [[ ${2-} != with-log ]] || { tail -n 15 "$log" | sed 's/^/    /' >&2 && say "all of it: $log"; }
    exit 69
}

needs_debian() {
    local VERSION_CODENAME='' VERSION_ID='' ID='' PRETTY_NAME=''
    [[ ! -e /etc/os-release ]] || . /etc/os-release
    codename=$VERSION_CODENAME
    [[ $ID == debian && ${VERSION_ID:-13} -ge 12 ]] && command -v apt-get >/dev/null && return
    say "Motet sets itself up on Debian 12 and later; this is ${PRETTY_NAME:-an unknown system}."
    fail "Here, please install yourself: $1. Then run the same command again."
}

# Without root: what only root can install, all at once, or nothing if there is nothing.
check_without_root() {
    local packages=() qemu=() package
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    if ! { has_targets && has_tools; } && ! rustup_adds; then
        needs_debian "Rust >= $rust_min with the targets ${rust_targets[*]} (by rustup: 'rustup target add ...')"
        choose_debian_rust
        for package in "${rust_packages[@]}"; do is_installed "$package" || packages+=("$package"); done
    fi
    qemus_fit || qemu=("${qemu_packages[@]}")
    [[ ${#packages[@]} -gt 0 || ${#qemu[@]} -gt 0 ]] || return 0
    needs_debian "QEMU >= $qemu_min (${isas[*]/#/qemu-system-}), a C compiler and Rust >= $rust_min"
    say "some packages are missing, and installing them needs root. Either run this once as root, or have installed:"
    if [[ ${#qemu[@]} -gt 0 && $codename == bookworm ]]; then
        say "  QEMU is too old in Debian 12 itself; with this line in a file of /etc/apt/sources.list.d, and after apt-get update:"
        say "    $(source_line bookworm-backports)"
        say "    apt-get install --no-install-recommends -t bookworm-backports ${qemu[*]}"
        qemu=()
    fi
    [[ ${#packages[@]} -eq 0 && ${#qemu[@]} -eq 0 ]] ||
        say "    apt-get install --no-install-recommends ${packages[*]} ${qemu[*]}"
    fail "then try again; once they are there, root is not needed."
}

# Versions: at_least 10.0.2 10.0
at_least() { [[ ${1-} && $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

main "$@"
