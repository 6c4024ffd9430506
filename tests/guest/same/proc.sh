# What programs read about processes.
for isa in x86_64 aarch64 riscv64; do
    on $isa sh -c '[ -d /proc/$$ ] && echo "a directory"'
    on $isa sh -c '[ -d /proc/self ] && echo "self"'
    on $isa sh -c 'read pid rest < /proc/self/stat; [ "$pid" = $$ ] && echo "own process id"'
    on $isa readlink /proc/self/cwd | sed 's|.*/||' | tr -c '\n' . | sed 's/\.\.*/named/'
    on $isa sh -c 'line=$(tr "\0" "|" < /proc/$$/cmdline); echo "$line"' _ one 'two words' | sed 's/.*echo/echo/'
    on $isa grep -c '^MemTotal: *[1-9][0-9]* kB$' /proc/meminfo
    on $isa awk '{ print ($1 > 0) }' /proc/uptime
    on $isa sh -c 'exec 7< /dev/null; readlink /proc/self/fd/7'
    on $isa grep '^Pid:' /proc/self/status | grep -c '[0-9]'
    on $isa grep -cx -e 'Cpus_allowed:.[0-9a-f,]*' -e 'Cpus_allowed_list:.[0-9,-]*' /proc/self/status
    on $isa sh -c 'ls /proc/self/fd >/dev/null && echo "descriptors"'
    on $isa grep -c stack /proc/self/maps
    on $isa cut -c 1-26,69- /proc/self/limits
    on $isa sh -c 'ulimit -n 77; grep "open files" /proc/$$/limits'
    on $isa awk '$5 == "/proc" && / - proc proc / { print "proc is mounted"; exit }' /proc/self/mountinfo
    on $isa sh -c '[ -e /proc/self/task/$$/task ] || echo "a thread has no threads"'
    on $isa sh -c 'ls /proc/$$/task/$$ | grep -cx -e task -e stat -e status -e comm -e fd -e maps'
    on $isa sh -c 'cd -P /proc/$$/task/$$/fd && cd -P .. && pwd -P' | tr -d '0-9'
    on $isa sh -c 'cd -P /proc/$$/task/$$ && cd -P .. && pwd -P' | tr -d '0-9'
    on $isa sh -c 'readlink -f /proc/thread-self' | tr -d '0-9'
    on $isa sh -c 'read pid rest < /proc/thread-self/stat; [ "$pid" = $$ ] && echo "own thread id"'
    on aarch64 sleep 50 &
    until on $isa cat /proc/$!/status | grep '^State:.*S'; do sleep 0.05; done
    kill $!
    wait $! 2>/dev/null
    on $isa test -e /proc/$! || echo "gone"
done
