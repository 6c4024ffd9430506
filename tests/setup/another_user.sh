#!/usr/bin/env bash
# A built checkout runs for a user who may only read it, without an environment and from a folder that is gone.
# Starts the real machine, once.
set -euo pipefail

root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
as_nobody=()
if [[ $EUID -eq 0 ]]; then
    as_nobody=(setpriv --reuid nobody --regid nogroup --clear-groups)
    if ! "${as_nobody[@]}" test -r "$root/motet" -a -r "${CARGO_TARGET_DIR:-$root/target}/setup/built"; then
        echo "another_user.sh: other users cannot read $root here, so root runs it" >&2
        as_nobody=()
    fi
fi

gone=$(mktemp -d)
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
chmod 755 "$gone"
cd "$gone"
rmdir "$gone"
said=$("${as_nobody[@]}" env -i ${CARGO_TARGET_DIR:+"CARGO_TARGET_DIR=$CARGO_TARGET_DIR"} "$root/motet" run --quiet -- 'uname -m; on riscv64 uname -m' 2>"$errors") ||
    { echo "another_user.sh: the status is $?" && cat "$errors" && exit 1; } >&2
[[ $said == $'x86_64\nriscv64' ]] || { echo "another_user.sh: the machine says: $said" && cat "$errors" && exit 1; } >&2
# What bash says of the folder is not Motet's.
! grep -q '^motet:' "$errors" || { cat "$errors" >&2 && exit 1; }
echo "another_user.sh: passed" >&2
