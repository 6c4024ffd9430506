# From QEMU's PVH entry (32-bit, paging off, ebx: start information) to Rust in the high half, and the same for the
# secondary cores from real mode. Everything in .boot runs at its physical address.

.section .note.pvh, "a", @note
.balign 4
.long 4, 8, 18                          # name length, descriptor length, XEN_ELFNOTE_PHYS32_ENTRY
.asciz "Xen"
.quad motet_pvh_start

.section .boot, "awx", @progbits

# The first GiB of physical memory at 0, PRIVATE_VA and KERNEL_VA, in 2 MiB pages.
.balign 4096
boot_root:
    .quad boot_directories_low + 3
    .fill {private_slot} - 1, 8, 0
    .quad boot_directories_low + 3
    .fill 511 - {private_slot} - 1, 8, 0
    .quad boot_directories_high + 3
boot_directories_low:
    .quad boot_directory + 3
    .fill 511, 8, 0
boot_directories_high:
    .fill 510, 8, 0
    .quad boot_directory + 3
    .quad 0
boot_directory:
    .set page, 0
    .rept 512
    .quad page + 0x83                   # present, writable, large
    .set page, page + 0x200000
    .endr

boot_gdt:
    .quad 0, 0, 0x00af9a000000ffff      # 0x10: 64-bit code
boot_gdt_pointer:
    .word 23
    .long boot_gdt

boot_long_pointer:
    .long boot_long
    .word 0x10

.set EFER, 0xc0000080
.set EFER_SCE_LME_NXE, 0x901
.set CPUID_LM_NX, 0x20100000
.set CR4_PAE, 0x20
.set CR0_PG_WP_PE, 0x80010001
.set CR0_CD_NW, 0x60000000

# Long mode begins at the next jump to a segment of it.
.macro turn_paging_on
    mov eax, offset boot_root
    mov cr3, eax
    mov eax, CR4_PAE
    mov cr4, eax
    mov ecx, EFER
    rdmsr
    or eax, EFER_SCE_LME_NXE
    wrmsr
    mov eax, CR0_PG_WP_PE
    mov cr0, eax
.endm

.macro clear_segments
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
.endm

.code32
.globl motet_pvh_start
motet_pvh_start:
    cli
    cld
    mov esi, ebx                        # CPUID changes it
    mov eax, 0x80000000
    cpuid
    cmp eax, 0x80000001
    jb boot_refuse
    mov eax, 0x80000001
    cpuid
    and edx, CPUID_LM_NX
    cmp edx, CPUID_LM_NX
    jne boot_refuse
    mov ebx, esi
    turn_paging_on
    lgdt [boot_gdt_pointer]
    jmp fword ptr [boot_long_pointer]
# To the serial port, which the host reads.
boot_refuse:
    mov esi, offset boot_refusal
    mov dx, 0x3f8
boot_refuse_next:
    lodsb
    test al, al
    jz boot_refused
    out dx, al
    jmp boot_refuse_next
boot_refused:
    hlt
    jmp boot_refused
boot_refusal:
    .asciz "\nmotet: refused: the processor lacks 64-bit mode or NX\n"
.code64
boot_long:
    clear_segments
    movabs rsp, offset motet_boot_stack_top
    mov edi, ebx
    movabs rax, offset {boot}
    call rax
    ud2

# Copied to TRAMPOLINE_PHYS; a secondary core starts here in real mode, cs = TRAMPOLINE_PHYS / 16.
.globl motet_trampoline
.globl motet_trampoline_end
.code16
.balign 16
motet_trampoline:
    cli
    jmp trampoline_start
.balign 8
    .word 23                            # at TRAMPOLINE_GDT
    .long boot_gdt
.balign 8
    .long {trampoline_phys} + trampoline_long - motet_trampoline # at TRAMPOLINE_LONG
    .word 0x10
.set TRAMPOLINE_GDT, 8
.set TRAMPOLINE_LONG, 16
trampoline_start:
    cld
    mov ax, cs
    mov ds, ax
    lgdt [TRAMPOLINE_GDT]
    turn_paging_on
    jmp fword ptr [TRAMPOLINE_LONG]
.code64
trampoline_long:
    clear_segments
    mov eax, 1
    cpuid
    shr ebx, 24                         # initial APIC id = index in the island
    movabs rax, offset motet_secondary_high
    jmp rax
motet_trampoline_end:

.text
# Leaves the boot page tables. ebx: index in the island.
motet_secondary_high:
    mov rax, [{kernel_root}]
    mov edi, ebx
    shl rbx, {core_block_shift}
    lea rsp, [rbx + {stack_top}]
    mov cr3, rax
    call {secondary}
    ud2

.bss
.balign 16
    .skip 0x4000
motet_boot_stack_top:

.text
