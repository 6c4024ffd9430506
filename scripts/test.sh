# shellcheck shell=bash disable=SC2154
# Sourced by `motet`: the checks of `./motet test`, the quick ones first.

# Runs the steps named, or all of them, and prints how many passed. A failed step does not stop the others.
run_checks() {
    local steps=("$@") step began failed=() passed=0
    if [[ ${1-} == fresh ]]; then
        "$root/tests/setup/fresh.sh" "${@:2}"
        return
    fi
    [[ ${#steps[@]} -gt 0 ]] || steps=(fmt clippy unit model machine setup)
    for step in "${steps[@]}"; do
        declare -F "check_$step" >/dev/null || { echo "motet: there is no test step '$step'" >&2 && usage && exit 64; }
    done
    set_up_to_build test
    cd "$root" || exit
    for step in "${steps[@]}"; do
        echo "motet test: $step" >&2
        began=$SECONDS
        if "check_$step"; then
            passed=$((passed + 1))
        else
            failed+=("$step")
        fi
        echo "motet test: $step took $((SECONDS - began)) s" >&2
    done
    [[ ${#failed[@]} -eq 0 ]] || echo "motet test: failed: ${failed[*]}" >&2
    echo "$passed passed, ${#failed[@]} failed"
    [[ ${#failed[@]} -eq 0 ]]
}

check_fmt() {
    cargo fmt --all --check
}

# The host's crates, then each kernel and the guest programs for their own target.
check_clippy() {
    local pair isa target
    cargo clippy --quiet ${CI:+--locked} --all-targets -- -D warnings || return
    # It takes machines, so it is not among what `cargo test` runs, nor among all targets.
    cargo clippy --quiet ${CI:+--locked} -p motet-cli --test machine -- -D warnings || return
    for pair in "${kernel_targets[@]}"; do
        isa=${pair%%:*}
        cargo clippy --quiet ${CI:+--locked} -p "motet-hal-$isa" -p motet-image --features "motet-image/$isa" \
            --target "${pair#*:}" --profile kernel -- -D warnings || return
        cargo clippy --quiet ${CI:+--locked} -p motet-calls --features guest --target "${pair#*:}" --release -- -D warnings || return
    done
    for target in "${float_targets[@]}"; do
        cargo clippy --quiet ${CI:+--locked} -p motet-kernels --features guest --target "$target" --release -- -D warnings || return
    done
    for target in aarch64-unknown-none-softfloat riscv64imac-unknown-none-elf; do
        # Without a compiler for FreeRTOS: nothing is linked.
        MOTET_ZIG='' cargo clippy --quiet ${CI:+--locked} -p motet-guest-board -p motet-guests --features motet-guests/freertos \
            --target "$target" --profile kernel -- -D warnings || return
    done
    cargo clippy --quiet ${CI:+--locked} -p motet-kernels --features bare --bin bare --target riscv64gc-unknown-none-elf --release -- -D warnings || return
    cargo clippy --quiet ${CI:+--locked} -p motet-firmware --features bare --target riscv64imac-unknown-none-elf --release -- -D warnings
}

# Unit and property tests, several kernels in one process, and the golden layouts.
check_unit() {
    cargo test --quiet --no-fail-fast ${CI:+--locked}
}

# The protocols and the kernels in one process, with every atomic operation on the pool a point where the seeded
# schedule may switch.
check_model() {
    RUSTFLAGS="--cfg motet_model" cargo test --quiet --no-fail-fast ${CI:+--locked} --release \
        --target-dir "$out/model" -p motet-protocol -p motet-hal-hosted -p motet-firmware || return
    RUSTFLAGS="--cfg motet_model" cargo test --quiet --no-fail-fast ${CI:+--locked} --release \
        --target-dir "$out/model" -p motet-tests-hosted --test lost --test extensions --test locks_of_the_dead
}

# On real QEMU: the conformance suite of each HAL, then programs on fused machines.
check_machine() {
    (build && build_guest_programs && build_firmware_check) || return
    "$out/release/motet" test || return
    cargo test --quiet --no-fail-fast ${CI:+--locked} --release -p motet-cli --test machine
}

# Whole machines that run random programs, with other seeds each time, for MOTET_SOAK_MINUTES (30). Not one of the steps that run
# without being named: how long it takes is for who starts it to say.
check_soak() {
    local end seed
    (build && build_guest_programs) || return
    end=$((SECONDS + 60 * ${MOTET_SOAK_MINUTES:-30}))
    while [[ $SECONDS -lt $end ]]; do
        seed=$((RANDOM << 15 | RANDOM))
        echo "motet test: soak: MOTET_TEST_SEED=$seed, $(((end - SECONDS + 59) / 60)) minutes left" >&2
        MOTET_TEST_SEED=$seed cargo test --quiet --release -p motet-cli --test machine random || return
    done
}

# The front door with stand-ins for what it calls, on the real machine as another user, and what is installed on new
# systems. There is nothing new about a system that such a test made.
check_setup() {
    "$root/tests/setup/front_door.sh" || return
    (build) || return
    "$root/tests/setup/another_user.sh" || return
    if [[ ${MOTET_FRESH-} ]]; then
        say "skipped: new systems inside of a new system"
        return
    fi
    local status=0
    "$root/tests/setup/fresh.sh" --set-up || status=$?
    [[ $status -ne 77 ]] || { say "skipped: what is installed on new systems of Debian, for the reason above" && status=0; }
    return "$status"
}
