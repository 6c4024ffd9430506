/* Registers of tasks that do not run are on their stacks, in frames of 32 words: word 0 is the program counter, 2 sstatus, 3 how deep the
 * task is in critical sections (the stack pointer is in the task's control block; nobody uses gp and tp), N register xN. */
    .equ FRAME, 256

    .macro temporaries operation
    \operation x5, 40(sp)
    \operation x6, 48(sp)
    \operation x7, 56(sp)
    \operation x10, 80(sp)
    \operation x11, 88(sp)
    \operation x12, 96(sp)
    \operation x13, 104(sp)
    \operation x14, 112(sp)
    \operation x15, 120(sp)
    \operation x16, 128(sp)
    \operation x17, 136(sp)
    \operation x28, 224(sp)
    \operation x29, 232(sp)
    \operation x30, 240(sp)
    \operation x31, 248(sp)
    .endm

    .macro kept operation
    \operation x1, 8(sp)
    \operation x8, 64(sp)
    \operation x9, 72(sp)
    \operation x18, 144(sp)
    \operation x19, 152(sp)
    \operation x20, 160(sp)
    \operation x21, 168(sp)
    \operation x22, 176(sp)
    \operation x23, 184(sp)
    \operation x24, 192(sp)
    \operation x25, 200(sp)
    \operation x26, 208(sp)
    \operation x27, 216(sp)
    .endm

    /* The rest of a frame: pc in t0, sstatus in t1. Leaves the task's stack. */
    .macro leave_task
    sd t0, 0(sp)
    sd t1, 16(sp)
    la t0, ullPortCriticalNesting
    ld t0, 0(t0)
    sd t0, 24(sp)
    la t0, pxCurrentTCB
    ld t0, 0(t0)
    sd sp, 0(t0)
    la sp, handlers_stack_end
    .endm

    .text
    .balign 4
trap:
    addi sp, sp, -FRAME
    temporaries sd
    kept sd
    csrr a0, scause
    csrr a1, stval
    csrr a2, sepc
    mv t0, a2
    csrr t1, sstatus
    leave_task
    call vPortHandleTrap
    j run_current

    /* As if an interrupt had come just before the return; what calls do not keep is not kept. */
    .globl vPortYield
vPortYield:
    addi sp, sp, -FRAME
    kept sd
    csrrci t1, sstatus, 2
    /* Interrupts are to be as they are: SIE to SPIE, SPP is S-mode. */
    andi t0, t1, 2
    slli t0, t0, 4
    andi t1, t1, ~0x122
    or t1, t1, t0
    ori t1, t1, 0x100
    mv t0, ra
    leave_task
    call vTaskSwitchContext
    j run_current

    .globl vPortStartFirstTask
vPortStartFirstTask:
    csrci sstatus, 2
    la t0, trap
    csrw stvec, t0

run_current:
    la t0, pxCurrentTCB
    ld t0, 0(t0)
    ld sp, 0(t0)
    ld t0, 24(sp)
    la t1, ullPortCriticalNesting
    sd t0, 0(t1)
    ld t0, 0(sp)
    csrw sepc, t0
    ld t0, 16(sp)
    csrw sstatus, t0
    temporaries ld
    kept ld
    addi sp, sp, FRAME
    sret

    .section .stacks, "aw", @nobits
    .balign 16
    .zero 8192
handlers_stack_end:
