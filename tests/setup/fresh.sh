#!/usr/bin/env bash
# Tries the README's two commands on new systems: a minimal Debian 12 and Debian 13, in which each is the first command once
# and the second once.
#
#   tests/setup/fresh.sh            ./motet run, ./motet test, and the other order (as long as two whole tests for each system)
#   tests/setup/fresh.sh --run      ./motet run alone, as the first command
#   tests/setup/fresh.sh --test     ./motet test first, then ./motet run
#   tests/setup/fresh.sh --set-up   only what they install, in both orders; nothing is compiled
#
# MOTET_FRESH_SUITES names other suites of Debian, MOTET_FRESH_ORDER ("run test" or "test run") one order. The mirror, its keys and the proxies are those of this computer's own apt
# configuration. The systems lie below target/fresh and run in mount and process namespaces of their own: when this script
# ends, however it ends, the kernel ends their processes and takes their mounts back. Minimal systems and downloaded packages
# stay there for the next time.
set -euo pipefail

self=$(readlink -f "${BASH_SOURCE[0]}")
MOTET_ROOT=$(dirname "$self")/../..
MOTET_ROOT=$(realpath "$MOTET_ROOT")
# shellcheck source=scripts/setup.sh
. "$MOTET_ROOT/scripts/setup.sh"
fresh=$out/fresh
read -ra suites <<<"${MOTET_FRESH_SUITES:-bookworm trixie}"

