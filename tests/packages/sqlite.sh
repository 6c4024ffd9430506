# SQLite, with its program of random statements, whose output is without the times that they take.
# One object file after the other: their symbols say which functions there are.
build() {
    "$CC" -DSQLITE_PRIVATE= -DSQLITE_OMIT_LOAD_EXTENSION -c build/sqlite3.c -o sqlite3.o &&
        "$CC" -Ibuild -c test/speedtest1.c -o speedtest1.o &&
        "$CC" sqlite3.o speedtest1.o -o speedtest1 -lm -lpthread
}
check() {
    for set in main cte fp orm; do
        for place in --memdb test.db; do
            rm -f test.db
            ./speedtest1 --size 1 --verify --testset $set $place | sed 's/ *[0-9.]*s$//'
        done
    done
}
files="speedtest1"
# One file of eight megabytes: more takes a minute.
levels="-O0"
