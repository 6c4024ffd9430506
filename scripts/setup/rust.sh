# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by scripts/setup.sh: which Rust there is, and what it lacks.

rust_targets=(x86_64-unknown-none aarch64-unknown-none-softfloat riscv64imac-unknown-none-elf)
# Guest programs that compute with floating point.
rust_float_targets=(aarch64-unknown-none riscv64gc-unknown-none-elf)

# The first Rust that is new enough: of PATH, of rustup's usual place, of the last set-up (this call may have been given
# another environment), of Debian; looks first in the directory given.
find_rust() {
    local dir last=
    # The highest that a crate of this project names.
    rust_min=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root"/Cargo.toml "$root"/*/*/Cargo.toml | sort -V | tail -n 1)
    rust_dir=
    rust_version=
    [[ ! -r $state/rust ]] || last=$(<"$state/rust")
    for dir in "${1-$(dirname "$(type -P rustc || echo /usr/bin/rustc)")}" "${CARGO_HOME:-${HOME-}/.cargo}/bin" "$last" /usr/bin; do
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
    for target in "$@"; do has_target "$target" || return; done
}

has_tool() { run_rust cargo "$1" --version >/dev/null 2>&1; }

has_tools() { [[ $level != test ]] || { has_tool fmt && has_tool clippy; }; }

has_rustup() { [[ $rust_dir && -x $rust_dir/rustup ]]; }

rustup_adds() {
    run_rust rustup target add "${rust_targets[@]}" >>"$log" 2>&1 || return
    has_tools || run_rust rustup component add rustfmt clippy >>"$log" 2>&1 || return
    has_targets "${rust_targets[@]}" && has_tools
}

# debian_rust CONTEXT: the packages of the Rust that Debian brought or would bring, either the compiler that Debian keeps
# new for building web browsers, or the ordinary one. It has no `core` for bare machines, but the sources of its `core`.
debian_rust() {
    if is_installed rustc && rust_fits /usr/bin || ! at_least "$(candidate "$1" rustc-web)" "$rust_min"; then
        echo rustc cargo rust-src rustfmt rust-clippy lld
    else
        echo rustc-web cargo-web rust-web-src rustfmt-web rust-web-clippy lld
    fi
}

# Builds `core` for the targets that lack it into a sysroot of our own, with the linker where Rust looks for it. A target
# is there as a whole or not at all.
build_sysroot() {
    local source build=$state/sysroot-build libraries target host targets=() vendored=()
    source=$(run_rust rustc --print sysroot)/lib/rustlib/src/rust/library
    host=$(run_rust rustc -vV | sed -n 's/^host: //p')
    [[ $sysroot ]] || rm -rf "$state/sysroot"
    for target in "${rust_targets[@]}"; do has_target "$target" || targets+=("$target"); done
    say "building Rust's core library for ${targets[*]} (once, a few minutes)"
    rm -rf "$build" && mkdir -p "$build" "$state/sysroot/lib/rustlib/$host/bin"
    printf '[package]\nname = "bare"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n' >"$build/Cargo.toml"
    echo '#![no_std]' >"$build/lib.rs"
    # Newer source packages bring their dependencies along; older ones need the crate registry.
    [[ ! -d $source/vendor ]] || vendored=(
        --offline --config 'source.crates-io.replace-with="vendored"' --config "source.vendored.directory=\"$source/vendor\""
    )
    # `core` is stable, but building it is an unstable feature of cargo: the first variable allows it here only.
    # Kernels are optimised at link time together with `core`, so its bitcode is kept.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cembed-bitcode=yes CARGO_TARGET_DIR=$build/target CARGO_PROFILE_RELEASE_DEBUG=0 \
        run_rust cargo build --release --manifest-path "$build/Cargo.toml" "${vendored[@]}" "${targets[@]/#/--target=}" \
        -Zbuild-std=core,alloc,compiler_builtins -Zbuild-std-features=compiler-builtins-mem >>"$log" 2>&1 ||
        fail "building Rust's core library failed" with-log
    for target in "${targets[@]}"; do
        libraries=$build/target/$target/release/deps
        rm "$libraries"/libbare-* && mkdir -p "$build/done/$target/lib" && mv "$libraries"/*.rlib "$build/done/$target/lib"
        rm -rf "$state/sysroot/lib/rustlib/$target" && mv "$build/done/$target" "$state/sysroot/lib/rustlib/$target"
    done
    ln -sf "$(command -v ld.lld)" "$state/sysroot/lib/rustlib/$host/bin/rust-lld"
    rm -rf "$build"
    echo "$rust_version" >"$state/sysroot/rustc-version"
    sysroot=$state/sysroot
}
