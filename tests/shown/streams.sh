# socat and iperf3, a server of one instruction set and a client of another.
at=/programs
$at/amd64/socat TCP-LISTEN:7000,fork,reuseaddr SYSTEM:'tr a-z A-Z' &
$at/amd64/socat UDP-RECVFROM:7001,fork SYSTEM:'rev' &
$at/amd64/socat UNIX-LISTEN:/tmp/relay,fork TCP:127.0.0.1:7000 &
$at/amd64/socat PTY,link=/tmp/line,raw,echo=0 TCP-LISTEN:7002,reuseaddr &
sleep 0.5
for n in 1 2 3; do echo "client $n" | $at/riscv64/socat -t 5 - TCP:localhost:7000,nodelay; done
echo 'a datagram' | $at/riscv64/socat -t 1 - UDP:127.0.0.1:7001
echo 'relayed' | $at/riscv64/socat -t 5 - UNIX-CONNECT:/tmp/relay
echo 'typed' >/tmp/typed
$at/riscv64/socat -u TCP:127.0.0.1:7002 - >/tmp/line.out & reader=$!
sleep 0.3; cat /tmp/typed >/tmp/line; sleep 0.3; kill $reader; cat /tmp/line.out
kill $(jobs -p) 2>/dev/null
$at/arm64/iperf3 -s -D -I /tmp/iperf.pid --logfile /tmp/iperf.log
# The server takes a client when it has done with the last one.
client() { for _ in $(seq 50); do $at/riscv64/iperf3 -c 127.0.0.1 "$@" >/tmp/iperf && return; sleep 0.2; done; cat /tmp/iperf; }
client -n 4M -J
grep -A 4 '"sum_received"' /tmp/iperf | grep -c '"bytes":.*4194304'
client -n 2M -R -P 2
grep -c receiver /tmp/iperf
client -u -b 4M -n 200K
grep -c receiver /tmp/iperf
kill $(cat /tmp/iperf.pid)
