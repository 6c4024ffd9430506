#!/usr/bin/env bash
# Tests of `motet` and scripts/setup.sh: in a checkout whose sources are empty, with stand-ins for QEMU, Rust, apt and dpkg that
# write down how they were called. They take seconds, change nothing and need no network. What only root may do is
# tried as root alone.
# shellcheck disable=SC2317  # Tests are called by name.
set -euo pipefail

project=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
# `motet test` has these for its own checkout, which is not the one that is tried here.
unset CARGO_TARGET_DIR MOTET_ROOT MOTET_YES CI
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
checkout=$work/checkout
tools=$work/tools
calls=$work/calls
# Stand-ins, then this computer's programs but those that tests need to be absent.
export computer=${computer-$work/computer}
environment=(PATH="$tools:$computer" HOME="$work" CALLS="$calls" TOOLS="$tools")

tests_main() {
    local test tests failed=0
    if [[ ! -d $computer ]]; then
        mkdir "$computer"
        ln -sft "$computer" /usr/bin/* /usr/sbin/*
        rm -f "$computer"/{cmake,gdb-multiarch}
    fi
    if [[ ${1-} ]]; then
        make_tools
        make_checkout
        "test_$1"
        return
    fi
    mapfile -t tests < <(declare -F | sed -n 's/^declare -f test_//p')
    for test in "${tests[@]}"; do
        # In a shell of its own, whose first command that fails ends it.
        "${BASH_SOURCE[0]}" "$test" >"$work/said" 2>&1 && continue
        failed=$((failed + 1))
        echo "front_door.sh: $test: failed" >&2
        sed 's/^/    /' "$work/said" >&2
    done
    echo "front_door.sh: ${#tests[@]} tests, $failed failed" >&2
    [[ $failed -eq 0 ]]
}

# ---------------------------------------------------------------------------------------------------------------------
# What is built runs

test_the_first_call_builds_and_the_next_ask_nobody() {
    motet run -- a
    said 'ran: run -- a'
    called 'cargo build'
    : >"$calls"
    motet run -- b
    said 'ran: run -- b'
    [[ ! -s $calls ]]
}

test_what_watches_machines_is_built_when_it_is_first_called() {
    motet run -- a
    not called 'motet-top'
    motet top --batch
    said 'ran: top --batch'
    called 'cargo build .*-p motet-top'
}

test_what_makes_a_package_is_built_when_it_is_first_called() {
    motet run -- a
    not called 'motet-package'
    motet package --output b
    said 'ran: package --output b'
    called 'cargo build .*-p motet-top'
    called 'cargo build .*-p motet-package'
}

test_guests_are_built_when_somebody_asks_for_them() {
    motet guests riscv64
    said 'ran: guests riscv64'
    called 'cargo build'
    not called 'motet-guests'
}

test_what_is_built_runs_in_an_empty_environment() {
    motet run
    : >"$calls"
    outcome 0 env -i "$checkout/motet" run -- a
    said 'ran: run -- a'
    not called 'apt-get\|cargo'
}

test_what_is_built_runs_without_a_home() {
    motet run
    : >"$calls"
    outcome 0 env -i HOME=/nonexistent "$checkout/motet" run -- a
    said 'ran: run -- a'
    [[ ! -s $calls ]]
}

test_rust_is_found_again_in_an_empty_environment() {
    motet run
    touch "$checkout/kernel/new"
    : >"$calls"
    outcome 0 env -i CALLS="$calls" TOOLS="$tools" "$checkout/motet" run -- a
    said 'ran: run -- a'
    called 'cargo build'
    not called apt-get
}

test_what_is_built_runs_from_a_folder_that_is_gone() {
    motet run
    : >"$calls"
    mkdir "$work/gone"
    # shellcheck disable=SC2016
    outcome 0 env "${environment[@]}" bash -c 'cd "$1" && rmdir "$1" && exec "$2" run -- a' bash "$work/gone" "$checkout/motet"
    said 'ran: run -- a'
    [[ ! -s $calls ]]
}

# A stand-in for cargo that installs one for mdBook.
tool_mdbook() {
    # shellcheck disable=SC2016
    tool cargo 'echo "cargo $*" >>"$CALLS"
        while [ "$1" != --root ]; do shift || exit 1; done
        mkdir -p "$2/bin"
        printf "%s\n" "#!/bin/sh" "echo mdbook \$* >>\"\$CALLS\"; mkdir -p \$2/book && cp -R \$2/src/. \$2/book" >"$2/bin/mdbook"
        chmod 755 "$2/bin/mdbook"'
}

test_documents_become_a_book() {
    tool_mdbook
    mkdir "$checkout"/{docs,examples,machines,studies}
    printf '# Summary\n\n[Motet](../README.md)\n\n- [A](a.md)\n' >"$checkout/docs/SUMMARY.md"
    printf '[source](../kernel/core/a.rs) [start](../README.md#a)\n' >"$checkout/docs/a.md"
    touch "$checkout/README.md" "$checkout/kernel/core/a.rs"
    motet docs --build-only --out "$work/a book"
    called 'cargo install mdbook --version [0-9.]* --locked'
    called '^mdbook build'
    not called '^cargo build\|^mdbook serve'
    # Links lead where they led.
    [[ -f "$work/a book/kernel/core/a.rs" && -f "$work/a book/index.md" ]]
    grep -qF '(../index.md#a)' "$work/a book/docs/a.md"
    grep -qF '[A](docs/a.md)' "$work/a book/SUMMARY.md"
    grep -qF '[Motet](index.md)' "$work/a book/SUMMARY.md"
    : >"$calls"
    touch "$work/a book/other"
    motet docs --port 3001 --out "$work/a book"
    called '^mdbook serve .* --hostname 127.0.0.1 --port 3001'
    not called cargo
    [[ -e "$work/a book/other" ]]
}

test_a_book_that_nobody_can_make_is_refused() {
    local wrong
    for wrong in '--nonsense' '--port 0' '--port a' '--out' 'here'; do
        # shellcheck disable=SC2086
        outcome 64 env "${environment[@]}" "$checkout/motet" docs $wrong
        said "'./motet docs --help'"
    done
    tool cargo 'echo no such package; exit 101'
    outcome 69 env "${environment[@]}" "$checkout/motet" docs --build-only
    said 'mdBook cannot be built'
    said 'no such package'
}

test_compilers_of_one_word_run_from_anywhere() {
    local name
    motet run
    mkdir -p "$work/a folder"
    # Also by a link with another name, and where the project's path has spaces.
    mv "$checkout" "$work/the project" && checkout="$work/the project"
    for name in cc c++ ld ar ranlib; do
        ln -sf "$checkout/host/toolchain/bin/motet-$name" "$work/a folder/link"
        # shellcheck disable=SC2016
        outcome 0 env "${environment[@]}" bash -c 'cd "$1" && exec ./link -c "a b.c"' bash "$work/a folder"
        said "ran: $name -c a b.c"
        [[ $EUID -ne 0 ]] || setpriv --reuid=65534 --clear-groups "$checkout/host/toolchain/bin/motet-$name" >"$work/output"
    done
}

test_another_user_runs_what_is_built() {
    [[ $EUID -eq 0 ]] || return 0
    motet run
    : >"$calls"
    as_nobody 0 run -- a
    said 'ran: run -- a'
    [[ ! -s $calls && $(grep -c . "$work/output") -eq 1 ]]
}

test_another_user_is_told_that_the_source_is_newer() {
    [[ $EUID -eq 0 ]] || return 0
    motet run
    touch "$checkout/kernel/new"
    : >"$calls"
    as_nobody 0 run -- a
    said 'ran: run -- a'
    said 'the source is newer than what is built in .*: using what is built'
    [[ ! -s $calls ]]
}

test_another_user_is_told_that_nothing_is_built() {
    [[ $EUID -eq 0 ]] || return 0
    as_nobody 69 run -- a
    said 'nothing is built in .*, where nobody may not write: run'
    as_nobody 69 build
    said 'may not write\|to write'
    as_nobody 0 doctor
    not said 'Permission denied'
}

# ---------------------------------------------------------------------------------------------------------------------
# What is installed

test_a_level_installs_all_before_anything_else_from_this_computers_sources() {
    [[ $EUID -eq 0 ]] || return 0
    age_qemu
    rm "$tools"/{cmake,gdb-multiarch}
    rm -r "$checkout/target/userland"
    outcome 0 setup test
    said 'installing with apt (12.3 MB to download, 45.6 MB on disk): .*qemu-system-x86'
    said 'installing with apt (12.3 MB to download, 45.6 MB on disk): .*cmake gdb-multiarch'
    # Guests' programs come from lists of their own, which no other call sees.
    not called '^apt-get .*setup/guests.* install '
    [[ $(grep -n ' install ' "$calls" | tail -n 1 | cut -d: -f1) -lt $(grep -n 'setup/guests' "$calls" | head -n 1 | cut -d: -f1) ]]
}

test_guest_programs_are_those_with_the_known_checksums() {
    rm -r "$checkout/target/userland"
    outcome 0 setup run
    called '^apt-helper .*/busybox-static_.*_riscv64.deb SHA256:[0-9a-f]*$'
    not called '^apt-get .*setup/guests'
    ls "$checkout"/target/userland/{x86_64,aarch64,riscv64}/busybox
}

