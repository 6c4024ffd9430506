# Redis: a server of AArch64, with threads that read and write, and clients of RISC-V.
server=/programs/arm64/redis-server
client=/programs/riscv64/redis-cli

# It looks in /proc/self/smaps, which there is not, for an old fault of Linux on AArch64.
$server --save '' --ignore-warnings ARM64-COW-BUG --dir /tmp --io-threads 2 --unixsocket /tmp/redis.sock --pidfile /tmp/redis.pid --daemonize yes --logfile /tmp/redis.log >/tmp/started || cat /tmp/started
for _ in $(seq 100); do $client ping >/tmp/answer 2>&1 && break || sleep 0.1; done
cat /tmp/answer
$client info server | tr -d '\r' | sed -n 's/^os:.* //p'
/programs/riscv64/redis-benchmark -n 200 -c 20 -P 4 -d 2000 -t set,get,lpush --csv | cut -d, -f1
$client -s /tmp/redis.sock incrby counter 42
# In the background, a child writes what the server's memory is at this moment.
$client bgsave
for _ in $(seq 100); do $client info persistence | grep -q 'rdb_bgsave_in_progress:0' && break || sleep 0.1; done
$client info persistence | tr -d '\r' | grep rdb_last_bgsave_status
$client info clients | tr -d '\r' | grep -E '^(connected|blocked)_clients'
$client shutdown nosave
grep -c 'bye bye' /tmp/redis.log
# Else it has nothing to say of the system, but that memory is not promised beyond what there is.
grep ' # ' /tmp/redis.log | grep -v -e overcommit -e 'bye bye' -e 'Failed to test the kernel' || :
