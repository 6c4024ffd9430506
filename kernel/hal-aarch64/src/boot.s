// From QEMU to Rust: image header, boot page tables, MMU on, jump to the high half.
//
// Everything before the jump runs at physical addresses with the MMU off; addresses come from adr/adrp, which are
// relative to the program counter. The linker script keeps the image within 8 MiB.

.equ NORMAL_BLOCK, 0x701        // block, attribute 0 (write-back), inner shareable, accessed, all of EL1
.equ DEVICE_BLOCK, 0x405        // block, attribute 1 (device nGnRE), accessed
.equ TABLE, 3

.macro address register, symbol
    adrp \register, \symbol
    add \register, \register, :lo12:\symbol
.endm

.section .text.boot, "ax"
.globl motet_boot
motet_boot:                     // Linux `Image` header (Documentation/arch/arm64/booting.rst)
    b 1f
    .word 0
    .quad 0x200000              // text_offset: as LOAD_PHYS in the linker script
    .quad motet_image_size
    .quad 0xa                   // little-endian, 4 KiB pages, any 2 MiB-aligned base
    .quad 0, 0, 0
    .ascii "ARM\x64"
    .word 0

1:  msr daifset, #0xf
    mov x19, x0                 // device tree, 0 when QEMU started the ELF file
    mrs x0, id_aa64isar0_el1
    ubfx x0, x0, #20, #4
    cmp x0, #2                  // FEAT_LSE: kernels are compiled with its instructions
    adr x1, lacks_atomics
    b.lo refuse
    mrs x0, id_aa64mmfr0_el1
    ubfx x0, x0, #28, #4
    cmp x0, #15                 // TGran4: not there
    adr x1, lacks_pages
    b.eq refuse
    bl take_level
    adr x20, motet_boot         // physical address of the image
    address x0, motet_bss_start
    address x1, motet_bss_end
