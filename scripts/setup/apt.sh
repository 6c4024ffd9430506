# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by scripts/setup.sh: apt, on this computer's behalf.
#
# Every call of apt names the *context* it runs in: a file of apt options. `own_apt` is this computer's own configuration;
# a function `context_...` writes another one, with lists and sources of its own, into a folder that belongs to the operation
# that needs it. Nothing else decides which archive apt sees.

own_apt=/dev/null

# ---------------------------------------------------------------------------------------------------------------------
# Contexts

# context_of_debian DIR ARCHITECTURE...: Debian's archive alone, for packages of these architectures, with apt's files below DIR.
# Debian 12 has no riscv64; Debian 13 on the same mirror has.
context_of_debian() {
    local suite=
    [[ $codename != bookworm ]] || suite=trixie
    write_private_context "$1" "$(printf '%s\n' "${@:2}" | sort -u | paste -sd ,)"
    source_line "$suite" >"$1/sources.list"
}

# Debian's archive alone, of this computer's own release, sources included, with apt's files below DIR.
context_for_sources() {
    write_private_context "$1" "$(dpkg --print-architecture)"
    {
        source_line ''
        [[ $codename != bookworm ]] || source_line bookworm-backports
    } | sed 'p; s/^deb /deb-src /' >"$1/sources.list"
}

# This computer's own sources and Debian 12's backports, installing into this computer; DIR has the lists. Only QEMU and its
# firmware come from backports: newer libraries from there would keep Debian's own packages from being installed later.
context_with_backports() {
    rm -rf "$1" && mkdir -p "$1"/{sources,lists/partial}
    source_line bookworm-backports >"$1/sources/motet-backports.list"
    printf 'Package: src:qemu src:seabios src:opensbi\nPin: release n=bookworm-backports\nPin-Priority: 500\n' >"$1/preferences"
    find /etc/apt/sources.list.d \( -name '*.list' -o -name '*.sources' \) -exec cp -t "$1/sources" {} +
    cat >"$1/apt.conf" <<CONF
APT::Sandbox::User "root";
Dir::State::lists "$1/lists";
Dir::Etc::SourceParts "$1/sources";
Dir::Etc::Preferences "$1/preferences";
CONF
}

# write_private_context DIR ARCHITECTURES: apt knows nothing of what this computer has installed, and all its files are below DIR.
write_private_context() {
    rm -rf "$1" && mkdir -p "$1"/{lists,cache}/partial
    : >"$1/status"
    cat >"$1/apt.conf" <<CONF
APT::Sandbox::User "root";
APT::Architectures "$2";
Dir::State "$1";
Dir::State::lists "$1/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
Dir::Cache::archives "$1/cache";
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
}

# This computer's own entry for Debian, as `URI SUITE`: the first whose release file says Debian, or, before the first
# `apt-get update`, the first with Debian's suite name.
debian_entry() {
    local fields='$(REPO_URI) $(RELEASE) $(COMPONENT)' names="$codename|stable|oldstable|testing|unstable|sid"
    {
        apt-get indextargets --format "$fields \$(ORIGIN)/\$(LABEL)" 'Created-By: Packages' | grep ' Debian/Debian$' || true
        apt-get indextargets --no-release-info --format "$fields" 'Created-By: Packages'
    } | awk -v names="^($names)\$" '$2 ~ names && $3 == "main" { print $1, $2; exit }'
}

no_debian_entry() { fail "apt knows no Debian main archive; see /etc/apt/sources.list*"; }

# Where this computer gets Debian from.
debian_uri() {
    local uri _
    read -r uri _ < <(debian_entry) || no_debian_entry
    echo "${uri%/}"
}

# One line for a suite of the same mirror, believed by the same keys that came with Debian.
source_line() {
    local uri suite key option=
    read -r uri suite < <(debian_entry) || no_debian_entry
    for key in /usr/share/keyrings/debian-archive-keyring.{pgp,gpg}; do
        [[ ! -e $key ]] || option="[signed-by=$key] "
    done
    echo "deb $option$uri ${1:-$suite} main"
}

# ---------------------------------------------------------------------------------------------------------------------
# Calls

