//! Register accessors and signal frames.

use std::collections::BTreeMap;

use motet_abi::registers::*;
use motet_abi::sigframe::{self, BadFrame, Delivery, SigframeBuffer};
use motet_abi::signal::{SS_DISABLE, SigCause, SigInfo, SigStack};
use motet_abi::wire::Wire;
use motet_abi::{counters, process};
use motet_layout::{
    Cell32, Cell64, Isa, UserFrame, VECTORS_AARCH64, VECTORS_RISCV64, VectorArea, VectorPage, Vectors, vector_frames,
};
use proptest::prelude::*;

/// A structure of the pool with zeroes.
fn zeroed<T: motet_layout::PoolStruct>() -> Box<T> {
    // SAFETY: allocated with the layout of the structure, which consists of atomic integers, for which zeroes are valid.
    unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<T>()).cast()) }
}

/// A frame with zeroes.
fn frame(isa: Isa) -> Box<UserFrame> {
    let frame: Box<UserFrame> = zeroed();
    init_frame(&frame, isa, 0x1000, 0x7000);
    frame
}

fn fill(frame: &UserFrame, seed: u64) {
    let value = |n: usize| (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed;
    frame.regs.iter().enumerate().for_each(|(n, reg): (usize, &Cell64)| reg.set(value(n)));
    frame.ext.iter().enumerate().for_each(|(n, word)| word.set(value(n + 100)));
}

/// An area for vector registers of so many bytes, with zeroes; `None`: the ISA has no areas, or they have no bytes.
fn area(isa: Isa, bytes: usize) -> Option<Vectors<'static>> {
    let format = match isa {
        Isa::AArch64 => VECTORS_AARCH64,
        Isa::RiscV64 => VECTORS_RISCV64,
        Isa::X86_64 | Isa::Hosted => return None,
    };
    let area: &'static VectorArea = Box::leak(zeroed());
    area.format.set(format);
    area.register_bytes.set(bytes as u32);
    let more = |n: usize| (n < vector_frames(format, bytes)).then(|| &*Box::leak(zeroed::<VectorPage>()));
    (bytes != 0).then(|| Vectors::new(area, [more(1), more(2)]).expect("a valid header"))
}

/// Live values in an area: z registers begin with what the frame says of q registers.
fn fill_area(f: &UserFrame, vectors: Vectors<'_>, seed: u64) {
    let value = |n: usize| (n as u64 + 7).wrapping_mul(0xd129_0d2e_4d1b_8b4d) ^ seed;
    for (n, word) in vectors.words().enumerate() {
        word.set(value(n));
    }
    let used = vectors.predicate_bytes();
    for (n, word) in vectors.predicates().iter().enumerate() {
        let bits = (used.saturating_sub(8 * n)).min(8) * 8;
        word.set(if bits == 64 { word.get() } else { word.get() & ((1 << bits) - 1) });
    }
    if frame_isa(f) == Isa::AArch64 {
        vectors.control().iter().for_each(|word| word.set(0)); // SVE has none
        for n in 0..32 {
            for (to, from) in vectors.register(n).iter().zip(&f.ext[2 * n..2 * n + 2]) {
                to.set(from.get());
            }
        }
    }
    f.vector_bytes.set(vectors.register_bytes() as u32);
}

fn area_words(vectors: Option<Vectors<'_>>) -> Vec<u64> {
    vectors.map_or(Vec::new(), |vectors| vectors.words().map(Cell64::get).collect())
}