test_guest_programs_are_the_newest_if_the_known_ones_are_gone() {
    tool apt-helper 'exit 100'
    rm -r "$checkout/target/userland"
    outcome 0 setup run
    said 'taking the newest version'
    called '^apt-get .*setup/guests.* update'
    ls "$checkout"/target/userland/{x86_64,aarch64,riscv64}/busybox
}

test_after_tests_are_set_up_so_are_runs() {
    [[ $EUID -eq 0 ]] || return 0
    outcome 0 setup test
    : >"$calls"
    outcome 0 setup run
    outcome 0 setup bench
    not called 'apt-get\|cargo'
}

test_no_means_no() {
    [[ $EUID -eq 0 ]] || return 0
    age_qemu
    outcome 69 at_terminal n
    said 'go on'
    said 'nothing was installed'
    not called 'apt-get .*--download-only'
}

test_yes_means_yes() {
    [[ $EUID -eq 0 ]] || return 0
    age_qemu
    outcome 0 at_terminal y
    said 'go on'
    called 'apt-get .*--download-only'
    age_qemu
    outcome 0 at_terminal '' MOTET_YES=1
    not said 'go on'
}

test_without_root_it_says_what_is_missing() {
    age_qemu
    chown -R nobody "$checkout" 2>/dev/null || true
    if [[ $EUID -eq 0 ]]; then as_nobody 69 run; else outcome 69 motet run; fi
    said 'apt-get install --no-install-recommends.* qemu-system-x86'
    not called 'apt-get .* install'
}

