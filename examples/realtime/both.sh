# Linux computes in one virtual machine. A real-time system answers to its timer in another one, on the same core.
vm run --memory 256 --append 'console=ttyS0 quiet' --initrd /in/initrd /in/linux </dev/null >/tmp/linux 2>&1 &
until grep -q 'is up' /tmp/linux; do
    kill -0 $! || exit 1
    sleep 0.2
done
grep 'is up' /tmp/linux
vm run --real-time 50 --append 'test=response interval_ms=300' /in/guest-rtos
vm list
kill -KILL $!
wait
