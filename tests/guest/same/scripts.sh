# Interpreter lines, and programs that are not programs.
printf '#!/bin/sh\necho "by interpreter: $1"\nexit 8\n' > script
chmod +x script
on aarch64 ./script one
echo "status $?"
on riscv64 ./script two
echo "status $?"
printf 'echo "without a line: $1"\n' > plain
chmod +x plain
on riscv64 sh -c './plain three'
printf '#!/nowhere/interpreter\n' > broken
chmod +x broken
on aarch64 ./broken 2>/dev/null
echo "status $?"
: > empty
chmod +x empty
./empty
echo "status $?"
chmod -x script
on aarch64 ./script 2>/dev/null
echo "status $?"
mkdir directory
on aarch64 ./directory 2>/dev/null
echo "status $?"