/// Index in `regs` of what a test says by name.
#[test]
fn registers_are_the_abis() {
    let f = frame(Isa::X86_64);
    fill(&f, 1);
    f.regs[0].set(39); // rax
    for (n, reg) in [7, 6, 2, 10, 8, 9].into_iter().enumerate() {
        f.regs[reg].set(n as u64);
    }
    assert_eq!((syscall_number(&f), syscall_args(&f), arg(&f, 3)), (39, [0, 1, 2, 3, 4, 5], 3));
    set_result(&f, -2);
    assert_eq!((f.regs[0].get(), result(&f)), (-2i64 as u64, -2));
    set_sp(&f, 0x70);
    set_tls(&f, 0x71);
    assert_eq!((f.regs[4].get(), f.regs[16].get(), sp(&f), tls(&f)), (0x70, 0x71, 0x70, 0x71));
    set_call_args(&f, [10, 11, 12, 13, 14, 15]);
    assert_eq!((f.regs[1].get(), f.regs[10].get(), call_args(&f)), (13, 3, [10, 11, 12, 13, 14, 15]));

    for (isa, number, first, stack, thread) in
        [(Isa::AArch64, 8, 0, 31, 32), (Isa::RiscV64, 17, 10, 2, 4), (Isa::Hosted, 8, 0, 15, 16)]
    {
        let f = frame(isa);
        f.regs[number].set(64);
        (0..6).for_each(|n| f.regs[first + n].set(n as u64));
        assert_eq!((syscall_number(&f), syscall_args(&f)), (64, [0, 1, 2, 3, 4, 5]), "{isa:?}");
        set_result(&f, 7);
        set_sp(&f, 0x70);
        set_tls(&f, 0x71);
        assert_eq!([first, stack, thread].map(|reg| f.regs[reg].get()), [7, 0x70, 0x71], "{isa:?}");
    }
}

#[test]
fn rewinding_goes_back_by_one_instruction() {
    for (isa, size) in [(Isa::X86_64, 2), (Isa::AArch64, 4), (Isa::RiscV64, 4), (Isa::Hosted, 8)] {
        let f = frame(isa);
        rewind_syscall(&f);
        assert_eq!(pc(&f), 0x1000 - size);
    }
}

#[test]
fn fresh_and_copied_frames() {
    let f = frame(Isa::X86_64);
    assert_eq!((f.status.get(), sp(&f), pc(&f), f.regs[0].get()), (0x202, 0x7000, 0x1000, 0));
    fill(&f, 3);
    f.ext_valid.set(1);
    let copy = frame(Isa::RiscV64);
    copy_frame(&f, &copy);
    assert_eq!(frame_isa(&copy), Isa::X86_64);
    assert_eq!(words(&copy), words(&f));
}

#[test]
fn user_code_cannot_choose_the_kernels_status_bits() {
    let f = frame(Isa::X86_64);
    set_user_status(&f, u64::MAX);
    assert_eq!(f.status.get(), 0x5_0dd5 | 0x202); // no IOPL, NT, VM
    let f = frame(Isa::AArch64);
    set_user_status(&f, u64::MAX);
    assert_eq!(f.status.get(), 0xf000_1000); // EL0t, nothing masked
}

#[test]
fn clone_takes_its_arguments_in_the_isas_order() {
    let f = frame(Isa::X86_64);
    [(7, 0x100 | 17), (6, 2), (2, 3), (10, 4), (8, 5)].into_iter().for_each(|(reg, v)| f.regs[reg].set(v));
    let args = process::clone_args(frame_isa(&f), syscall_args(&f));
    assert_eq!((args.flags, args.exit_signal, args.child_tid, args.tls), (0x100, 17, 4, 5));
    let f = frame(Isa::RiscV64);
    (0..5).for_each(|n| f.regs[10 + n].set(n as u64 + 1));
    let args = process::clone_args(frame_isa(&f), syscall_args(&f));
    assert_eq!((args.stack, args.parent_tid, args.child_tid, args.tls), (2, 3, 5, 4));
}

/// All words of a frame.
fn words(f: &UserFrame) -> Vec<u64> {
    let head = [u64::from(f.isa.get()), u64::from(Cell32::get(&f.ext_valid)), f.pc.get(), f.status.get()];
    head.into_iter().chain(f.regs.iter().chain(&f.ext).map(Cell64::get)).collect()
}

/// User memory: bytes by address; what was never written cannot be read.
#[derive(Default)]
struct Memory(BTreeMap<u64, u8>);

