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
# Both writers wait for a reader. A writer may still be later than the other one's end, so the reader reads on until it has two lines.
asleep() { read -r stat <"/proc/$1/stat" && case ${stat##*)} in ' S'*) ;; *) false ;; esac; }
on riscv64 sh -c 'echo a > there' &
first=$!
on aarch64 sh -c 'echo b > there' &
until asleep $first && asleep $!; do usleep 10000; done
exec 5< there
on x86_64 sh -c 'for line in 1 2; do until read -r line; do usleep 10000; done; echo "$line"; done' <&5 | sort
wait
on x86_64 cat <&5
exec 5<&-
on riscv64 test -p back && echo "it is a pipe"
stat -c %F back
rm there back