2:  stp xzr, xzr, [x0], #16
    cmp x0, x1
    b.lo 2b

    // Identity map: the GiB that holds the image. The same table serves as the boot map at PRIVATE_VA.
    address x0, motet_identity_root
    address x1, boot_identity_l1
    orr x2, x1, #TABLE
    ubfx x3, x20, #39, #9
    str x2, [x0, x3, lsl #3]
    ubfx x3, x20, #30, #9
    lsr x4, x20, #30
    lsl x4, x4, #30
    mov x5, #NORMAL_BLOCK
    orr x4, x4, x5
    str x4, [x1, x3, lsl #3]

    // Kernel half: private memory, devices (first GiB), image.
    address x0, boot_kernel_root
    ubfx x3, x20, #39, #9
    add x3, x3, #{private_slot}
    str x2, [x0, x3, lsl #3]
    address x1, motet_device_l1
    orr x2, x1, #TABLE
    str x2, [x0, #(8 * {device_slot})]
    mov x4, #DEVICE_BLOCK
    movk x4, #0x60, lsl #48     // never executable
    str x4, [x1]
    address x1, boot_kernel_l1
    orr x2, x1, #TABLE
    str x2, [x0, #(8 * 511)]
    address x3, boot_kernel_l2
    orr x2, x3, #TABLE
    str x2, [x1, #(8 * 510)]
    orr x4, x20, x5
    mov x6, #4                  // 4 blocks of 2 MiB
3:  str x4, [x3], #8
    add x4, x4, #0x200000
    subs x6, x6, #1
    b.ne 3b

    mov x1, x0
    address x0, motet_identity_root
    bl enable_mmu
    ldr x9, =.Lmotet_boot_high
    br x9
.Lmotet_boot_high:
    ldr x0, =motet_vectors
    msr vbar_el1, x0
    ldr x0, ={cores}
    msr tpidr_el1, x0
    ldr x1, =motet_boot_stack_top
    str x1, [x0, #{fault_stack}] // exceptions while booting restart this stack: they do not return
    mov sp, x1
    mov x29, xzr
    mov x30, xzr
    mov x0, x19
    mov x1, x20
    b motet_boot_main

// Where PSCI starts another core: x0 is its index.
.globl motet_secondary
motet_secondary:
    msr daifset, #0xf
    mov x19, x0
    bl take_level
    address x0, motet_identity_root
    adrp x1, {kernel_root}
    ldr x1, [x1, #:lo12:{kernel_root}]
    bl enable_mmu
    ldr x9, =.Lmotet_secondary_high
    br x9
.Lmotet_secondary_high:
    ldr x0, ={cores}
    mov x1, #{core_size}
    madd x0, x19, x1, x0
    b motet_run_core

// Makes EL2 like EL1 if this is EL2: registers of EL1 are those of EL2 by the same names, and programs are in its EL0. That takes
// FEAT_VHE, which is as old as the atomic instructions that kernels are compiled with.
take_level:
    mrs x0, CurrentEL
    cmp x0, #4
    b.eq 4f                     // what QEMU starts in without virtualization=on
    cmp x0, #8
    b.ne motet_hang
    ldr x0, ={host}
    msr hcr_el2, x0
    isb
4:  ret

// MMU and caches on. x0: TTBR0, x1: TTBR1. Returns to the identity map.
enable_mmu:
    ldr x2, ={mair}
    msr mair_el1, x2
    ldr x2, ={tcr}
    mrs x3, id_aa64mmfr0_el1
    and x3, x3, #7              // physical address size (48 bits at most)
    cmp x3, #5
    mov x4, #5
    csel x3, x3, x4, lo
    orr x2, x2, x3, lsl #32
    msr tcr_el1, x2
    msr ttbr0_el1, x0
    msr ttbr1_el1, x1
    isb
    tlbi vmalle1
    ic iallu
    dsb nsh
    isb
    ldr x2, ={sctlr}
    msr sctlr_el1, x2
    isb
    ret

// Says why this kernel does not start, to the serial port of QEMU's `virt`, which the host reads. x1: the text.
refuse:
    mov x2, #0x09000000         // PL011, data register
5:  ldrb w0, [x1], #1
    cbz w0, motet_hang
    str w0, [x2]
    b 5b
lacks_atomics:
    .asciz "motet: refused: the processor lacks the atomic instructions of Armv8.1 (FEAT_LSE), with which kernels are compiled\n"
lacks_pages:
    .asciz "motet: refused: the processor lacks pages of 4 KiB\n"
.balign 4

.globl motet_hang
motet_hang:
    wfi
    b motet_hang
.ltorg

.text
// Enters Rust on a core's own stack. x0: its PerCore.
.globl motet_run_core
motet_run_core:
    msr tpidr_el1, x0
    ldr x1, [x0, #{stack_top}]
    mov sp, x1
    ldr x1, =motet_vectors
    msr vbar_el1, x1
    isb
    mov x29, xzr
    mov x30, xzr
    b motet_core_main

// Replaces the kernel half. x0: physical address of the new root, x1: of this function (in the identity map).
// Block sizes change, so the old translations must be gone before the new ones are there.
.globl motet_replace_kernel_root
motet_replace_kernel_root:
    adr x2, 6f
    adr x3, motet_replace_kernel_root
    sub x2, x2, x3
    add x2, x2, x1
    br x2
6:  adrp x3, motet_empty_root   // physical now
    msr ttbr1_el1, x3
    isb
    tlbi vmalle1
    dsb nsh
    isb
    msr ttbr1_el1, x0
    isb
    ret
.ltorg

.bss
.balign 4096
.globl motet_identity_root, motet_device_l1, motet_empty_root
motet_identity_root: .skip 4096
boot_identity_l1: .skip 4096
boot_kernel_root: .skip 4096
boot_kernel_l1: .skip 4096
boot_kernel_l2: .skip 4096
motet_device_l1: .skip 4096
motet_empty_root: .skip 4096
.skip 32768
motet_boot_stack_top:
.text
