# What tools say of the loopback device; the host has more interfaces, and packets.
for isa in x86_64 aarch64 riscv64; do
    echo "== network"
    on $isa ifconfig lo | on $isa grep -v -e packets: -e bytes:
    on $isa route -n | on $isa head -2
    on $isa netstat -tln | on $isa head -2
    on $isa netstat -xl | on $isa head -2
    on $isa readlink /proc/net
    on $isa sh -c 'cd /sys/class/net/lo && head -n 1 address mtu operstate flags ifindex type && pwd -P'
done
