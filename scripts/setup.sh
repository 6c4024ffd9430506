#!/usr/bin/env bash
# Makes this computer able to build and run Motet: QEMU, Rust with the kernels' targets, and the guests' programs.
#
#   scripts/setup.sh run|bench|test          install what is missing
#   scripts/setup.sh --no-build run|bench|test  the same, but leave Rust's core library to a later call
#   scripts/setup.sh --check run|bench|test  only say what is missing
#   scripts/setup.sh --fetch DIR PACKAGE:ARCHITECTURE...  download Debian packages, install nothing
#   scripts/setup.sh --shown DIR     fetch the programs that tests show, unless DIR has them, install nothing
#   scripts/setup.sh --simulators DIR  fetch what other cache simulators are built from or run from, install nothing
#   scripts/setup.sh --libraries DIR NAME...  fetch the sources of libraries that tests build, if missing, install nothing
#
# Package hosts come from this computer's own apt configuration, which is never changed: what needs other suites
# than it names goes through private lists below target/setup. docs/setup.md tells what is installed and why.
# `motet` sources this file, so that a signal to it meets the shell that installs.
set -euo pipefail

root=${MOTET_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
out=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
state=$out/setup
log=$state/setup.log

# shellcheck source=scripts/setup/apt.sh
. "$root/scripts/setup/apt.sh"
# shellcheck source=scripts/setup/rust.sh
. "$root/scripts/setup/rust.sh"
# shellcheck source=scripts/setup/guests.sh
. "$root/scripts/setup/guests.sh"
# shellcheck source=scripts/setup/fetch.sh
. "$root/scripts/setup/fetch.sh"

qemu_min=10.0
qemu_packages=(qemu-system-x86 qemu-system-arm qemu-system-riscv)
isas=(x86_64 aarch64 riscv64)
# Debian's name of each instruction set.
declare -A debian_arch=([x86_64]=amd64 [aarch64]=arm64 [riscv64]=riscv64)

# What a level needs beyond the one before it, as COMMAND:PACKAGE.
bench_tools=(xz:xz-utils)
# Packages and musl's tests are compiled and profiled, and C++ and Go programs built; gdb is for `motet run --gdb`, ssh logs in.
test_tools=(make:make cmake:cmake autoreconf:autoconf aclocal:automake libtoolize:libtool g++:g++ go:golang-go nm:binutils gprof:binutils gdb-multiarch:gdb-multiarch ssh:openssh-client)

setup_main() {
    case ${1-} in
        --fetch) fetch_packages "${@:2}" ;;
        --shown) fetch_shown "$2" ;;
        --simulators) fetch_simulators "$2" ;;
        --libraries) fetch_libraries "${@:2}" ;;
        --check)
            choose_level "${2-run}"
            report
            ;;
        --no-build) set_up "${2-run}" --no-build ;;
        *) set_up "${1-run}" ;;
    esac
}

# ---------------------------------------------------------------------------------------------------------------------
# Levels: `run`, which needs the least, `bench` and `test`

choose_level() {
    level=$1
    [[ $level =~ ^(run|bench|test)$ ]] || { say "there is no level '$level' of setting up" && exit 64; }
    # Guest programs that compute with floating point.
    [[ $level == run ]] || rust_targets+=("${rust_float_targets[@]}")
    find_qemus
    find_rust
}

# set_up LEVEL [--no-build]: installs what is missing. All that apt installs comes first, in one go.
set_up() {
    choose_level "$1"
    ! is_ready "$level" || return 0
    may_write || fail "$out is not $(id -un)'s to write"
    # Two first calls at the same time: the second waits, then finds everything there.
    exec 9>"$state/lock"
    flock --nonblock 9 || { say "waiting for another set-up to end" && flock 9; }
    if ! is_ready "$level"; then
        : >"$log"
        install_missing rustup || install_missing debian
        qemus_fit || fail "one of ${isas[*]/#/qemu-system-} is still older than $qemu_min; is another QEMU in PATH?"
        set_up_guests
        [[ ${2-} == --no-build ]] || finish
    fi
    exec 9>&-
}

