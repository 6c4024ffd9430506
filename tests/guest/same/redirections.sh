# Redirections, appending, duplicates; the file is written by one instruction set and read by the next at once.
on aarch64 echo first > file
on riscv64 echo second >> file
on x86_64 sh -c 'echo third >> file'
on riscv64 cat file
on aarch64 sh -c 'echo out; echo err >&2' > both 2>&1
cat both
on riscv64 sh -c 'echo out; echo err >&2' 2>&1 >/dev/null | on aarch64 sed 's/^/piped: /'
on aarch64 sh -c 'echo to standard error' >&2
exec 3> third
on aarch64 echo by aarch64 >&3
on riscv64 echo by riscv64 >&3
on x86_64 echo by x86_64 >&3
exec 3>&-
on riscv64 cat < third
exec 4< third
read line <&4
echo "shell: $line"
on aarch64 head -c 11 <&4
on riscv64 cat <&4
exec 4<&-
on aarch64 cat < nowhere
echo "status $?"
: > empty
on riscv64 wc -c < empty
(set -C; on aarch64 echo again > file) 2>/dev/null || echo "noclobber"
on riscv64 dd of=file conv=notrunc bs=1 seek=2 2>/dev/null <<END
XYZ
END
on aarch64 cat file
exec 5<> file
on riscv64 echo over >&5
on aarch64 cat <&5
