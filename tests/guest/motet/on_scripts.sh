# `on ISA` runs a script that PATH names before the system's programs, by the interpreter of that instruction set; and what is no script as before.
mkdir scripts other
printf '#!/bin/sh\nuname -m\necho "${0##*/}:" "$@"\n' > scripts/sort
printf '#! /bin/sh -e\nfalse\necho "it goes on"\n' > scripts/stops
printf '#!/usr/bin/env sh\nuname -m\n' > scripts/by-env
printf 'no script\n' > scripts/uname
printf '#!/bin/sh\necho "behind the system"\n' > other/uname
chmod 755 scripts/* other/*
chmod 644 scripts/by-env
cp scripts/by-env named
chmod 755 named
OLD=$PATH
PATH=$PWD/scripts:$PATH:$PWD/other
for isa in aarch64 riscv64 x86_64; do
    on $isa sort "one word" two
    on $isa stops
    echo "status $?"
    on $isa uname -m
    on $isa ./scripts/sort named
    on $isa ./named
    on $isa by-env 2>/dev/null || echo "status $?"
done
PATH=$OLD
echo b | on riscv64 sort