# Builds what only can be built, and leaves the stamps that make later calls quick.
finish() {
    local done=(run) each
    has_targets "${rust_targets[@]}" || build_sysroot
    has_targets "${rust_targets[@]}" || fail "Rust ($rust_dir) still lacks one of: ${rust_targets[*]}"
    has_tools || fail "Rust ($rust_dir) still lacks 'cargo fmt' or 'cargo clippy'"
    write_env
    [[ $level == run ]] || done+=(bench)
    [[ $level != test ]] || done+=(test)
    for each in "${done[@]}"; do stamp >"$state/ready-$each"; done
}

# Whether this user may change what is set up and built.
may_write() { mkdir -p "$state" 2>/dev/null && [[ -w $out && -w $state ]]; }

# What an earlier set-up depended on. If this changes, everything is looked at again, but neither apt nor cargo are asked
# as long as it does not.
stamp() {
    stamp_of_runs
    echo "$rust_min"
    echo "$rust_dir $rust_version"
}

# The part of the stamp that matters to what is built already.
stamp_of_runs() {
    cat "$root"/scripts/setup.sh "$root"/scripts/setup/*.sh | cksum
    command -v "${isas[@]/#/qemu-system-}" || true
}

is_ready() { [[ -r $state/env && -r $state/ready-$1 ]] && guests_present && [[ $(<"$state/ready-$1") == "$(stamp)" ]]; }

# Whether what is built can run, and the set-up is as it was.
is_runnable() { [[ -r $state/ready-run ]] && guests_present && [[ $(<"$state/ready-run") == "$(stamp_of_runs)"* ]]; }

# The environment that builds need: which Rust, and where the kernels' `core` is if Rust does not bring it. Beside it, for
# calls with another environment, where Rust and the QEMUs were found.
write_env() {
    local target name qemu new=$state/env.new
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
    echo "$rust_dir" >"$state/rust"
    for qemu in "${isas[@]/#/qemu-system-}"; do dirname "$(command -v "$qemu")"; done | sort -u | paste -sd : >"$state/qemu"
}

# QEMUs are found where the set-up found them, too; there first in an environment without PATH, which bash then has one for.
find_qemus() {
    [[ -r $state/qemu ]] || return 0
    if [[ ${PATH@a} == *x* ]]; then PATH=$PATH:$(<"$state/qemu"); else PATH=$(<"$state/qemu"):$PATH; fi
    export PATH
}

# ---------------------------------------------------------------------------------------------------------------------
# What is missing, and installing it

# install_missing rustup|debian: what only apt or rustup can bring, after saying so. Where both can bring Rust's targets,
# rustup does, unless `debian` is named; fails if it cannot download.
install_missing() {
    local by=$1 context=$own_apt packages=() backports=() missing=() rustup=false
    has_rustup || by=debian
    read_os
    find_missing
    if [[ ${#packages[@]} -gt 0 || ${#backports[@]} -gt 0 ]]; then
        needs_debian "$(join_words "${missing[@]}")"
        [[ $EUID -eq 0 ]] || explain_without_root
        if [[ ${#backports[@]} -gt 0 ]]; then
            context=$state/backports/apt.conf
            context_with_backports "$state/backports"
        fi
        # Before the first update, apt does not know what it could install.
        run_apt "$context" update
        find_missing
        for_packages announce_packages
    fi
    ! $rustup || say "adding to Rust by rustup: ${rust_targets[*]}"
    if [[ ${#missing[@]} -gt 0 ]] || $rustup; then consent; fi
    if [[ ${#packages[@]} -gt 0 || ${#backports[@]} -gt 0 ]]; then
        repair_packages
        for_packages install_packages
        hash -r
    fi
    if $rustup; then
        rustup_adds || { say "rustup cannot add them; taking Debian's Rust" && return 1; }
    elif ! has_targets "${rust_targets[@]}"; then
        find_rust /usr/bin
        [[ $rust_dir ]] || fail "Debian's Rust is older than $rust_min here; enable Debian's security updates or install Rust with rustup, then try again"
    fi
}

# for_packages announce_packages|install_packages: for what comes from Debian 12's backports, and for the rest. For install_missing, whose variables these are.
for_packages() {
    [[ ${#backports[@]} -eq 0 ]] || "$1" "$context" "${backports[@]}"
    [[ ${#packages[@]} -eq 0 ]] || "$1" "$context" "${packages[@]}"
}

# Fills `packages` and `backports`, what they are needed for in `missing`, and sets `rustup` if that is to bring something;
# for install_missing, whose variables these are.
find_missing() {
    local tool tools=() package
    packages=() backports=() missing=() rustup=false
    qemus_fit || need "QEMU >= $qemu_min (${isas[*]/#/qemu-system-})" "${qemu_packages[@]}"
    # Debian 12's own QEMU is too old.
    if [[ $codename == bookworm && ${#packages[@]} -gt 0 ]]; then backports=("${packages[@]}") packages=(); fi
    command -v cc >/dev/null || need "a C compiler (cc)" gcc libc6-dev
    # cargo, pip and go fetch over TLS.
    [[ -e /etc/ssl/certs/ca-certificates.crt || ! -e /etc/debian_version ]] || need "certificates of certification authorities" ca-certificates
    [[ $level == run ]] || tools+=("${bench_tools[@]}")
    [[ $level != test ]] || tools+=("${test_tools[@]}")
    for tool in "${tools[@]}"; do command -v "${tool%%:*}" >/dev/null || need "${tool%%:*}" "${tool#*:}"; done
    # `motet cc` fetches its compiler with it, when first needed.
    [[ $level == run ]] || python3 -m pip --version >/dev/null 2>&1 || need "python3 with pip" python3 python3-pip
    if has_targets "${rust_targets[@]}" && has_tools; then return; fi
    if [[ $by == rustup ]]; then
        rustup=true
        return
    fi
    command -v apt-cache >/dev/null || { need "Rust >= $rust_min with the targets ${rust_targets[*]} (by rustup: 'rustup target add ...')" rustc && return; }
    for package in $(debian_rust "$context"); do
        is_installed "$package" || need "Rust >= $rust_min with the targets ${rust_targets[*]} (by rustup: 'rustup target add ...')" "$package"
    done
}

# need WHAT PACKAGE...
need() {
    [[ " ${packages[*]-} " == *" $2 "* ]] || packages+=("${@:2}")
    [[ ${missing[*]-} == *"$1"* ]] || missing+=("$1")
}

join_words() {
    local all
    printf -v all '%s, ' "$@"
    echo "${all%, }"
}

# Asks whether to go on, if there is a terminal and somebody at it.
consent() {
    local answer=
    [[ ! ${MOTET_YES-} && -t 0 && -t 2 ]] || return 0
    read -r -p "motet: go on? [Y/n] " answer || answer=n
    [[ ${answer,,} =~ ^(y|yes|)$ ]] || fail "nothing was installed"
}

# What only root can install, all at once.
explain_without_root() {
    say "some packages are missing, and installing them needs root. Either run this once as root, or have installed:"
    if [[ ${#backports[@]} -gt 0 ]]; then
        say "  QEMU is too old in Debian 12 itself; with this line in a file of /etc/apt/sources.list.d, and after apt-get update:"
        say "    $(source_line bookworm-backports)"
        say "    apt-get install --no-install-recommends -t bookworm-backports ${backports[*]}"
    fi
    [[ ${#packages[@]} -eq 0 ]] || say "    apt-get install --no-install-recommends ${packages[*]}"
    fail "then try again; once they are there, root is not needed."
}

# ---------------------------------------------------------------------------------------------------------------------
# QEMU

qemu_version() { "$1" --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p'; }

qemu_fits() { command -v "$1" >/dev/null && at_least "$(qemu_version "$1")" "$qemu_min"; }

qemus_fit() {
    local isa
    for isa in "${isas[@]}"; do qemu_fits "qemu-system-$isa" || return; done
}

# ---------------------------------------------------------------------------------------------------------------------
# `./motet doctor`

# Prints one line for each thing; the exit code says whether all are there.
report() {
    local complete=true lines='' tool name wheel
    for name in "${isas[@]/#/qemu-system-}"; do
        if qemu_fits "$name"; then line ok QEMU "$name $(qemu_version "$name")"; else line missing QEMU "$name >= $qemu_min"; fi
    done
    if command -v cc >/dev/null; then line ok linker "$(command -v cc)"; else line missing linker "a C compiler (cc)"; fi
    name="rustc >= $rust_min with cargo"
    if [[ $rust_dir ]]; then line ok Rust "$rust_version, $rust_dir"; else line missing Rust "$name"; fi
    for name in "${rust_targets[@]}"; do
        if has_target "$name"; then line ok "Rust target" "$name"; else line missing "Rust target" "$name"; fi
    done
    for name in fmt clippy; do
        if has_tool $name; then line ok "Rust tool" "cargo $name"; else line missing "Rust tool" "cargo $name (for ./motet test)"; fi
    done
    for name in "${isas[@]}"; do
        if [[ -x $out/userland/$name/busybox ]]; then line ok "guest program" "busybox, $name"; else line missing "guest program" "busybox, $name"; fi
    done
    for tool in "${bench_tools[@]}" "${test_tools[@]}"; do
        name=${tool%%:*}
        if command -v "$name" >/dev/null; then line ok "test tool" "$name"; else line missing "test tool" "$name (for ./motet test)"; fi
    done
    wheel="ziglang $(sed -n 's/^const VERSION: &str = "\(.*\)";$/\1/p' "$root/host/toolchain/src/tools.rs")"
    if [[ -x $out/toolchain/${wheel/ /-}/ziglang/zig ]]; then
        line ok "C compiler" "$wheel, for ./motet cc"
    elif python3 -m pip --version >/dev/null 2>&1; then
        line later "C compiler" "$wheel: the first ./motet cc fetches it"
    else
        line later "C compiler" "$wheel: ./motet cc needs python3 with pip to fetch it"
    fi
    $complete || lines+="motet: './motet run' and './motet test' install what they miss"$'\n'
    printf '%s' "$lines" >&2 || exit 74
    $complete || exit 69
}

# line ok|missing|later KIND WHAT: for report, whose variables these are.
line() {
    local text
    printf -v text '  %-8s %-15s %s\n' "$@"
    lines+=$text
    [[ $1 != missing ]] || complete=false
}

# ---------------------------------------------------------------------------------------------------------------------
# Talking to the person

say() { echo "motet: $*" >&2; }

# fail MESSAGE [with-log]: says why, and stops with the exit code for "something needed is unavailable".
fail() {
    say "$1" || true
    [[ ${2-} != with-log ]] || { tail -n 15 "$log" | sed 's/^/    /' >&2 && say "all of it: $log"; } || true
    exit 69
}

# Sets `codename`, `os_name` and `is_debian` to what /etc/os-release says.
read_os() {
    local VERSION_CODENAME='' VERSION_ID='' ID='' PRETTY_NAME=''
    [[ ! -r /etc/os-release ]] || . /etc/os-release
    codename=$VERSION_CODENAME
    os_name=${PRETTY_NAME:-an unknown system}
    is_debian=false
    [[ $ID != debian || ${VERSION_ID:-13} -lt 12 ]] || ! command -v apt-get >/dev/null || is_debian=true
}

needs_debian() {
    read_os
    ! $is_debian || return 0
    say "Motet sets itself up on Debian 12 and later; this is $os_name."
    fail "Here, please install yourself: $1. Then run the same command again."
}

# Versions: at_least 10.0.2 10.0
at_least() { [[ ${1-} && $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

[[ ${BASH_SOURCE[0]} != "$0" ]] || setup_main "$@"
