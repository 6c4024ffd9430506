/* Where FreeRTOS's port for AArch64 expects exceptions to come from: tasks run at EL1 on SP_EL0, handlers on SP_EL1. */
    .macro vector target
    .balign 128
    b \target
    .endm

    .text
    .balign 2048
    .globl _freertos_vector_table
_freertos_vector_table:
    vector FreeRTOS_SWI_Handler
    vector FreeRTOS_IRQ_Handler
    vector fault
    vector fault
    vector fault
    vector FreeRTOS_IRQ_Handler
    .rept 10
    vector fault
    .endr

fault:
    mrs x0, esr_el1
    mrs x1, far_el1
    mrs x2, elr_el1
    bl motet_guest_fault