test_an_interrupted_installation_ends_its_work_first() {
    [[ $EUID -eq 0 ]] || return 0
    local signal status pid
    for signal in INT TERM; do
        make_tools
        make_checkout
        age_qemu
        : >"$work/hold"
        # With its own group, as a terminal's foreground job, whose every process gets the signal.
        env "${environment[@]}" HOLD="$work/hold" perl -e 'setpgrp; $SIG{INT} = "DEFAULT"; exec @ARGV' "$checkout/motet" run </dev/null >"$work/output" 2>&1 &
        pid=$!
        until [[ -e $work/hold.here ]]; do runs "$pid"; done
        kill -s "$signal" -- "-$pid"
        until said 'must not be cut short'; do runs "$pid"; done
        rm "$work/hold" "$work/hold.here"
        status=0
        wait "$pid" || status=$?
        [[ $status -eq $((128 + $(kill -l "$signal"))) ]]
        called 'installed'
        not said 'ran:'
        # The next call goes on from there.
        motet run -- a
        said 'ran: run -- a'
    done
}

test_an_installation_that_was_killed_is_finished() {
    [[ $EUID -eq 0 ]] || return 0
    age_qemu
    : >"$tools/half-installed"
    motet run
    said 'finishing an installation that was cut short'
    [[ $(grep -n 'dpkg --configure -a' "$calls" | cut -d: -f1) -lt $(grep -n ' install ' "$calls" | tail -n 1 | cut -d: -f1) ]]
}

# ---------------------------------------------------------------------------------------------------------------------
# Closed outputs

test_a_closed_error_output_is_a_status() {
    motet run
    ends 74 doctor 2>&-
    ends 0 --help 2>&- >"$work/output"
    # The guest's output is still there.
    ends 0 run -- a 2>&- >"$work/output"
    said 'ran: run -- a'
}

test_a_closed_output_is_told() {
    motet run
    ends 74 run -- a >&- 2>"$work/output"
    said 'standard output is closed'
    ends 74 --help >&- 2>"$work/output"
    said 'standard output is closed'
    ends 0 doctor >&- 2>"$work/output"
    said QEMU
}

test_a_reader_that_left_is_a_status() {
    local command
    mkfifo "$work/pipe"
    # As in services and Python programs, whose children ignore SIGPIPE.
    trap '' PIPE
    for command in doctor --help; do
        exec 7<>"$work/pipe" 8>"$work/pipe" 7>&-
        if [[ $command == doctor ]]; then ends 74 doctor 2>&8; else ends 74 --help >&8; fi
        exec 8>&-
    done
}

# ---------------------------------------------------------------------------------------------------------------------
# Help

test_help_needs_nothing_that_is_built() {
    local words
    for words in --help -h help 'help run' 'run --help' 'build --help' 'doctor --help'; do
        # shellcheck disable=SC2086
        motet $words
        said 'Run a machine:'
    done
    motet test --help
    said 'MOTET_BLESS=1'
    motet bench --help
    said 'ker-one'
    not called 'cargo'
}

test_help_is_the_program_s_once_that_is_built() {
    local words
    motet run
    for words in --help 'run --help' 'test --help' 'bench --help' 'vm run --help' 'build --help' 'doctor --help'; do
        # shellcheck disable=SC2086
        motet $words
        said "ran: $words"
    done
    # The machine's command has a help of its own.
    motet run -- ls --help
    said 'ran: run -- ls --help'
}

test_a_word_that_is_no_command_builds_nothing() {
    outcome 64 env "${environment[@]}" "$checkout/motet" rum
    said "no command 'rum'"
    outcome 64 env "${environment[@]}" "$checkout/motet"
    said 'Run a machine:'
    not called 'cargo'
}


# ---------------------------------------------------------------------------------------------------------------------
# Packages

test_packages_go_on_where_they_were_interrupted() {
    mkdir -p "$checkout"/{tests/packages,target/debug}
    touch "$checkout"/tests/packages/{one,two}.sh
    # Ten more sets of a package pass, or fail if there is a file `fails`; behind the first ten it is interrupted.
    printf '%s\n' '#!/bin/bash' 'echo "trials $*" >>"$CALLS"' 'name=${3#libraries::} name=${name%_passes} results=$MOTET_PACKAGES/results.tsv' \
        'result=pass; [ ! -e "$TOOLS/fails" ] || result=fail' 'count=$(grep -cP "^$name\\t$5\\t.*pass.*\\t$MOTET_PACKAGES_TESTED\$" "$results")' \
        'for set in $(seq $count $((count + 9))); do printf "%s\t%s\t%s\t40\t-O1\t%s\tcommit\t%s\n" "$name" "$5" $set $result "$MOTET_PACKAGES_TESTED" >>"$results"; done' \
        '[ $result = pass ] || exit 1; [ $count = 10 ] || exit 130' | install -m 755 /dev/stdin "$checkout/target/debug/motet-trials"
    outcome 130 motet_test packages --seed 7
    said 'one (1 of 2); 0 of 20 sets of seed 7'
    # What has ended is told by a process of its own, which may be late.
    for _ in {1..100}; do ! said 'packages: one.*-O1.*pass' || break; sleep 0.1; done
    said 'packages: one.*-O1.*pass'
    outcome 130 motet_test packages
    said 'one (1 of 2); 10 of 20 sets of seed 7'
    said 'two (2 of 2); 0 of 20 sets of seed 7'
    : >"$calls"
    mkdir "$checkout/target/packages/one-7"
    outcome 0 motet_test packages
    not called 'trials.*one'
    [ ! -e "$checkout/target/packages/one-7" ]
    said '^| one | 7 | 20 | 0 | 40 to 40 | `-O1` | commit |'
    # Another recipe is tested again, and single packages leave the seed of a run of all alone.
    outcome 130 motet_test packages --seed 9
    echo '# changed' >>"$checkout/tests/packages/one.sh"
    outcome 130 motet_test packages --seed 7 one
    said 'one (1 of 1); 0 of 20 sets of seed 7'
    outcome 130 motet_test packages two
    said 'two (1 of 1); 0 of 20 sets of seed 9'
    # With the next seed all begins again, and what fails is named, but keeps nobody else from passing.
    : >"$tools/fails"
    outcome 69 motet_test packages --seed 8
    said 'these have not passed: one two'
    rm "$tools/fails"
    outcome 130 motet_test packages two
    said 'two (1 of 1); 0 of 20 sets of seed 8'
    outcome 0 motet_test packages --table
    said '^| one | 8 | 0 | 10 | - |'
    exec 6>"$checkout/target/packages/lock" && flock 6
    outcome 69 motet_test packages
    said 'another run is at work'
    exec 6>&-
    outcome 69 motet_test packages three
    said 'no recipe three.sh'
}

motet_test() { env "${environment[@]}" "$checkout/motet" test "$@" </dev/null; }

# ---------------------------------------------------------------------------------------------------------------------
# Asking

motet() { outcome 0 env "${environment[@]}" "$checkout/motet" "$@" </dev/null; }

# ends STATUS ARGUMENT...: with the outputs as they are.
ends() {
    local status=0
    env "${environment[@]}" "$checkout/motet" "${@:2}" </dev/null || status=$?
    [[ $status -eq $1 ]]
}

setup() { env "${environment[@]}" "$checkout/scripts/setup.sh" "$@" </dev/null; }

# as_nobody STATUS ARGUMENT...
as_nobody() {
    outcome "$1" setpriv --reuid nobody --regid nogroup --clear-groups env "${environment[@]}" "$checkout/motet" "${@:2}" </dev/null
}

# at_terminal ANSWER [VARIABLE=VALUE]
at_terminal() {
    echo "$1" | env "${environment[@]}" "${@:2}" script --quiet --return --command "$checkout/motet run" /dev/null
}

# outcome STATUS COMMAND...: the command ends with this status; its output is kept.
outcome() {
    local status=0
    "${@:2}" >"$work/output" 2>&1 || status=$?
    cat "$work/output"
    [[ $status -eq $1 ]] || { echo "the status is $status, not $1: ${*:2}" && return 1; }
}

said() { grep -q "$1" "$work/output"; }

called() { grep -q "$1" "$calls"; }

# A moment later, unless the process has ended: that ends the test.
runs() { sleep 0.1 && kill -0 "$1"; }

# Unlike `!`, ends a test that expects otherwise.
not() { if "$@"; then return 1; fi; }

# ---------------------------------------------------------------------------------------------------------------------
# Stand-ins

make_checkout() {
    local isa
    rm -rf "$checkout" && mkdir -p "$checkout"/{fused,kernel/core,host/toolchain/src,user,.cargo,target/userland/{x86_64,aarch64,riscv64}}
    cp -r "$project/motet" "$project/scripts" "$checkout"
    cp -r "$project/host/toolchain/bin" "$checkout/host/toolchain"
    printf '[workspace]\nrust-version = "1.88"\n' | tee "$checkout/Cargo.toml" >"$checkout/kernel/core/Cargo.toml"
    touch "$checkout"/{host/toolchain/src/tools.rs,Cargo.lock,.cargo/config.toml}
    for isa in x86_64 aarch64 riscv64; do install -m 755 /dev/null "$checkout/target/userland/$isa/busybox"; done
}