impl Memory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        into.iter_mut().enumerate().all(|(n, byte)| match self.0.get(&(address + n as u64)) {
            Some(&found) => {
                *byte = found;
                true
            }
            None => false,
        })
    }

    fn word(&self, address: u64) -> u64 {
        let mut bytes = [0; 8];
        assert!(self.read(address, &mut bytes));
        u64::from_le_bytes(bytes)
    }
}

fn delivery(base: u64) -> Delivery {
    Delivery {
        info: SigInfo { signal: 11, code: 1, cause: SigCause::Fault { address: 0xdead } },
        handler: 0x4000,
        restorer: 0x5000,
        mask: 0x1234_5678_9abc_def0,
        stack: SigStack { ss_sp: 0x9000, ss_flags: SS_DISABLE, ss_size: 0x800 },
        base,
    }
}

fn deliver(f: &UserFrame, delivery: &Delivery) -> (Memory, sigframe::Built) {
    deliver_with(f, None, delivery)
}

fn deliver_with(f: &UserFrame, vectors: Option<Vectors<'_>>, delivery: &Delivery) -> (Memory, sigframe::Built) {
    let mut out = SigframeBuffer::zeroed();
    let built = sigframe::build(f, vectors, delivery, &mut out);
    let mut memory = Memory::default();
    for (address, range) in built.pieces() {
        memory.0.extend(out[range].iter().enumerate().map(|(n, &byte)| (address + n as u64, byte)));
    }
    let copy = |address: u64, bytes: &[u8]| {
        memory.0.extend(bytes.iter().enumerate().map(|(n, &byte)| (address + n as u64, byte)));
        Ok::<(), ()>(())
    };
    built.write_vectors(f, vectors, copy).unwrap();
    assert!(memory.0.last_key_value().unwrap().0 < &delivery.base);
    assert!(delivery.base - built.sp <= sigframe::min_stack_size(frame_isa(f), f.vector_bytes.get()));
    sigframe::enter(f, delivery, &built);
    (memory, built)
}

/// What a handler does at its end: returns to the restorer.
fn leave(f: &UserFrame) {
    if frame_isa(f) == Isa::X86_64 {
        set_sp(f, sp(f) + 8);
    }
}

