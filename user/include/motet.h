/*
 * Regions of interest for timed runs of Motet (`motet run --timed`).
 *
 *     #include "motet.h"
 *
 *     motet_roi_begin("sort");
 *     sort(numbers, count);
 *     motet_roi_end("sort");
 *
 * The run's report then says what every core of the machine did between the two. Entries of one name add up; if several
 * threads are in a region, it lasts from the first begin to the last end; regions of different names may overlap. Names
 * are UTF-8, at most 63 bytes.
 *
 * Each call is two loads (so that the name is in memory where the simulator looks for it) and one instruction that does
 * nothing, on any x86-64, AArch64 or 64-bit RISC-V processor; elsewhere it is nothing at all. C99, C++11 and later; gcc
 * and clang. fused/layout/src/marks.rs explains the instructions.
 */
#ifndef MOTET_H
#define MOTET_H

#define MOTET_ROI_NAME_MAX 63

#if defined(__x86_64__)
/* nop dword ptr [rax + disp32] */
#define MOTET_ROI_BEGIN ".byte 0x0f, 0x1f, 0x80\n\t.long 0x4d4f5441"
#define MOTET_ROI_END ".byte 0x0f, 0x1f, 0x80\n\t.long 0x4d4f5442"
#define MOTET_FIRST_ARGUMENT "rdi"
#define MOTET_SECOND_ARGUMENT "rsi"
#elif defined(__aarch64__)
/* movz xzr, #imm16 */
#define MOTET_ROI_BEGIN ".inst 0xd289b03f"
#define MOTET_ROI_END ".inst 0xd289b05f"
#define MOTET_FIRST_ARGUMENT "x0"
#define MOTET_SECOND_ARGUMENT "x1"
#elif defined(__riscv) && __riscv_xlen == 64
/* slti x0, x0, imm12 */
#define MOTET_ROI_BEGIN ".4byte 0x6c102013"
#define MOTET_ROI_END ".4byte 0x6c202013"
#define MOTET_FIRST_ARGUMENT "a0"
#define MOTET_SECOND_ARGUMENT "a1"
#endif

/* The name's length. Reads its ends, which brings its pages into memory. */
static inline unsigned long motet_roi_name(const char *name) {
    const volatile char *bytes = name;
    unsigned long len = name ? __builtin_strlen(name) : 0;
    if (len > 0) {
        (void)bytes[0];
        (void)bytes[(len < MOTET_ROI_NAME_MAX ? len : MOTET_ROI_NAME_MAX) - 1];
    }
    return len;
}

#ifdef MOTET_ROI_BEGIN
/* The length is known before a register is chosen: a call in between could use the registers. */
#define MOTET_MARK(instruction, name)                                                                                  \
    unsigned long motet_length = motet_roi_name(name);                                                                 \
    register const char *motet_first __asm__(MOTET_FIRST_ARGUMENT) = (name);                                           \
    register unsigned long motet_second __asm__(MOTET_SECOND_ARGUMENT) = motet_length;                                 \
    __asm__ volatile(instruction : : "r"(motet_first), "r"(motet_second) : "memory")
#else
#define MOTET_MARK(instruction, name) ((void)motet_roi_name(name))
#endif

/* A region of interest begins. */
static inline void motet_roi_begin(const char *name) {
    MOTET_MARK(MOTET_ROI_BEGIN, name);
}

/* A region of interest ends. */
static inline void motet_roi_end(const char *name) {
    MOTET_MARK(MOTET_ROI_END, name);
}

#endif
