// memcpy, memmove and memset of the kernel, in place of the compiler's, which take three times as many instructions. Misaligned
// loads and stores may trap, so there are none: where source and target do not lie alike, each word is put together from two.
// a0: target; a1: source, or the byte; a2: length; a0 is returned.

    .section .text.bytes, "ax"

    .global memmove
    .balign 16
memmove:
    sub t0, a0, a1
    bltu t0, a2, 40f                // the target begins inside the source

    .global memcpy
memcpy:
    mv t0, a0
    li t1, 16
    bltu a2, t1, 30f
10: andi t1, t0, 7                  // single bytes until the target is aligned
    beqz t1, 11f
    lbu t2, 0(a1)
    sb t2, 0(t0)
    addi a1, a1, 1
    addi t0, t0, 1
    addi a2, a2, -1
    j 10b
11: andi t1, a1, 7
    bnez t1, 20f
    li t1, 64
    bltu a2, t1, 13f
12: ld a3, 0(a1)
    ld a4, 8(a1)
    ld a5, 16(a1)
    ld a6, 24(a1)
    ld a7, 32(a1)
    ld t2, 40(a1)
    ld t3, 48(a1)
    ld t4, 56(a1)
    addi a1, a1, 64
    sd a3, 0(t0)
    sd a4, 8(t0)
    sd a5, 16(t0)
    sd a6, 24(t0)
    sd a7, 32(t0)
    sd t2, 40(t0)
    sd t3, 48(t0)
    sd t4, 56(t0)
    addi t0, t0, 64
    addi a2, a2, -64
    bgeu a2, t1, 12b
13: li t1, 8
    bltu a2, t1, 30f
14: ld a3, 0(a1)
    addi a1, a1, 8
    sd a3, 0(t0)
    addi t0, t0, 8
    addi a2, a2, -8
    bgeu a2, t1, 14b
    j 30f

20: slli t1, t1, 3                  // the source lies t1 bits above the word at a4, which a5 holds
    neg t2, t1
    andi a4, a1, -8
    ld a5, 0(a4)
    li t3, 16
    bltu a2, t3, 22f
21: ld a6, 8(a4)
    srl a7, a5, t1
    ld a5, 16(a4)
    sll t4, a6, t2
    or a7, a7, t4
    srl a6, a6, t1
    sd a7, 0(t0)
    sll t4, a5, t2
    or a6, a6, t4
    sd a6, 8(t0)
    addi a4, a4, 16
    addi a1, a1, 16
    addi t0, t0, 16
    addi a2, a2, -16
    bgeu a2, t3, 21b
22: li t3, 8
    bltu a2, t3, 30f
    ld a6, 8(a4)
    srl a7, a5, t1
    sll t4, a6, t2
    or a7, a7, t4
    sd a7, 0(t0)
    addi a1, a1, 8
    addi t0, t0, 8
    addi a2, a2, -8

30: beqz a2, 32f                    // the rest, by bytes
    add a2, a2, t0
31: lbu a3, 0(a1)
    addi a1, a1, 1
    sb a3, 0(t0)
    addi t0, t0, 1
    bne t0, a2, 31b
32: ret

40: add t0, a0, a2                  // downwards, from the end
    add a1, a1, a2
    xor t1, t0, a1
    andi t1, t1, 7
    bnez t1, 45f
41: andi t1, t0, 7
    beqz t1, 42f
    beq t0, a0, 47f
    addi a1, a1, -1
    addi t0, t0, -1
    lbu t2, 0(a1)
    sb t2, 0(t0)
    j 41b
42: li t1, 8
    sub a2, t0, a0
    bltu a2, t1, 45f
43: addi a1, a1, -8
    addi t0, t0, -8
    ld a3, 0(a1)
    sd a3, 0(t0)
    addi a2, a2, -8
    bgeu a2, t1, 43b
45: beq t0, a0, 47f
46: addi a1, a1, -1
    addi t0, t0, -1
    lbu a3, 0(a1)
    sb a3, 0(t0)
    bne t0, a0, 46b
47: ret

    .global memset
    .balign 16
memset:
    mv t0, a0
    li t1, 16
    bltu a2, t1, 54f
    andi a1, a1, 0xff
    slli t2, a1, 8
    or a1, a1, t2
    slli t2, a1, 16
    or a1, a1, t2
    slli t2, a1, 32
    or a1, a1, t2
50: andi t1, t0, 7
    beqz t1, 51f
    sb a1, 0(t0)
    addi t0, t0, 1
    addi a2, a2, -1
    j 50b
51: li t1, 64
    bltu a2, t1, 53f
52: sd a1, 0(t0)
    sd a1, 8(t0)
    sd a1, 16(t0)
    sd a1, 24(t0)
    sd a1, 32(t0)
    sd a1, 40(t0)
    sd a1, 48(t0)
    sd a1, 56(t0)
    addi t0, t0, 64
    addi a2, a2, -64
    bgeu a2, t1, 52b
53: li t1, 8
    bltu a2, t1, 54f
55: sd a1, 0(t0)
    addi t0, t0, 8
    addi a2, a2, -8
    bgeu a2, t1, 55b
54: beqz a2, 57f
    add a2, a2, t0
56: sb a1, 0(t0)
    addi t0, t0, 1
    bne t0, a2, 56b
57: ret
