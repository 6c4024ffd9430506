#!/usr/bin/env bash
# examples/realtime/linux.sh DIR: puts Debian's kernel for RISC-V and a ram disk with busybox into a folder, as `linux` and `initrd`.
set -euo pipefail

folder=${1?a folder}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
kernel=$target/linux/riscv64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Where `./motet bench boot` keeps it, too. Its name is written last.
mkdir -p "$folder" "$kernel"
exec 9>"$kernel/lock"
flock 9
if [[ ! -e $kernel/package ]]; then
    "$root/scripts/setup.sh" --fetch "$work" linux-image-riscv64:riscv64
    dpkg-deb --fsys-tarfile "$work"/*.deb | tar -x -O --wildcards './boot/vmlinu*' >"$kernel/vmlinuz"
    dpkg-deb --show --showformat '${Package} ${Version}' "$work"/*.deb >"$kernel/package"
fi
cp "$kernel/vmlinuz" "$folder/linux"

mkdir -p "$work/disk/bin" "$work/disk/proc"
cp "$target/userland/riscv64/busybox" "$work/disk/bin"
cp "$root/examples/realtime/init" "$work/disk/init"
chmod +x "$work/disk/init"
(cd "$work/disk" && find . | "$target/userland/$(uname -m)/busybox" cpio -o -H newc 2>/dev/null) >"$folder/initrd"