/// Words of `ext` that a signal frame carries for an ISA.
fn carried(f: &UserFrame) -> Vec<u64> {
    let used = |n: usize| match frame_isa(f) {
        // Up to the software-reserved part; the header; AVX state.
        Isa::X86_64 => n < 58 || (64..72).contains(&n) || f.ext[64].get() == 4 && (72..104).contains(&n),
        Isa::AArch64 => n < 66,
        Isa::RiscV64 => n < 33,
        Isa::Hosted => false,
    };
    f.ext.iter().enumerate().filter(|(n, _)| used(*n)).map(|(_, word)| word.get()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Delivered, clobbered and restored: every register is as it was.
    #[test]
    fn signal_frames_bring_everything_back(
        seed: u64, ext_valid: bool, bytes in prop_oneof![Just(0), Just(16), Just(32), Just(64), Just(128), Just(256)], base in 0x10_0000u64..0x7fff_0000_0000,
    ) {
        for isa in Isa::ALL {
            let f = frame(isa);
            fill(&f, seed);
            set_user_status(&f, seed);
            set_pc(&f, seed >> 20);
            f.ext_valid.set(ext_valid.into());
            match isa {
                Isa::X86_64 => {
                    f.ext[3].set(f.ext[3].get() & 0xffff_0000_ffff); // MXCSR without reserved bits
                    f.ext[64..72].iter().for_each(|word| word.set(0));
                    f.ext[64].set(if bytes == 0 { 0 } else { 4 });
                }
                Isa::AArch64 => {
                    f.ext[64..66].iter().for_each(|word| word.set(seed & 0xffff_ffff));
                }
                Isa::RiscV64 => {
                    f.regs[0].set(0);
                    f.ext[32].set(seed & 0xff);
                }
                Isa::Hosted => {}
            }
            let vectors = area(isa, bytes);
            vectors.inspect(|&vectors| fill_area(&f, vectors, seed));
            let live = area_words(vectors.filter(|_| ext_valid));
            let (regs, status, ext) = (f.regs.iter().map(Cell64::get).collect::<Vec<_>>(), f.status.get(), carried(&f));
            let (tp, at) = (tls(&f), pc(&f));

            let (memory, built) = deliver_with(&f, vectors, &delivery(base));
            prop_assert_eq!(pc(&f), 0x4000);
            prop_assert_eq!(&call_args(&f)[..3], &[11, built.info, built.context]);
            prop_assert_eq!(sp(&f) % 16, if isa == Isa::X86_64 { 8 } else { 0 });
            prop_assert_eq!(memory.word(built.info) as u32, 11);
            prop_assert_eq!(memory.word(built.info + 16), 0xdead);

            // The handler uses everything but the stack pointer and the thread pointer.
            let handler_sp = sp(&f);
            fill(&f, !seed);
            vectors.inspect(|&vectors| fill_area(&f, vectors, !seed));
            f.regs[0].set(0);
            set_sp(&f, handler_sp);
            set_tls(&f, tp);
            leave(&f);
            f.ext_valid.set(1);
            let read = |address, into: &mut [u8]| memory.read(address, into);
            let of_length = |length| vectors.filter(|vectors| vectors.register_bytes() == length);
            let restored = sigframe::restore(&f, read, of_length).unwrap();
            prop_assert_eq!(restored.mask, delivery(base).mask & !0x4_0100);
            prop_assert_eq!(restored.stack, delivery(base).stack);
            let count = match isa { Isa::X86_64 => 16, Isa::AArch64 | Isa::RiscV64 => 32, Isa::Hosted => 16 };
            prop_assert_eq!(f.regs[..count].iter().map(Cell64::get).collect::<Vec<_>>(), &regs[..count]);
            prop_assert_eq!((tls(&f), pc(&f), f.status.get()), (tp, at, status));
            prop_assert_eq!(f.vector_bytes.get() as usize, if live.is_empty() { 0 } else { bytes });
            if !live.is_empty() {
                prop_assert_eq!(area_words(vectors), live);
            }
            if ext_valid {
                prop_assert_eq!(carried(&f), ext);
            } else if isa == Isa::X86_64 {
                prop_assert_eq!((f.ext[0].get(), f.ext[3].get() as u32), (0x37f, 0x1f80));
            } else if isa != Isa::Hosted {
                prop_assert_eq!(f.ext[..32].iter().map(Cell64::get).sum::<u64>(), 0);
            }
        }
    }

    /// Whatever lies at the stack pointer: restored or refused; never a panic, a kernel address or a privileged status.
    #[test]
    fn garbage_is_survived(bytes in proptest::collection::vec(any::<u8>(), 64), len in 0u64..6000) {
        for isa in Isa::ALL {
            let f = frame(isa);
            set_sp(&f, 0x10_0000);
            let read = |address: u64, into: &mut [u8]| {
                into.iter_mut().enumerate().for_each(|(n, b)| *b = bytes[(address as usize + n) % 64]);
                address >= 0xf_0000 && address + into.len() as u64 <= 0x10_0000 + len
            };
            if sigframe::restore(&f, read, |bytes| area(isa, bytes.clamp(1, 256) / 16 * 16)).is_ok() {
                prop_assert!(pc(&f) < motet_layout::USER_END);
            }
            prop_assert_eq!(f.status.get() & !0x5_0fd7 & !0xf000_1000, 0);
        }
    }
}

/// Offsets in the handler's `ucontext_t` as libc declares it for the host.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn x86_64_context_is_libcs() {
    use std::mem::offset_of;
    let f = frame(Isa::X86_64);
    fill(&f, 5);
    set_pc(&f, 0x1111);
    f.ext_valid.set(1);
    let (regs, d) = (f.regs.iter().map(Cell64::get).collect::<Vec<_>>(), delivery(0x20_0000));
    let (memory, built) = deliver(&f, &d);
    let machine = built.context + offset_of!(libc::ucontext_t, uc_mcontext) as u64;
    let greg = |n: i32| memory.word(machine + offset_of!(libc::mcontext_t, gregs) as u64 + 8 * n as u64);
    let named = [
        (libc::REG_RAX, 0),
        (libc::REG_RCX, 1),
        (libc::REG_RDX, 2),
        (libc::REG_RBX, 3),
        (libc::REG_RSP, 4),
        (libc::REG_RBP, 5),
        (libc::REG_RSI, 6),
        (libc::REG_RDI, 7),
        (libc::REG_R8, 8),
        (libc::REG_R15, 15),
    ];
    named.into_iter().for_each(|(name, reg)| assert_eq!(greg(name), regs[reg], "register {reg}"));
    assert_eq!((greg(libc::REG_RIP), greg(libc::REG_EFL), greg(libc::REG_CSGSFS)), (0x1111, 0x202, 0x2b << 48 | 0x33));
    assert_eq!(memory.word(built.context + offset_of!(libc::ucontext_t, uc_sigmask) as u64), d.mask);
    assert_eq!(memory.word(built.context + offset_of!(libc::ucontext_t, uc_stack) as u64), 0x9000);
    let fpregs = memory.word(machine + offset_of!(libc::mcontext_t, fpregs) as u64);
    assert_eq!(fpregs % 64, 0);
    assert_eq!(memory.word(fpregs + 160), words_at(&f, 20)); // xmm0
    assert_eq!(memory.word(built.sp), 0x5000); // return address
}

fn words_at(f: &UserFrame, n: usize) -> u64 {
    f.ext[n].get()
}

/// As compiled from `asm/sigcontext.h` and `asm/ucontext.h` of AArch64: sizes, `regs`, `sp`, `pc`, `pstate`, `__reserved`.
#[test]
fn aarch64_frame_is_linuxs() {
    let f = frame(Isa::AArch64);
    fill(&f, 6);
    let (x7, d) = (f.regs[7].get(), delivery(0x20_0000));
    let (memory, built) = deliver(&f, &d);
    assert_eq!(built.sp, 0x20_0000 - 16 - 4688); // sizeof(siginfo_t) 128 + sizeof(struct ucontext) 4560
    let machine = built.context + 176;
    assert_eq!(memory.word(built.context + 40), d.mask);
    assert_eq!(memory.word(machine), 0xdead); // fault_address
    assert_eq!(memory.word(machine + 8 + 7 * 8), x7);
    assert_eq!(memory.word(machine + 264), 0x1000);
    assert_eq!(memory.word(machine + 288), 528 << 32 | 0x4650_8001); // fpsimd_context
    assert_eq!(memory.word(machine + 288 + 528), 0); // end
    assert_eq!((f.regs[30].get(), f.regs[29].get()), (0x5000, 0x20_0000 - 16));
}

