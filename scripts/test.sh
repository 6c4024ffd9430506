# shellcheck shell=bash disable=SC2154
# Sourced by `motet`: `./motet test`. What is run, and in which order, is the program's in host/trials.

test_usage() {
    cat >&2 <<'TEXT'
Runs the checks of Motet, side by side, as many as the processors can carry.

  ./motet test                    everything that CI runs: all steps below (40 to 45 minutes on 2 cores)
  ./motet test STEP...            only these: fmt clippy unit model machine setup
  ./motet test STEP NAME...       of one step, the tests with one of NAME in their names; what they need is built
  ./motet test long               everything, and what is slow by nature: all seeds and schedules, kills, whole libraries with
                                  functions pinned at random, new Debian systems in both orders; for before figures are recorded
  ./motet test soak               random programs with new seeds, for MOTET_SOAK_MINUTES (30)
  ./motet test fresh [OPTION]     run and test, in either order, on new systems of Debian 12 and 13 (root; hours)

Examples:

  ./motet test machine vm::       the tests of virtual machines
  ./motet test unit layout        the unit tests of fused/layout (and others with that word)
  ./motet test machine --list     the names of all tests of machines
  ./motet test machine fuzz --seed 20260101

Options:

  --list           name the tests, run none
  --seed N         the seed of random tests; otherwise today's date (20260131), which is printed
  --processors N   keep N processors busy, not all
  --record         write the times that were measured to tests/times.tsv, by which tests are scheduled

Times are printed for each test (seconds, and seconds of processor time) and kept in target/times.tsv. A test that takes more processor
time than its class (1, 10, 60 s) is named.

Variables, for tests by themselves:

  MOTET_TEST_SEED   machine: as --seed
  MOTET_BLESS=1     write what is compared (golden layouts, docs/figures.md, conformance, tables) instead of comparing it
  MOTET_TEST_HOST=1 machine: scripts of tests/guest/same run on the host twice, a check of the scripts themselves
  MOTET_KILLS=N     machine crossing_policies: as many machines whose islands are killed (4, long: 20)
  MOTET_SEED=N      unit, model: of kernels in one process, this seed alone, as a failure prints it
  MOTET_SEEDS=N     the same: as many seeds
  MOTET_FIRST=N     the same: beginning with this one
  MOTET_STRIDE=N    deaths at any moment: every N-th step of a run (1: all); MOTET_OFFSET=N begins there
  MOTET_DEATHS=N    unit repairs, late: at most as many deaths of an island for each seed
  MOTET_APART=N     unit repairs: one death in N is tried with the repair, too (8)
  MOTET_ALL=1       unit damaged_links: runs that do not end are printed, too
  MOTET_ECHO=1      kernels in one process print what they log at once
  MOTET_SOAK_MINUTES, MOTET_FRESH_SUITES (bookworm trixie), MOTET_FRESH_ORDER ("run test")
TEXT
}

run_checks() {
    local arguments=("$@")
    case ${1-} in
        -h | --help | help)
            test_usage || exit 74
            return
            ;;
        fresh)
            "$root/tests/setup/fresh.sh" "${@:2}"
            return
            ;;
        soak)
            set_up_to_build test
            soak
            return
            ;;
        long) arguments=(--long "${@:2}") ;;
    esac
    set_up_to_build test
    cargo_build -p motet-trials
    exec "$out/debug/motet-trials" "${arguments[@]}"
}

# Whole machines that run random programs, with other seeds each time, for MOTET_SOAK_MINUTES (30). Not one of the steps that run
# without being named: how long it takes is for who starts it to say.
soak() {
    local end seed
    end=$((SECONDS + 60 * ${MOTET_SOAK_MINUTES:-30}))
    cargo_build -p motet-trials
    while [[ $SECONDS -lt $end ]]; do
        seed=$((RANDOM << 15 | RANDOM))
        echo "motet test: soak: seed $seed, $(((end - SECONDS + 59) / 60)) minutes left" >&2
        "$out/debug/motet-trials" machine random --seed "$seed" || return
    done
}
