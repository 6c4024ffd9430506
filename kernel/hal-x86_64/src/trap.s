# Entering user mode and coming back. The system-call round trip is the hot path: every instruction here is counted.
#
# The kernel does not use GS. A core finds its block by its stack pointer; the system-call entry, which has no stack
# yet, exists once per core with that core's block as absolute addresses (LSTAR differs per core); for other traps the
# processor switches to the stack at the block's TRAP_TOP, so the block is at a known distance from rsp.

.set BLOCKS, {core_blocks}
.set BLOCK_SHIFT, {core_block_shift}
.set KERNEL_RSP, {kernel_rsp}
.set FRAME, {frame}
.set SCRATCH, {scratch}
.set TRAP_TOP, {trap_top}
# Offsets in UserFrame.
.set U_PC, 8
.set U_STATUS, 16
.set U_RAX, 64
.set U_RCX, 72
.set U_RDX, 80
.set U_RBX, 88
.set U_RSP, 96
.set U_RBP, 104
.set U_RSI, 112
.set U_RDI, 120
.set U_R8, 128
.set U_R9, 136
.set U_R10, 144
.set U_R11, 152
.set U_R12, 160
.set U_R13, 168
.set U_R14, 176
.set U_R15, 184
.set U_FS_BASE, 192
.set U_GS_BASE, 200

.set USER_CS, {user_cs}
.set USER_SS, {user_ss}
.set FLAGS_OF_USER, {flags_of_user}
.set FLAGS_ALWAYS, 0x202                # IF and the bit that is always 1
.set CAUSE_BAD_PC, {cause_bad_pc}
.set CAUSE_VECTOR, {cause_vector}

.macro load_registers
    mov rbx, [rdi + U_RBX]
    mov rdx, [rdi + U_RDX]
    mov rsi, [rdi + U_RSI]
    mov rbp, [rdi + U_RBP]
    mov r8, [rdi + U_R8]
    mov r9, [rdi + U_R9]
    mov r10, [rdi + U_R10]
    mov r12, [rdi + U_R12]
    mov r13, [rdi + U_R13]
    mov r14, [rdi + U_R14]
    mov r15, [rdi + U_R15]
    mov rax, [rdi + U_RAX]
.endm

.macro save_registers                   # all but rax, rcx, r11, rsp; frame in rax
    mov [rax + U_RBX], rbx
    mov [rax + U_RDX], rdx
    mov [rax + U_RSI], rsi
    mov [rax + U_RDI], rdi
    mov [rax + U_RBP], rbp
    mov [rax + U_R8], r8
    mov [rax + U_R9], r9
    mov [rax + U_R10], r10
    mov [rax + U_R12], r12
    mov [rax + U_R13], r13
    mov [rax + U_R14], r14
    mov [rax + U_R15], r15
.endm

.macro save_bases                       # user code can change them (FSGSBASE is on)
    rdfsbase rcx
    mov [rax + U_FS_BASE], rcx
    rdgsbase rcx
    mov [rax + U_GS_BASE], rcx
.endm

.text
# rdi: frame, rsi: core block. Comes back as a function does, rax: cause, edx: error code; clobbers everything else.
.globl motet_enter_user
.balign 64
motet_enter_user:
    mov [rsi + KERNEL_RSP], rsp
    mov [rsi + FRAME], rdi
    mov rax, [rdi + U_FS_BASE]
    wrfsbase rax                        # TCG takes any address; the kernel core admits canonical ones only
    mov rax, [rdi + U_GS_BASE]
    wrgsbase rax
    mov rcx, [rdi + U_PC]
    mov rax, rcx
    shr rax, 47
    jnz motet_enter_bad_pc              # neither SYSRET nor IRET may see a non-canonical rip
    mov r11, [rdi + U_STATUS]
    and r11d, FLAGS_OF_USER
    or r11d, FLAGS_ALWAYS
    cmp rcx, [rdi + U_RCX]                # SYSRET cannot load rcx and r11; after a system call it need not
    jne enter_by_iret
    cmp r11, [rdi + U_R11]
    jne enter_by_iret
    load_registers
    mov rsp, [rdi + U_RSP]
    mov rdi, [rdi + U_RDI]
    sysretq

enter_by_iret:
    push USER_SS
    push [rdi + U_RSP]
    push r11
    push USER_CS
    push rcx
    load_registers
    mov rcx, [rdi + U_RCX]
    mov r11, [rdi + U_R11]
    mov rdi, [rdi + U_RDI]
    iretq

motet_enter_bad_pc:
    mov eax, CAUSE_BAD_PC
    ret