/// As compiled from `asm/sigcontext.h` and `asm/ucontext.h` of RISC-V: sizes, `sc_regs`, `sc_fpregs`.
#[test]
fn riscv64_frame_is_linuxs() {
    let f = frame(Isa::RiscV64);
    fill(&f, 7);
    f.ext_valid.set(1);
    let (a0, f9, d) = (f.regs[10].get(), f.ext[9].get(), delivery(0x20_0000));
    let (memory, built) = deliver(&f, &d);
    assert_eq!(built.sp, 0x20_0000 - 1088); // sizeof(siginfo_t) 128 + sizeof(struct ucontext) 960
    let machine = built.context + 176;
    assert_eq!(memory.word(built.context + 40), d.mask);
    assert_eq!(memory.word(machine), 0x1000); // pc
    assert_eq!(memory.word(machine + 80), a0);
    assert_eq!(memory.word(machine + 256 + 9 * 8), f9);
    assert_eq!(memory.word(machine + 256 + 520), 0); // end of extensions
    assert_eq!(f.regs[1].get(), 0x5000);
    // With vectors: RISCV_V_MAGIC, header 8 + __sc_riscv_v_state 48 + 32 registers.
    for bytes in [16, 128] {
        let vectors = area(Isa::RiscV64, bytes as usize).unwrap();
        fill_area(&f, vectors, 7);
        let (memory, built) = deliver_with(&f, Some(vectors), &d);
        assert_eq!(built.sp, (0x20_0000 - 1088 - 56 - 32 * bytes) & !15);
        let record = built.context + 176 + 256 + 520;
        assert_eq!(memory.word(record), (8 + 48 + 32 * bytes) << 32 | 0x5346_5457);
        let control = [0, 2, 1, 3].map(|n: usize| vectors.control()[n].get()); // vstart, vl, vtype, vcsr
        assert_eq!([8, 16, 24, 32].map(|at| memory.word(record + at)), control);
        assert_eq!(memory.word(record + 40), bytes); // vlenb
        assert_eq!(memory.word(record + 48), record + 56); // datap
        assert_eq!(memory.word(record + 56), vectors.register(0)[0].get());
        assert_eq!(memory.word(record + 56 + 32 * bytes - 8), vectors.register(31).last().unwrap().get());
        assert_eq!(memory.word(record + 56 + 32 * bytes), 0); // end of extensions
    }
}

/// As compiled from `asm/sigcontext.h` (`struct _fpx_sw_bytes`, `struct _xstate`) of x86-64.
#[test]
fn x86_64_frame_with_avx_is_linuxs() {
    let f = frame(Isa::X86_64);
    fill(&f, 8);
    f.ext_valid.set(1);
    f.ext[64].set(4);
    let (xmm0, ymm0, ymm15) = (f.ext[20].get(), f.ext[72].get(), f.ext[103].get());
    let (memory, built) = deliver(&f, &delivery(0x20_0000));
    assert_eq!(memory.word(built.context), 7); // UC_FP_XSTATE
    let fpstate = memory.word(built.context + 40 + 184);
    assert_eq!(fpstate, (0x20_0000 - 836) & !63);
    assert_eq!(memory.word(fpstate + 464), 836 << 32 | 0x4650_5853); // FP_XSTATE_MAGIC1, extended_size
    assert_eq!((memory.word(fpstate + 472), memory.word(fpstate + 480)), (7, 832)); // xfeatures, xstate_size
    assert_eq!((memory.word(fpstate + 512), memory.word(fpstate + 520)), (7, 0)); // XSTATE_BV, XCOMP_BV
    assert_eq!([160, 576, 824].map(|at| memory.word(fpstate + at)), [xmm0, ymm0, ymm15]);
    assert_eq!(memory.word(fpstate + 828) >> 32, 0x4650_5845); // FP_XSTATE_MAGIC2
    // The handler begins with none.
    assert_eq!(f.ext_valid.get(), 0);
}

/// As compiled from `asm/sigcontext.h` (`struct sve_context`, `SVE_SIG_*`) of AArch64.
#[test]
fn aarch64_frame_with_sve_is_linuxs() {
    let f = frame(Isa::AArch64);
    fill(&f, 9);
    f.ext_valid.set(1);
    let vectors = area(Isa::AArch64, 32).unwrap();
    fill_area(&f, vectors, 9);
    let (memory, built) = deliver_with(&f, Some(vectors), &delivery(0x20_0000));
    assert_eq!(built.sp, 0x20_0000 - 16 - 4688);
    let record = built.context + 176 + 288 + 528;
    assert_eq!(memory.word(record), 1120 << 32 | 0x5356_4501); // SVE_MAGIC, SVE_SIG_CONTEXT_SIZE(2)
    assert_eq!(memory.word(record + 8), 32); // vl
    check_sve(&memory, record, vectors);
    assert_eq!(memory.word(record + 1120), 0); // end
}

/// The registers of an `sve_context` at `record`.
fn check_sve(memory: &Memory, record: u64, vectors: Vectors<'_>) {
    let bytes = vectors.register_bytes() as u64;
    let words = |n: usize| vectors.register(n).iter().map(Cell64::get).collect::<Vec<_>>();
    for n in [0, 31] {
        let at = |word: u64| memory.word(record + 16 + n * bytes + 8 * word);
        assert_eq!((0..bytes / 8).map(at).collect::<Vec<_>>(), words(n as usize), "z{n}");
    }
    assert_eq!(memory.word(record + 16 + 32 * bytes), vectors.predicates()[0].get());
    let end = 17 * bytes / 8;
    let last = memory.word(record + 16 + 32 * bytes + end - 8).to_le_bytes();
    let wanted: Vec<u8> = vectors.predicates().iter().flat_map(|word| word.get().to_le_bytes()).collect();
    assert_eq!(last, wanted[end as usize - 8..end as usize], "FFR");
}

/// As compiled from `asm/sigcontext.h` (`struct extra_context`), and laid out by `__sigframe_alloc`: registers of more than 768 bits do not
/// fit the list.
#[test]
fn aarch64_frame_with_long_registers_is_linuxs() {
    for (bytes, size) in [(112, 3840), (128, 4384), (256, 8752)] {
        let f = frame(Isa::AArch64);
        fill(&f, 11);
        f.ext_valid.set(1);
        let vectors = area(Isa::AArch64, bytes).unwrap();
        fill_area(&f, vectors, 11);
        let (memory, built) = deliver_with(&f, Some(vectors), &delivery(0x20_0000));
        assert_eq!(built.sp, 0x20_0000 - 16 - (4688 - 4096 + 528 + 32 + 16 + size + 16));
        let extra = built.context + 176 + 288 + 528;
        assert_eq!(memory.word(extra), 32 << 32 | 0x4558_5401); // EXTRA_MAGIC
        assert_eq!((memory.word(extra + 8), memory.word(extra + 16)), (extra + 48, size + 16)); // datap, size
        assert_eq!(memory.word(extra + 32), 0); // end of the list in the context
        let record = extra + 48;
        assert_eq!(memory.word(record), size << 32 | 0x5356_4501);
        check_sve(&memory, record, vectors);
        assert_eq!(memory.word(record + size), 0);
    }
}

/// A frame with vector state of which a word was changed: refused, or what it says is restored.
fn with_changed_word(isa: Isa, at: u64, change: impl Fn(u64) -> u64) -> (Result<(), BadFrame>, Box<UserFrame>) {
    let f = frame(isa);
    fill(&f, 10);
    f.ext_valid.set(1);
    f.ext[64..72].iter().for_each(|word| word.set(0));
    let vectors = area(isa, 32);
    match vectors {
        Some(vectors) => fill_area(&f, vectors, 10),
        None => f.ext[64].set(4),
    }
    let (mut memory, built) = deliver_with(&f, vectors, &delivery(0x20_0000));
    let state = if isa == Isa::X86_64 { memory.word(built.context + 224) } else { built.context + 176 + 288 + 528 };
    let word = change(memory.word(state + at)).to_le_bytes();
    memory.0.extend(word.into_iter().enumerate().map(|(n, byte)| (state + at + n as u64, byte)));
    leave(&f);
    let read = |address, into: &mut [u8]| memory.read(address, into);
    let restored = sigframe::restore(&f, read, |length| vectors.filter(|vectors| vectors.register_bytes() == length));
    (restored.map(drop), f)
}

