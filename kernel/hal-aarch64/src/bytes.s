// memcpy, memmove and memset of the kernel, in place of the compiler's, which copy byte by byte where source and target do not lie
// alike, and take six times as many instructions where they do. Sixteen bytes or more go by pairs of registers; the last
// (for overlapping moves upwards: the first) sixteen are loaded before anything is stored, so they may overlap the rest.
// x0: target; x1: source, or in w1 the byte; x2: length; x0 is returned. Memory is normal, so none of it need be aligned.

    .section .text.bytes, "ax"

    .global memmove
    .balign 16
memmove:
    sub x3, x0, x1
    cmp x3, x2
    b.lo 30f                        // the target begins inside the source

    .global memcpy
memcpy:
    cmp x2, #16
    b.lo 20f
    add x4, x1, x2
    add x5, x0, x2
    ldp x14, x15, [x4, #-16]
    mov x3, x0
10: subs x2, x2, #64
    b.ls 11f
    ldp x6, x7, [x1]
    ldp x8, x9, [x1, #16]
    ldp x10, x11, [x1, #32]
    ldp x12, x13, [x1, #48]
    add x1, x1, #64
    stp x6, x7, [x3]
    stp x8, x9, [x3, #16]
    stp x10, x11, [x3, #32]
    stp x12, x13, [x3, #48]
    add x3, x3, #64
    b 10b
11: add x2, x2, #64                 // 1 to 64 bytes are left, the last 16 of which are in registers
12: subs x2, x2, #16
    b.ls 13f
    ldp x6, x7, [x1], #16
    stp x6, x7, [x3], #16
    b 12b
13: stp x14, x15, [x5, #-16]
    ret

20: add x4, x1, x2                  // fewer than 16: two loads that may overlap, then two stores
    add x5, x0, x2
    tbz x2, #3, 21f
    ldr x6, [x1]
    ldr x7, [x4, #-8]
    str x6, [x0]
    str x7, [x5, #-8]
    ret
21: tbz x2, #2, 22f
    ldr w6, [x1]
    ldr w7, [x4, #-4]
    str w6, [x0]
    str w7, [x5, #-4]
    ret
22: cbz x2, 23f
    ldrb w6, [x1]
    ldrb w7, [x4, #-1]
    tbz x2, #1, 24f
    ldrb w8, [x1, #1]
    strb w8, [x0, #1]
24: strb w6, [x0]
    strb w7, [x5, #-1]
23: ret

30: cmp x2, #16                     // downwards, from the end
    b.lo 20b
    add x4, x1, x2
    add x5, x0, x2
    ldp x14, x15, [x1]
31: subs x2, x2, #16
    b.ls 32f
    ldp x6, x7, [x4, #-16]!
    stp x6, x7, [x5, #-16]!
    b 31b
32: stp x14, x15, [x0]
    ret

    .global memset
    .balign 16
memset:
    and x1, x1, #0xff
    mov x3, #0x0101010101010101
    mul x1, x1, x3
    add x5, x0, x2
    cmp x2, #16
    b.lo 50f
    mov x3, x0
40: subs x2, x2, #64
    b.ls 41f
    stp x1, x1, [x3]
    stp x1, x1, [x3, #16]
    stp x1, x1, [x3, #32]
    stp x1, x1, [x3, #48]
    add x3, x3, #64
    b 40b
41: add x2, x2, #64
42: subs x2, x2, #16
    b.ls 43f
    stp x1, x1, [x3], #16
    b 42b
43: stp x1, x1, [x5, #-16]
    ret
50: tbz x2, #3, 51f
    str x1, [x0]
    str x1, [x5, #-8]
    ret
51: tbz x2, #2, 52f
    str w1, [x0]
    str w1, [x5, #-4]
    ret
52: cbz x2, 53f
    strb w1, [x0]
    strb w1, [x5, #-1]
    tbz x2, #1, 53f
    strb w1, [x0, #1]
53: ret