# apt_command CONTEXT COMMAND...: apt-get, apt-cache or apt-helper, in the language that their answers are read in.
apt_command() { DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$2" -q -c "$1" "${@:3}"; }

# run_apt CONTEXT ARGUMENT...: apt-get, with what it says in the log.
run_apt() {
    local before waits=60
    while :; do
        before=$(stat -c %s "$log")
        ! apt_command "$1" apt-get -y "${@:2}" >>"$log" 2>&1 || return 0
        # apt waits for dpkg's lock when told to, but not for those of its lists and downloads.
        tail -c "+$((before + 1))" "$log" | grep -q 'Could not get lock' || break
        ((waits-- > 0)) || break
        [[ $waits -ne 59 ]] || say "waiting for another package manager to end"
        sleep 5
    done
    fail "apt-get ${*:2} failed" with-log
}

# download_file CONTEXT URI FILE SHA256: as apt downloads, through its proxies and with its credentials. Fails if the archive
# has no such file, or another one.
download_file() { PATH=$PATH:/usr/lib/apt apt_command "$1" apt-helper download-file "$2" "$3" "SHA256:$4" >>"$log" 2>&1; }

# candidate CONTEXT PACKAGE: the version that would be installed.
candidate() { apt_command "$1" apt-cache policy "$2" | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'; }

is_installed() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'; }

# ---------------------------------------------------------------------------------------------------------------------
# Installing

# announce_packages CONTEXT PACKAGE...: what apt would do, in its own figures.
announce_packages() {
    local answer size removed
    answer=$(apt_command "$1" apt-get -y install --no-install-recommends --print-uris "${@:2}" 2>>"$log") || {
        echo "$answer" >>"$log"
        fail "apt-get install ${*:2} is not possible" with-log
    }
    size=$(sed -n 's/^Need to get \(.*\) of archives\.$/\1 to download/p
        s/^After this operation, \(.*\) of additional disk space.*/\1 on disk/p' <<<"$answer" | paste -sd '+' | sed 's/+/, /')
    removed=$(sed -n '/^The following packages will be REMOVED:/,/^[^ ]/s/^  *//p' <<<"$answer")
    say "installing with apt${size:+ ($size)}: ${*:2}"
    [[ ! $removed ]] || say "which replaces: $removed"
}

# install_packages CONTEXT PACKAGE...: downloads, which may be interrupted and goes on where it was, then installs, which may not.
install_packages() {
    run_apt "$1" install --no-install-recommends --download-only "${@:2}"
    uninterrupted apt-get -q -y -c "$1" -o DPkg::Lock::Timeout=300 -o DPkg::Use-Pty=false \
        install --no-install-recommends "${@:2}" || fail "apt-get install ${*:2} failed" with-log
}

# What an installation left that was killed, not interrupted: unpacked packages wait to be configured.
repair_packages() {
    [[ -z $(dpkg --audit 2>/dev/null) && -z $(ls /var/lib/dpkg/updates 2>/dev/null) ]] && return
    say "finishing an installation that was cut short: dpkg --configure -a"
    uninterrupted dpkg --configure -a ||
        say "'dpkg --configure -a' failed; 'apt-get --fix-broken install' may help"
}

# uninterrupted COMMAND...: runs it to its end in a session of its own, where the terminal's Ctrl-C does not reach it; a
# signal to this shell takes effect afterwards. Should this shell be killed, the command still ends its work.
uninterrupted() {
    local signal='' status=0
    trap 'signal=INT; say_unbroken' INT
    trap 'signal=TERM; say_unbroken' TERM
    trap 'signal=HUP' HUP
    DEBIAN_FRONTEND=noninteractive setsid "$@" </dev/null >>"$log" 2>&1 &
    while :; do
        wait $! && status=0 || status=$?
        kill -0 $! 2>/dev/null || break
    done
    [[ ! $signal ]] || { wait $! && status=0 || status=$?; }
    trap - INT TERM HUP
    [[ $signal ]] || return "$status"
    say "stopped; the same command goes on from here"
    kill -s "$signal" $$
}

say_unbroken() { say "packages are being installed, which must not be cut short; stopping after that"; }