#[test]
fn vector_state_in_a_frame_is_checked() {
    let x86 = |at, change: fn(u64) -> u64| with_changed_word(Isa::X86_64, at, change);
    assert!(x86(512, |bv| bv).1.ext[64].get() == 4);
    // XRSTOR would refuse these headers: another component, the compacted format, reserved words.
    assert_eq!(x86(512, |bv| bv | 8).0, Err(BadFrame));
    assert_eq!(x86(520, |_| 1 << 63).0, Err(BadFrame));
    assert_eq!(x86(568, |_| 1).0, Err(BadFrame));
    // Components that the header or the software's words leave out are initial.
    for at in [472, 512] {
        let (restored, f) = x86(at, |_| 3);
        assert_eq!((restored, f.ext[64].get()), (Ok(()), 0));
        let (restored, f) = x86(at, |_| 4);
        let initial = (f.ext[0].get() & 0xffff, f.ext[4].get(), f.ext[20].get());
        assert_eq!((restored, f.ext[64].get(), initial), (Ok(()), 4, (0x37f, 0, 0)));
    }
    // Without magic words there is an FXSAVE image only.
    for (at, change) in [(464, (|_| 0) as fn(u64) -> u64), (480, |_| 576), (828, |_| 0)] {
        let (restored, f) = x86(at, change);
        assert_eq!((restored, f.ext[64].get()), (Ok(()), 0), "{at}");
    }

    let arm = |at, change: fn(u64) -> u64| with_changed_word(Isa::AArch64, at, change);
    assert_eq!(arm(8, |length| length).1.vector_bytes.get(), 32);
    assert_eq!(arm(8, |_| 48).0, Err(BadFrame)); // a length that no core here has
    assert_eq!(arm(8, |_| 16).0, Err(BadFrame)); // not that of the record
    assert_eq!(arm(8, |length| length | 1 << 16).0, Err(BadFrame)); // streaming mode
    assert_eq!(arm(0, |head| head + (16 << 32)).0, Err(BadFrame));
    let (restored, f) = arm(0, |_| 0); // the list ends before the record
    assert_eq!((restored, f.vector_bytes.get()), (Ok(()), 0));
}

#[test]
fn a_lost_stack_is_a_bad_frame() {
    for isa in Isa::ALL {
        assert_eq!(sigframe::restore(&frame(isa), |_, _| false, |_| None), Err(BadFrame));
    }
    // A stack pointer near zero or the top wraps instead of panicking.
    for isa in Isa::ALL {
        for base in [0, 1, 100, u64::MAX] {
            let mut out = SigframeBuffer::zeroed();
            let _ = sigframe::build(&frame(isa), area(isa, 32), &delivery(base), &mut out);
        }
    }
}

#[test]
fn alternate_stacks() {
    let f = frame(Isa::X86_64);
    let stack = SigStack { ss_sp: 0x10_0000, ss_flags: 0, ss_size: 0x1000 };
    assert_eq!(stack.base(&f, 0), 0x7000 - 128);
    assert_eq!(stack.base(&f, motet_abi::signal::SA_ONSTACK), 0x10_1000);
    set_sp(&f, 0x10_0800);
    assert_eq!(stack.base(&f, motet_abi::signal::SA_ONSTACK), 0x10_0800 - 128);
    assert!(stack.contains(0x10_1000) && !stack.contains(0x10_0000));
    assert_eq!(SigStack::NONE.base(&f, motet_abi::signal::SA_ONSTACK), 0x10_0800 - 128);
    assert_eq!(SigStack::SIZE, 24);
}

#[test]
fn answers_are_where_the_instruction_puts_them() {
    let frame = frame(Isa::X86_64);
    let answered = |isa, word: u32| {
        frame.pc.set(0x1000);
        frame.regs.iter().for_each(|register| register.set(7));
        counters::answer(&frame, counters::decode(isa, &word.to_le_bytes()).unwrap(), 0x1234_5678_9abc_def0);
        frame.pc.get() - 0x1000
    };
    let registers = || [0, 1, 2, 10].map(|index: usize| frame.regs[index].get());
    assert_eq!((answered(Isa::X86_64, 0x9090_310f), registers()), (2, [0x9abc_def0, 7, 0x1234_5678, 7]));
    assert_eq!((answered(Isa::X86_64, 0x90f9_010f), registers()), (3, [0x9abc_def0, 0, 0x1234_5678, 7]));
    assert_eq!((answered(Isa::RiscV64, 0xc000_2573), registers()), (4, [7, 7, 7, 0x1234_5678_9abc_def0]));
    assert_eq!((answered(Isa::RiscV64, 0xc000_2073), registers()), (4, [7; 4]));
}
