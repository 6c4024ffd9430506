/*
 * Regions of interest for timed runs of Motet (`motet run --timed`).
 *
 *     #include "motet.h"
 *
 *     motet_roi_begin("sort");
 *     sort(numbers, count);
 *     motet_roi_end("sort");
 *
 * The run's report then says what every core of the machine did between the two calls. Entries of one name add up. If several threads are in a
 * region, it lasts from the first begin to the last end. Regions of different names may overlap. Names are UTF-8, at most 63 bytes.
 *
 * On x86-64, AArch64 and 64-bit RISC-V, each call is two loads and one instruction that does nothing. The loads bring the name into memory, where the
 * simulator reads it. On other processors a call is nothing at all. C99, C++11 and later; gcc and clang. fused/layout/src/marks.rs explains the
 * instructions.
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

/* The name's length. Also loads its first and last byte, which brings its pages into memory. */
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

/*
 * Programs for several instruction sets (`motet cc`).
 */

/* A function may be pinned at a declaration and again at its definition; each names a section. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wsection"
#endif

#define MOTET_TEXT_OF_(number) #number
#define MOTET_TEXT_OF(number) MOTET_TEXT_OF_(number)

/* For `motet cc`, which compares all pins of a function. */
#ifdef __clang__
#define MOTET_MENTION(how, isa) annotate(how " " isa " " __FILE__ ":" MOTET_TEXT_OF(__LINE__)),
#else
#define MOTET_MENTION(how, isa)
#endif

/* Before the definition of a function, or before one of its declarations: wherever the function is called, it runs on a core with this instruction
 * set ("x86_64", "aarch64" or "riscv64"). Each function gets a section of its own. All pins of a function must name the same instruction set. */
#define MOTET_ON(isa)                                                                                                  \
    __attribute__((noinline, used, MOTET_MENTION("motet.on", isa)                                                      \
                       section(".text.motet.on." isa "." MOTET_TEXT_OF(__COUNTER__))))

/* As MOTET_ON, but the function never runs on another instruction set. If the machine has no island with that instruction set, a call of the function
 * ends the process with a message. */
#define MOTET_ONLY(isa)                                                                                                \
    __attribute__((noinline, used, MOTET_MENTION("motet.only", isa)                                                    \
                       section(".text.motet.only." isa "." MOTET_TEXT_OF(__COUNTER__))))

/* Before the definition of a variable: places it near an island. The island is the first one with an instruction set, as in
 * MOTET_DATA_ON("riscv64"), or the one with a number, as in MOTET_DATA_ON("2"). Variables of one island share pages. */
#define MOTET_DATA_ON(island)                                                                                          \
    __attribute__((used, section(".data.motet.on." island "." MOTET_TEXT_OF(__COUNTER__))))

/* A system call that may run a function of the program. So the compiler must treat it as a call of an unknown function. */
static __inline__ long motet_system_call(long number, long first, long second, long third) {
#if defined(__x86_64__)
    long result = number;
    __asm__ volatile("syscall" : "+a"(result), "+D"(first), "+S"(second), "+d"(third)
                     : : "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
                       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register long x2 __asm__("x2") = third;
    __asm__ volatile("svc 0" : "+r"(x8), "+r"(x0), "+r"(x1), "+r"(x2)
                     : : "x3", "x4", "x5", "x6", "x7", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                       "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
                       "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31", "memory", "cc");
    return x0;
#elif defined(__riscv) && __riscv_xlen == 64
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = first;
    register long a1 __asm__("a1") = second;
    register long a2 __asm__("a2") = third;
    __asm__ volatile("ecall" : "+r"(a7), "+r"(a0), "+r"(a1), "+r"(a2)
                     : : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a3", "a4", "a5", "a6",
#ifdef __riscv_flen
                       "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "ft8", "ft9", "ft10", "ft11", "fa0",
                       "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7",
#endif
#ifdef __riscv_vector
                       "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
                       "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                       "v28", "v29", "v30", "v31", "vl", "vtype",
#endif
                       "memory");
    return a0;
#else
    (void)number, (void)first, (void)second, (void)third;
    return -38; /* ENOSYS */
#endif
}

/* The number of the island that the thread runs on, as in the machine's description; -1 where there are none. */
static __inline__ int motet_island(void) {
    long island = motet_system_call(0x4d01, 0, 0, 0);
    return island < 0 ? -1 : (int)island;
}

#if defined(__cplusplus)
extern "C" {
#endif
/* Of `motet cc`'s C library: whether jumps may lead over calls across instruction sets, although no function is pinned. */
extern int __motet_crosses __attribute__((weak));
#if defined(__cplusplus)
}
#endif

/* Calls function(argument) on a core of an island, and returns its result. Where there are no islands, calls it here. If all of the island's cores are
 * busy, or the island has died, the call does what motet_crossings() has chosen, as calls of pinned functions do. If the machine has no such island,
 * or the program has no text for it, the result is -(error number). */
static __inline__ void *motet_call_on(int island, void *(*function)(void *), void *argument) {
    if (motet_island() < 0) {
        return function(argument);
    }
    if (&__motet_crosses) {
        __motet_crosses = 1;
    }
    return (void *)motet_system_call(0x4d00, island, (long)function, (long)argument);
}

/* What calls do that an island cannot serve (at once): */
#define MOTET_WAIT 1  /* they wait for a core; the default for busy islands */
#define MOTET_LOCAL 2 /* they run on the caller's core, and are counted; the default for missing islands */
#define MOTET_END 3   /* they end the process with a message */

/* Chooses what calls do, for this process, its children and the programs that it executes. `busy`: calls of islands whose cores are all busy.
 * `missing`: calls of instruction sets without an island (not MOTET_WAIT). 0: as before. Returns 0 or -(error number). */
static __inline__ int motet_crossings(int busy, int missing) {
    return (int)motet_system_call(0x4d02, busy, missing, 0);
}

/* Moves the calling thread to a core with an extension of its instruction set that only some cores have, such as "v", "avx2" or "sve"
 * (docs/extensions.md). The thread stays there until motet_done(). Programs need not call this: an instruction of the extension moves the thread, too,
 * for as long as more such instructions follow. 0 or -(error number). EINVAL: there is no such extension. ENODEV: no core has it. ENOSYS: this is
 * not Motet. */
static __inline__ int motet_need(const char *extension) {
    return (int)motet_system_call(0x4d06, (long)extension, 0, 0);
}

/* The calling thread will not use the extension for a while. As after any call, its vector registers have no particular values. */
static __inline__ int motet_done(const char *extension) {
    return (int)motet_system_call(0x4d07, (long)extension, 0, 0);
}

#if defined(__cplusplus)
extern "C" {
#endif

/* Allocates memory near an island, in programs of `motet cc`. realloc keeps it there, free frees it. If the machine does not have that island: NULL and
 * EINVAL. Where there are no islands at all, the same as malloc. */
void *motet_malloc_on(int island, __SIZE_TYPE__ size);

#if defined(__cplusplus)
}
#endif

#endif
