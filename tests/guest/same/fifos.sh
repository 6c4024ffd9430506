# Named pipes between islands, both directions.
mkfifo there back
on aarch64 sh -c 'while read line; do echo "answer to $line"; done < there > back' &
exec 3> there 4< back
for number in 1 2 3 4 5; do
    echo "question $number" >&3
    on riscv64 head -n 1 <&4
done
exec 3>&-
on x86_64 cat <&4
wait
exec 4<&-
on riscv64 cat "$TEXT" > there &
on aarch64 md5sum < there
wait
on riscv64 sh -c 'echo a > there' &
on aarch64 sh -c 'echo b > there' &
sleep 2
on x86_64 cat there | sort
wait
on riscv64 test -p back && echo "it is a pipe"
stat -c %F back
rm there back
