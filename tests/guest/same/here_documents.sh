# Here-documents, short ones and ones larger than a pipe.
name=motet
on aarch64 cat <<END
expanded: $name $((6 * 7)) $(on riscv64 echo inner)
END
on riscv64 cat <<'END'
literal: $name $(echo no)
END
on x86_64 cat <<-END
	tabs are removed
	END
on riscv64 sh <<'END'
echo "a script from standard input: $(on aarch64 echo nested)"
exit 7
END
echo "status $?"
large=$(seq 1 20000)
on aarch64 md5sum <<END
$large
END
