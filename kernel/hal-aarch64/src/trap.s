// Entering user mode, and the exception vectors.
//
// While user code runs, SP_EL1 points at its UserFrame, so the vectors store user registers without a scratch register.
// `motet_enter_user` is a call that returns at the next exception: the vector restores what the call saved.

.text
// Where a call that enters something keeps what it has to restore.
.macro keep_kernel
    stp x29, x30, [sp, #-96]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    mrs x2, tpidr_el1
    mov x3, sp
    str x3, [x2, #{kernel_sp}]
.endm

// Registers from the frame, but for PSTATE, and there. x0: the UserFrame; x1: the program counter.
.macro enter
    ldp x30, x3, [x0, #({regs} + 8 * 30)]
    ldr x4, [x0, #({regs} + 8 * 32)]
    msr elr_el1, x1
    msr sp_el0, x3
    msr tpidr_el0, x4
    mov sp, x0
    ldp x2, x3, [x0, #({regs} + 8 * 2)]
    ldp x4, x5, [x0, #({regs} + 8 * 4)]
    ldp x6, x7, [x0, #({regs} + 8 * 6)]
    ldp x8, x9, [x0, #({regs} + 8 * 8)]
    ldp x10, x11, [x0, #({regs} + 8 * 10)]
    ldp x12, x13, [x0, #({regs} + 8 * 12)]
    ldp x14, x15, [x0, #({regs} + 8 * 14)]
    ldp x16, x17, [x0, #({regs} + 8 * 16)]
    ldp x18, x19, [x0, #({regs} + 8 * 18)]
    ldp x20, x21, [x0, #({regs} + 8 * 20)]
    ldp x22, x23, [x0, #({regs} + 8 * 22)]
    ldp x24, x25, [x0, #({regs} + 8 * 24)]
    ldp x26, x27, [x0, #({regs} + 8 * 26)]
    ldp x28, x29, [x0, #({regs} + 8 * 28)]
    ldp x0, x1, [x0, #{regs}]
    eret
.endm

// x0: the UserFrame. Returns the exception syndrome, or all ones for an interrupt.
.globl motet_enter_user
.balign 64
motet_enter_user:
    keep_kernel
    ldp x1, x2, [x0, #{pc}]
    and x2, x2, #0xfffff000     // EL0, AArch64, nothing masked, whatever the frame says
    msr spsr_el1, x2
    enter

// The same for a guest, whose PSTATE is in SPSR_EL2 and whose system registers are in the core, but for its TPIDR_EL1: x1. The kernel's
// is in TPIDR_EL2, too.
.globl motet_enter_guest
.balign 64
motet_enter_guest:
    keep_kernel
    msr tpidr_el1, x1
    ldr x1, [x0, #{pc}]
    enter

.macro store_user
    stp x0, x1, [sp, #{regs}]
    store_others
.endm

// All but x0 and x1, which are there already. x0 stays as it is.
.macro store_others
    store_temporary
    store_kept
.endm

// What functions keep, but for x19; and x30, and what is in no general register.
.macro store_kept
    stp x20, x21, [sp, #({regs} + 8 * 20)]
    stp x22, x23, [sp, #({regs} + 8 * 22)]
    stp x24, x25, [sp, #({regs} + 8 * 24)]
    stp x26, x27, [sp, #({regs} + 8 * 26)]
    stp x28, x29, [sp, #({regs} + 8 * 28)]
    mrs x1, elr_el1
    mrs x2, spsr_el1
    mrs x3, sp_el0
    mrs x4, tpidr_el0
    stp x1, x2, [sp, #{pc}]
    stp x30, x3, [sp, #({regs} + 8 * 30)]
    str x4, [sp, #({regs} + 8 * 32)]
.endm

// Those that functions need not keep, but for x0, x1 and x30; and x19.
.macro store_temporary
    stp x2, x3, [sp, #({regs} + 8 * 2)]
    stp x4, x5, [sp, #({regs} + 8 * 4)]
    stp x6, x7, [sp, #({regs} + 8 * 6)]
    stp x8, x9, [sp, #({regs} + 8 * 8)]
    stp x10, x11, [sp, #({regs} + 8 * 10)]
    stp x12, x13, [sp, #({regs} + 8 * 12)]
    stp x14, x15, [sp, #({regs} + 8 * 14)]
    stp x16, x17, [sp, #({regs} + 8 * 16)]
    stp x18, x19, [sp, #({regs} + 8 * 18)]
.endm

.macro load_temporary
    ldp x2, x3, [sp, #({regs} + 8 * 2)]
    ldp x4, x5, [sp, #({regs} + 8 * 4)]
    ldp x6, x7, [sp, #({regs} + 8 * 6)]
    ldp x8, x9, [sp, #({regs} + 8 * 8)]
    ldp x10, x11, [sp, #({regs} + 8 * 10)]
    ldp x12, x13, [sp, #({regs} + 8 * 12)]
    ldp x14, x15, [sp, #({regs} + 8 * 14)]
    ldp x16, x17, [sp, #({regs} + 8 * 16)]
    ldp x18, x19, [sp, #({regs} + 8 * 18)]
.endm

// Where the syndrome goes to x0 and the call returns. A vector has room for 32 instructions.
.balign 64
leave_guest:
    mrs x1, tpidr_el2
    mrs x2, tpidr_el1
    str x2, [x1, #{guest_thread_pointer}]
    msr tpidr_el1, x1
leave_user:
    mrs x1, tpidr_el1
    ldr x1, [x1, #{kernel_sp}]
    mov sp, x1
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp x29, x30, [sp], #96
    ret

// An exception that is a bug. Its registers go to the PerCore; the handler runs on the core's fault stack.
.macro kernel_fault kind, core=tpidr_el1
    .balign 128
    msr tpidrro_el0, x0
    mrs x0, \core
    stp x1, x2, [x0, #({fault_regs} + 8 * 1)]
    mov x1, #\kind
    b kernel_fault_common
.endm

kernel_fault_common:
    msr tpidr_el1, x0           // while a guest's is there, it is the guest's
    stp x3, x4, [x0, #({fault_regs} + 8 * 3)]
    stp x5, x6, [x0, #({fault_regs} + 8 * 5)]
    stp x7, x8, [x0, #({fault_regs} + 8 * 7)]
    stp x9, x10, [x0, #({fault_regs} + 8 * 9)]
    stp x11, x12, [x0, #({fault_regs} + 8 * 11)]
    stp x13, x14, [x0, #({fault_regs} + 8 * 13)]
    stp x15, x16, [x0, #({fault_regs} + 8 * 15)]
    stp x17, x18, [x0, #({fault_regs} + 8 * 17)]
    stp x19, x20, [x0, #({fault_regs} + 8 * 19)]
    stp x21, x22, [x0, #({fault_regs} + 8 * 21)]
    stp x23, x24, [x0, #({fault_regs} + 8 * 23)]
    stp x25, x26, [x0, #({fault_regs} + 8 * 25)]
    stp x27, x28, [x0, #({fault_regs} + 8 * 27)]
    stp x29, x30, [x0, #({fault_regs} + 8 * 29)]
    mov x2, sp
    mrs x3, tpidrro_el0
    str x2, [x0, #({fault_regs} + 8 * 31)]
    str x3, [x0, #{fault_regs}]
    msr tpidrro_el0, xzr
    ldr x2, [x0, #{fault_stack}]
    mov sp, x2
    b motet_kernel_fault

// A program has stopped, not for a system call. x0: the syndrome; x0 and x1 are in the frame. If it was a store to a page that may be loaded from,
// a function may serve it while the program's other registers are in the core (`serve_stores`). If it does, the program goes on.
.balign 64
aborted:
    mov w1, #0x4f               // by a store, permission fault at level 3 (ARM DDI 0487, ISS of data aborts)
    movk w1, #0x9200, lsl #16   // data abort from EL0
    cmp w0, w1
    b.ne 1f
    mrs x1, tpidr_el1
    ldr x0, [x1, #{serve}]
    cbz x0, 2f
    store_temporary
    str x30, [sp, #({regs} + 8 * 30)]
    ldp x2, x3, [x1, #{kernel_sp}]
    mov x19, sp
    mov x4, x0
    mov x0, x3
    mov x1, x19
    mov sp, x2
    mrs x2, far_el1
    blr x4
    mov sp, x19
    cbz w0, 3f
    ldr x30, [sp, #({regs} + 8 * 30)]
    load_temporary
    ldp x0, x1, [sp, #{regs}]
    eret
3:  // As every trap.
    ldr x30, [sp, #({regs} + 8 * 30)]
    store_kept
    mrs x0, esr_el1
    b leave_user
2:  mrs x0, esr_el1
1:  store_others
    b leave_user

.balign 2048
.globl motet_vectors
motet_vectors:
    .irp kind, 0, 1, 2, 3, 4, 5, 6, 7 // from EL1: synchronous, IRQ, FIQ, SError with SP_EL0, then with SP_EL1
    kernel_fault \kind
    .endr
    .balign 128                 // from EL0: synchronous
    stp x0, x1, [sp, #{regs}]
    mrs x0, esr_el1
    tbnz w0, #31, aborted       // classes from 0x20 on: aborts, among others
    store_others
    b leave_user
    .balign 128                 // from EL0: IRQ
    store_user
    mov x0, #-1
    b leave_user
    .irp kind, 10, 11, 12, 13, 14, 15 // from EL0: FIQ, SError; from AArch32
    kernel_fault \kind
    .endr
.balign 128

// While a guest runs. A guest may enter AArch32 at its EL0, although it is not told of it; the kernel stays well.
.macro guest_stops kind
    .balign 128                 // synchronous
    store_user
    mrs x0, esr_el1
    b leave_guest
    .balign 128                 // IRQ
    store_user
    mov x0, #-1
    b leave_guest
    kernel_fault \kind, tpidr_el2 // FIQ, SError
    kernel_fault (\kind + 1), tpidr_el2
.endm

.balign 2048
.globl motet_guest_vectors
motet_guest_vectors:
    .irp kind, 0, 1, 2, 3, 4, 5, 6, 7
    kernel_fault \kind, tpidr_el2
    .endr
    guest_stops 10
    guest_stops 14
.balign 128

// Extended state. x0: UserFrame::ext.
.arch_extension fp
.arch_extension simd
.globl motet_save_ext
motet_save_ext:
    stp q0, q1, [x0]
    stp q2, q3, [x0, #32]
    stp q4, q5, [x0, #64]
    stp q6, q7, [x0, #96]
    stp q8, q9, [x0, #128]
    stp q10, q11, [x0, #160]
    stp q12, q13, [x0, #192]
    stp q14, q15, [x0, #224]
    stp q16, q17, [x0, #256]
    stp q18, q19, [x0, #288]
    stp q20, q21, [x0, #320]
    stp q22, q23, [x0, #352]
    stp q24, q25, [x0, #384]
    stp q26, q27, [x0, #416]
    stp q28, q29, [x0, #448]
    stp q30, q31, [x0, #480]
    mrs x1, fpsr
    mrs x2, fpcr
    add x0, x0, #512
    stp x1, x2, [x0]
    ret

// Of what `motet_save_ext` stores, what C functions preserve: d8 to d15, and FPCR.
.globl motet_save_kept_ext
motet_save_kept_ext:
    stp q8, q9, [x0, #128]
    stp q10, q11, [x0, #160]
    stp q12, q13, [x0, #192]
    stp q14, q15, [x0, #224]
    mrs x1, fpcr
    str x1, [x0, #520]
    ret

.globl motet_load_ext
motet_load_ext:
    ldp q0, q1, [x0]
    ldp q2, q3, [x0, #32]
    ldp q4, q5, [x0, #64]
    ldp q6, q7, [x0, #96]
    ldp q8, q9, [x0, #128]
    ldp q10, q11, [x0, #160]
    ldp q12, q13, [x0, #192]
    ldp q14, q15, [x0, #224]
    ldp q16, q17, [x0, #256]
    ldp q18, q19, [x0, #288]
    ldp q20, q21, [x0, #320]
    ldp q22, q23, [x0, #352]
    ldp q24, q25, [x0, #384]
    ldp q26, q27, [x0, #416]
    ldp q28, q29, [x0, #448]
    ldp q30, q31, [x0, #480]
    add x0, x0, #512
    ldp x1, x2, [x0]
    msr fpsr, x1
    msr fpcr, x2
    ret

.globl motet_clear_ext
motet_clear_ext:
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    movi v\n\().2d, #0
    .endr
    msr fpsr, xzr
    msr fpcr, xzr
    ret

// Stores back every word of a frame. x0: the frame. STADD of zero cannot lose a concurrent store.
.arch_extension lse
.globl motet_rewrite_frame
motet_rewrite_frame:
    add x1, x0, #4096
7:  stadd xzr, [x0]
    .irp offset, 8, 16, 24, 32, 40, 48, 56
    add x2, x0, #\offset
    stadd xzr, [x2]
    .endr
    dc cvau, x0
    add x0, x0, #64
    cmp x0, x1
    b.ne 7b
    dsb ish
    ic ialluis
    dsb ish
    isb
    ret
