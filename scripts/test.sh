# shellcheck shell=bash disable=SC2154
# Sourced by `motet`: `./motet test`. What is run, and in which order, is the program's in host/trials.

run_checks() {
    local arguments=("$@")
    case ${1-} in
        fresh)
            "$root/tests/setup/fresh.sh" "${@:2}"
            return
            ;;
        packages)
            packages "${@:2}"
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

# Sets of pins for each package, as host/cli/tests/machine/libraries.rs has them.
package_sets=20

# packages [--seed N] [NAME...]: what is built, and a line for each set that has ended, is kept in target/packages until all have passed.
packages() {
    local folder=$out/packages seed='' names=() failed=() name number=0 status are_all='' passed lines
    while [[ $# -gt 0 ]]; do
        case $1 in
            --table)
                package_table "$folder/results.tsv"
                return
                ;;
            --seed)
                [[ ${2-} =~ ^[0-9]+$ ]] || fail "packages: --seed needs a number"
                seed=$2
                shift
                ;;
            *)
                [[ -f $root/tests/packages/$1.sh ]] || fail "packages: tests/packages has no recipe $1.sh"
                names+=("$1")
                ;;
        esac
        shift
    done
    if [[ ${#names[@]} -eq 0 ]]; then
        are_all=1
        for name in "$root"/tests/packages/*.sh; do names+=("$(basename "$name" .sh)"); done
    fi
    mkdir -p "$folder" && touch "$folder/results.tsv"
    # What is left of a run that was killed counts, too.
    exec 7>"$folder/lock"
    flock --nonblock 7 || fail "packages: another run is at work in $folder"
    # Without another word, a run that was interrupted goes on with its seed on the next day, too.
    [[ $seed || ! -f $folder/seed ]] || seed=$(<"$folder/seed")
    seed=${seed:-$(date -u +%Y%m%d)}
    # Single packages leave it to a run of all of them.
    [[ ! $are_all ]] || echo "$seed" >"$folder/seed"
    set_up_to_build test
    cargo_build -p motet-trials
    lines=$(wc -l <"$folder/results.tsv")
    tail -n +$((lines + 1)) -F --pid=$$ "$folder/results.tsv" 2>/dev/null 7>&- | sed -u 's/^/motet test: packages: /' >&2 7>&- &
    for name in "${names[@]}"; do
        number=$((number + 1))
        passed=$(package_passed "$name" "$seed")
        if [[ $passed -eq $package_sets ]]; then
            # What is left of a run that was killed at its end.
            rm -rf "${folder:?}/$name-$seed"
            say "packages: $name has passed with all sets of seed $seed ($number of ${#names[@]})"
            continue
        fi
        say "packages: $name ($number of ${#names[@]}); $passed of $package_sets sets of seed $seed have passed"
        status=0
        MOTET_PACKAGES=$folder MOTET_PACKAGES_TESTED=$(package_tested "$name") \
            "$out/debug/motet-trials" --long machine "libraries::${name}_passes" --seed "$seed" || status=$?
        case $status in
            0) ;;
            130) return 130 ;;
            *) failed+=("$name") ;;
        esac
    done
    package_table "$folder/results.tsv"
    [[ ${#failed[@]} -eq 0 ]] || fail "packages: these have not passed: ${failed[*]}; with --seed $seed the same command tries what is left again"
    [[ ! $are_all ]] || rm -f "$folder/seed"
}

# package_tested NAME: a digest of what builds it. What has passed with another counts no longer.
package_tested() {
    cat "$out/release/motet" "$root"/tests/packages/{cc,"$1.sh"} 2>/dev/null | sha256sum | cut -c 1-16
}

# package_passed NAME SEED: the number of sets that have passed.
package_passed() {
    awk -F '\t' -v name="$1" -v seed="$2" -v tested="$(package_tested "$1")" \
        '$1 == name && $2 == seed && $6 == "pass" && $8 == tested { sets[$3] } END { print length(sets) }' "$out/packages/results.tsv"
}

# package_table RESULTS: a row for each package, seed and state of what is tested: how many sets have passed, and how many not; the pins of a
# set that has passed; the options; the commits, with `-dirty` if there were changes.
package_table() {
    echo '| package | seed | sets that passed | failed | pins in a set | compiled with | commit |'
    echo '|---|---|---|---|---|---|---|'
    [[ ! -f $1 ]] || LC_ALL=C sort "$1" | awk -F '\t' '
        { row = $1 " | " $2 "\t" (NF > 7 ? $8 : $7); set = row "\t" $3; last[set] = ($6 == "pass" || last[set] == "pass") ? "pass" : "fail"; options[row] = $5 }
        index(", " commits[row] ", ", ", " $7 ", ") == 0 { commits[row] = commits[row] (commits[row] ? ", " : "") $7 }
        $6 == "pass" { if (!(row in least) || $4 < least[row]) least[row] = $4; if ($4 > most[row]) most[row] = $4 }
        END {
            for (set in last) { split(set, words, "\t"); row = words[1] "\t" words[2]; if (last[set] == "pass") passed[row]++; else failed[row]++ }
            for (row in options) {
                split(row, words, "\t")
                pins = row in least ? least[row] " to " most[row] : "-"
                printf "| %s | %d | %d | %s | `%s` | %s |\n", words[1], passed[row], failed[row], pins, options[row], commits[row]
            }
        }' | LC_ALL=C sort
}
