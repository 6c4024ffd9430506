#!/bin/bash
# table.sh [CLASS…]: prints how many messages the benchmarks would need between two kernels without shared memory, as a table of Markdown.
# CC and CFLAGS choose the compiler and its options. For Linux on x86-64.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
read -ra compile <<<"${CC:-cc} -std=c11 ${CFLAGS:--O2} -I$here/../../include"

"${compile[@]}" -fPIC -shared "$here/count.c" -o "$folder/libcount.so"

echo "| program | class | schedule | messages | REQUEST | RESPONSE | SHORT | INVALIDATE pairs | MIGRATE + PAIRING + BACK | pages away (fresh) |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for class in "${@:-S}"; do
    for program in is cg mg ft; do
        "${compile[@]}" -DMIGRATE_HOOKS "-DCLASS_$class" "$here/../$program.c" -o "$folder/$program" \
            -Wl,-z,relro,-z,now "-Wl,-rpath,$folder" "-L$folder" -lcount -lm
        for schedule in alternating round-trips; do
            "$folder/$program" "$schedule" >"$folder/output" || { cat "$folder/output"; exit 1; }
            read -r _ total _ request _ response _ short _ pairs _ out _ pairing _ back _ pages _ fresh _ < <(grep ^messages "$folder/output")
            echo "| ${program^^} | $class | $schedule | $total | $request | $response | $short | $pairs | $out + $pairing + $back | $pages ($fresh) |"
        done
    done
done
