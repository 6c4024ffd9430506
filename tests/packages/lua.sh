# Lua 5.1, with its programs for tests.
build() { make -C src -j2 CC="$CC" AR="$AR rcu" RANLIB="$RANLIB" MYCFLAGS=-DLUA_USE_POSIX MYLIBS= all; }
check() {
    cd test
    for name in bisect cf factorial fibfor hello sieve sort trace-calls trace-globals; do
        echo "-- $name"
        ../src/lua $name.lua || return
    done
    for name in xd globals; do ../src/lua $name.lua <hello.lua || return; done
    printf 'a\t1\na\t2\nb\t3\n' | ../src/lua table.lua && ../src/lua fib.lua | cut -f 1-3,5
    ../src/lua luac.lua life.lua && wc -c <luac.out && ../src/luac -l hello.lua | grep -c KONST
    # readonly.lua ends by an error, with a message that begins with the program's name.
    ../src/lua echo.lua a b c && ../src/lua readonly.lua 2>&1 | sed 's/^[^ ]*: //'
    PATH=/bin USER=nobody ../src/lua env.lua
}
files="src/lua src/luac test"