fresh_main() {
    local what=${1---all} orders
    case $what in
        --inside)
            inside "${@:2}"
            return
            ;;
        --all | --set-up)
            orders=("run test" "test run")
            [[ ! ${MOTET_FRESH_ORDER-} ]] || orders=("$MOTET_FRESH_ORDER")
            ;;
        --run) orders=(run) ;;
        --test) orders=("test run") ;;
        *) say "tests/setup/fresh.sh: unknown option '$what'; there are --run, --test and --set-up" && exit 64 ;;
    esac
    check_permissions
    [[ ! ${MOTET_FRESH-} || $what != --set-up ]] || not_permitted "there is nothing new about a system that such a test made"
    mkdir -p "$fresh"
    exec 9>"$fresh/lock"
    flock --nonblock 9 || { say "waiting for another 'test fresh' to end" && flock 9; }
    log=$fresh/fresh.log && : >"$log"
    get_mmdebstrap
    # The lock is this shell's, not that of the systems.
    local suite system systems=() failed=()
    trap end_systems EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # All at a time, because they mostly wait; each has its log.
    for suite in "${suites[@]}"; do
        try_suite "$suite" "$what" "${orders[@]}" 9>&- &
        systems+=($!)
    done
    for system in "${systems[@]}"; do wait "$system" || failed+=("$system"); done
    systems=()
    [[ ${#failed[@]} -eq 0 ]] || exit 1
}

# Says what is missing, with the exit code for "not permitted".
check_permissions() {
    local why
    [[ $EUID -eq 0 ]] || not_permitted "new systems are made by root: $(id -un) may neither mount nor change the root folder"
    read_os
    $is_debian || not_permitted "new systems are made with Debian's tools and mirror; this is $os_name"
    why=$(unshare --mount --pid --fork mount -t tmpfs tmpfs /mnt 2>&1) ||
        not_permitted "new systems need mounts of their own, which are not allowed here (${why//$'\n'/; }); a container needs CAP_SYS_ADMIN for that (docker run --privileged)"
}

not_permitted() { say "$1" && exit 77; }

# shellcheck disable=SC2317  # A trap calls it.
# End of the script: the systems' first processes die, and all else in them with those.
end_systems() {
    local pid
    for pid in "${systems[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    wait
    rm -rf --one-file-system "$fresh"/*.root "$fresh"/*.partial
}

get_mmdebstrap() {
    ! command -v mmdebstrap >/dev/null || return 0
    run_apt "$own_apt" update
    announce_packages "$own_apt" mmdebstrap
    consent
    repair_packages
    install_packages "$own_apt" mmdebstrap
}

# ---------------------------------------------------------------------------------------------------------------------
# Systems

# try_suite SUITE WHAT ORDER...
try_suite() {
    local suite=$1 what=$2 order system log started
    for order in "${@:3}"; do
        system=$fresh/$suite-${order/ /-}.root
        log=$fresh/$suite-${order/ /-}.log
        started=$SECONDS
        unshare --mount --pid --fork --kill-child "$self" --inside "$suite" "$system" "$what" "$order" </dev/null >"$log" 2>&1 &
        trap 'kill -KILL $! 2>/dev/null; exit 143' TERM
        wait $! || {
            say "on a new $suite, $what ${order/ /, then }: failed"
            tail -n 25 "$log" | sed 's/^/    /' >&2
            say "all of it: $log"
            return 1
        }
        say "on a new $suite, $what ${order/ /, then }: passed ($((SECONDS - started)) s)"
        rm -rf --one-file-system "$system"
    done
}

# inside SUITE SYSTEM WHAT LEVELS: the first process of the namespaces.
inside() {
    local suite=$1 system=$2 what=$3 level levels
    read -ra levels <<<"$4"
    read_os
    make_base "$suite"
    rm -rf --one-file-system "$system"
    mkdir "$system"
    tar -xf "$fresh/$suite.tar" -C "$system"
    furnish "$suite" "$system"
    for level in "${levels[@]}"; do
        say "$what: $level"
        case $what in
            --set-up) enter "$system" scripts/setup.sh --no-build "$level" ;;
            *) try_command "$system" "$level" ;;
        esac
    done
    [[ $what != --set-up ]] || check_nothing_missing "$system" "${levels[@]}"
}

# What the README says, as it says it.
try_command() {
    local said
    if [[ $2 == test ]]; then
        enter "$1" ./motet test
        return
    fi
    said=$(enter "$1" ./motet run -- 'uname -m; on riscv64 uname -m')
    [[ $said == $'x86_64\nriscv64' ]] || { say "./motet run printed: $said" && return 1; }
}

# A second call finds everything.
check_nothing_missing() {
    local level said
    for level in "${@:2}"; do
        said=$(enter "$1" scripts/setup.sh --no-build "$level" 2>&1)
        [[ ! $said ]] || { say "the second set-up of '$level' still has to do: $said" && return 1; }
    done
}

# make_base SUITE: a minimal system as a tar archive, a week old at most.
make_base() {
    local base=$fresh/$1.tar packages=()
    [[ -z $(find "$base" -mtime -7 2>/dev/null) ]] || return 0
    say "making a minimal $1"
    mkdir -p "$fresh/$1.archives"
    # A mirror that is reached over TLS needs certificates before anything else.
    sources "$1" >"$base.sources"
    ! grep -q https: "$base.sources" || packages=(--include=ca-certificates)
    own_acquire >"$base.acquire"
    rm -rf --one-file-system "$base.partial" && mkdir "$base.partial"
    TMPDIR=$base.partial mmdebstrap --mode=root --variant=minbase --format=tar "${packages[@]}" --aptopt="$base.acquire" \
        "$1" - <"$base.sources" >"$base.partial/tar"
    mv "$base.partial/tar" "$base"
    rm -rf "$base.partial"
}

# SUITE's entries on the mirrors that this computer uses, its security updates if this computer uses those.
sources() {
    local line security
    line=$(source_line "$1")
    echo "$line"
    echo "${line/ $1 / $1-updates }"
    security=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v name="^($codename|stable|oldstable)-security\$" '$2 ~ name { print $1; exit }')
    [[ ! $security ]] || sed -E "s|^(deb (\[[^]]*\] )?)[^ ]+ $1 |\1$security $1-security |" <<<"$line"
}

# How this computer's apt reaches mirrors: proxies and the like.
own_acquire() {
    apt-config dump --no-empty --format '%F "%v";%n' Acquire | grep -E '^Acquire::(https?::|Check-|Retries|ForceIPv)' || true
}

# furnish SUITE SYSTEM: the checkout as it is, what a kernel gives a system, and how this computer reaches registries.
furnish() {
    local archives=$fresh/$1.archives system=$2 device file number=0
    tar -C "$root" --exclude=./target --exclude=./.git -cf - . | tar -xf - --one-top-level="$system/motet" --no-same-owner
    # A test system need not survive a power failure.
    echo force-unsafe-io >"$system/etc/dpkg/dpkg.cfg.d/unsafe-io"
    mkdir -p "$archives/partial"
    mount --bind "$archives" "$system/var/cache/apt/archives"
    mount -t proc proc "$system/proc"
    mount -t sysfs -o ro sysfs "$system/sys" 2>/dev/null || true
    mount -t tmpfs -o mode=755 tmpfs "$system/dev"
    mkdir "$system"/dev/{pts,shm}
    for device in null zero full random urandom tty; do
        : >"$system/dev/$device"
        mount --bind "/dev/$device" "$system/dev/$device"
    done
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$system/dev/pts"
    mount -t tmpfs tmpfs "$system/dev/shm"
    ln -s pts/ptmx "$system/dev/ptmx"
    ln -s /proc/self/fd "$system/dev/fd"
    for file in stdin stdout stderr; do ln -s "fd/$((number++))" "$system/dev/$file"; done
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf ~/.cargo/config ~/.cargo/config.toml ~/.config/pip/pip.conf ~/.config/go/env; do
        [[ ! -f $file ]] || show "$file" "$system/${file/#"$HOME"//root}"
    done
    # Authorities that this computer trusts besides the public ones. What installs the public ones adds them.
    [[ ! -d /usr/local/share/ca-certificates ]] || cp -r /usr/local/share/ca-certificates "$system/usr/local/share/"
}

# show FILE PLACE: the file itself, which is nowhere copied.
show() {
    mkdir -p "$(dirname "$2")"
    rm -f "$2" && : >"$2"
    mount --bind -o ro "$1" "$2"
}

# enter SYSTEM COMMAND...: as root, with a new system's environment and this computer's ways to registries.
enter() {
    local variable environment=(HOME=/root TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin MOTET_FRESH=1)
    for variable in {http,https,all,no}_proxy {HTTP,HTTPS,ALL,NO}_PROXY GOPROXY GOSUMDB GONOSUMDB PIP_INDEX_URL PIP_EXTRA_INDEX_URL CI; do
        [[ ! ${!variable-} ]] || environment+=("$variable=${!variable}")
    done
    # The folder is the project's; `chroot` itself goes to /.
    env -i "${environment[@]}" chroot "$1" sh -c 'cd /motet && exec "$@"' sh "${@:2}"
}

fresh_main "$@"
exit