# Sources are older than what is built from them, by more than the clock of files can miss.
make_tools() {
    local isa tool
    rm -rf "$tools" && mkdir -p "$tools/lib"
    install -m 666 /dev/null "$calls"
    touch "$tools/lib/libcore-0.rlib"
    for isa in x86_64 aarch64 riscv64; do tool "qemu-system-$isa" 'echo "QEMU emulator version 10.0.2"'; done
    for tool in cc xz make cmake g++ go nm gprof gdb-multiarch ssh; do tool "$tool" ''; done
    tool python3 ''
    tool rustc 'case "$*" in
        *target-libdir*) echo "$TOOLS/lib" ;;
        *) echo "rustc 1.99.0 (stand-in)" ;;
        esac'
    tool cargo 'case $1 in
        build)
            echo "cargo $*" >>"$CALLS"
            mkdir -p "$CARGO_TARGET_DIR/release"
            printf "%s\n" "#!/bin/sh" "echo ran: \"\$*\"" >"$CARGO_TARGET_DIR/release/motet"
            chmod 755 "$CARGO_TARGET_DIR/release/motet"
            ;;
        esac'
    tool dpkg-query 'echo "install ok installed"'
    tool dpkg 'case "$*" in
        --audit) [ ! -e "$TOOLS/half-installed" ] || echo "half installed" ;;
        --print-architecture) echo amd64 ;;
        *) echo "dpkg $*" >>"$CALLS" && rm -f "$TOOLS/half-installed" ;;
        esac'
    tool dpkg-deb 'case $1 in
        -x) mkdir -p "$3/bin" "$3/usr/share/doc/busybox-static" && touch "$3/bin/busybox" "$3/usr/share/doc/busybox-static/copyright" ;;
        *) echo 1 ;;
        esac'
    tool apt-cache ''
    # shellcheck disable=SC2016
    tool apt-helper 'echo "apt-helper $*" >>"$CALLS"; shift $(($# - 2)); : >"$1"'
    tool apt-get 'case "$*" in
        *indextargets*--no-release-info*RELEASE*) echo "mirror: $(. /etc/os-release && echo "$VERSION_CODENAME") main" ;;
        *indextargets*) echo "mirror: $(. /etc/os-release && echo "$VERSION_CODENAME") main Debian/Debian" ;;
        *) echo "apt-get $*" >>"$CALLS" ;;
        esac
        case "$*" in
        *--print-uris*)
            echo "Need to get 12.3 MB of archives."
            echo "After this operation, 45.6 MB of additional disk space will be used."
            ;;
        *--download-only*) ;;
        *" install "*)
            [ ! "$HOLD" ] || { : >"$HOLD.here" && while [ -e "$HOLD" ]; do sleep 0.1; done; }
            for isa in x86_64 aarch64 riscv64; do
                printf "%s\n" "#!/bin/sh" "echo QEMU emulator version 10.0.2" >"$TOOLS/qemu-system-$isa"
            done
            for tool in cmake gdb-multiarch; do install -m 755 /dev/null "$TOOLS/$tool"; done
            echo installed >>"$CALLS"
            ;;
        *download*) for name in amd64 arm64 riscv64; do : >"busybox-static_1_$name.deb"; done ;;
        esac'
}

tool() {
    printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
    chmod 755 "$tools/$1"
}

# QEMU that is too old, so that there is something to install.
age_qemu() {
    local isa
    for isa in x86_64 aarch64 riscv64; do tool "qemu-system-$isa" 'echo "QEMU emulator version 7.2.0"'; done
    rm -f "$checkout"/target/setup/ready-*
}

tests_main "$@"
exit