# SYSCALL: rcx: user rip, r11: user flags, interrupts masked, rsp still the user's. Nothing here can fault: the block
# and the frame are mapped for good.
.globl motet_syscall_entries
.balign 256
motet_syscall_entries:
.irp core, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
.balign 256
    mov [BLOCKS + (\core << BLOCK_SHIFT) + SCRATCH], rax
    mov rax, [BLOCKS + (\core << BLOCK_SHIFT) + FRAME]
    mov [rax + U_RSP], rsp
    mov rsp, [BLOCKS + (\core << BLOCK_SHIFT) + KERNEL_RSP]
    mov [rax + U_PC], rcx
    mov [rax + U_RCX], rcx
    mov [rax + U_STATUS], r11
    mov [rax + U_R11], r11
    save_registers
    mov rcx, [BLOCKS + (\core << BLOCK_SHIFT) + SCRATCH]
    mov [rax + U_RAX], rcx
    save_bases
    xor eax, eax                        # cause: system call
    ret
.endr

# Exceptions and interrupts: STUB_SIZE bytes each, vectors 0..VECTORS.
.macro stub vector, error_code, target
    .balign 16
    .if \error_code == 0
    push 0
    .endif
    push CAUSE_VECTOR + \vector
    jmp \target
.endm

.globl motet_trap_stubs
.balign 16
motet_trap_stubs:
    stub 0, 0, trap
    stub 1, 0, trap
    stub 2, 0, kernel_trap              # NMI, double fault, machine check: own stack, never survived
    stub 3, 0, trap
    stub 4, 0, trap
    stub 5, 0, trap
    stub 6, 0, trap
    stub 7, 0, trap
    stub 8, 1, kernel_trap
    stub 9, 0, trap
    stub 10, 1, trap
    stub 11, 1, trap
    stub 12, 1, trap
    stub 13, 1, trap
    stub 14, 1, trap
    stub 15, 0, trap
    stub 16, 0, trap
    stub 17, 1, trap
    stub 18, 0, kernel_trap
    stub 19, 0, trap
    stub 20, 0, trap
    stub 21, 1, trap
    stub 22, 0, trap
    stub 23, 0, trap
    stub 24, 0, trap
    stub 25, 0, trap
    stub 26, 0, trap
    stub 27, 0, trap
    stub 28, 0, trap
    stub 29, 1, trap
    stub 30, 1, trap
    stub 31, 0, trap
    stub 32, 0, trap                    # timer
    .balign 16
    jmp doorbell                        # 33
    stub 34, 0, trap                    # spurious
    stub 35, 0, trap                    # network

# On the stack: cause, error code, rip, cs, rflags, rsp, ss.
.balign 64
trap:
    test byte ptr [rsp + 24], 3
    jz kernel_trap
    push rax
    mov rax, [rsp + 64 + FRAME - TRAP_TOP]
    save_registers
    mov [rax + U_RCX], rcx
    mov [rax + U_R11], r11
    mov rcx, [rsp]
    mov [rax + U_RAX], rcx
    mov rcx, [rsp + 24]
    mov [rax + U_PC], rcx
    mov rcx, [rsp + 40]
    mov [rax + U_STATUS], rcx
    mov rcx, [rsp + 48]
    mov [rax + U_RSP], rcx
    save_bases
    mov eax, [rsp + 8]
    mov edx, [rsp + 16]
    mov rsp, [rsp + 64 + KERNEL_RSP - TRAP_TOP]
    cld                                 # SYSCALL clears it by SFMASK, a gate does not
    ret

# A doorbell in the kernel comes while `wait_for_interrupt` or `poll_interrupts` lets it. They give rax and flags away, and mask
# interrupts next, so going back takes no IRET, which is slow: another interrupt that is pending comes when they are let the next time.
doorbell:
    test byte ptr [rsp + 8], 3
    jz kernel_doorbell
    push 0
    push CAUSE_VECTOR + {vector_doorbell}
    jmp trap
kernel_doorbell:
    xor eax, eax
    movabs [{end_of_interrupt}], eax
    mov rax, rsp
    and rax, -1 << BLOCK_SHIFT
    or dword ptr [rax + {pending}], {pending_doorbell}
    mov rax, [rsp]                      # rip
    mov rsp, [rsp + 24]
    jmp rax

kernel_trap:
    push rax
    push rcx
    push rdx
    push rbx
    push rbp
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
    cld
    mov rdi, rsp
    mov rbx, rsp
    and rsp, -16
    call {kernel_trap}
    mov rsp, rbx
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rbp
    pop rbx
    pop rdx
    pop rcx
    pop rax
    add rsp, 16
    iretq
