//! Signal frames: what the kernel leaves on the user stack for a handler, and takes back at `rt_sigreturn`.
//!
//! Linux's layouts per ISA (`rt_sigframe`: `siginfo`, `ucontext`, extended state), as pure code over bytes. Delivering is
//! three steps, of which only the second can fail: [`build`], copy the pieces and the vector registers to user memory, [`enter`]. The
//! thread's extended state must be in its frame and its area before (`save_ext`) and is to be loaded again after [`enter`] and
//! [`restore`] (`load_ext`).
//!
//! Vector registers, which may have thousands of bytes, go from their area to the stack and back register by register.

mod aarch64;
mod hosted;
mod riscv64;
mod x86_64;

use core::ops::Range;

use motet_layout::{Cell64, FRAME_REGS, Isa, USER_END, UserFrame, VECTOR_BYTES_MAX, Vectors};

use crate::registers::{self, frame_isa};
use crate::signal::{SIGINFO_SIZE, SigInfo, SigStack, SignalSet, UNBLOCKABLE};
use crate::wire::Aligned;

/// Bytes [`build`] may need.
pub const SIGFRAME_MAX: usize = 1472;

/// The buffer a frame is built in.
pub type SigframeBuffer = Aligned<SIGFRAME_MAX>;

/// A signal to be handled by user code.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The signal and its reason.
    pub info: SigInfo,
    /// Address of the handler.
    pub handler: u64,
    /// Where the handler returns to: `sa_restorer` if it is set, otherwise the address of the ISA's [`trampoline`] (on
    /// RISC-V always that).
    pub restorer: u64,
    /// Signal mask to come back with `rt_sigreturn`.
    pub mask: SignalSet,
    /// Alternate stack to come back with `rt_sigreturn`.
    pub stack: SigStack,
    /// The frame is built downwards from here: [`SigStack::base`].
    pub base: u64,
}

/// A frame ready to be copied to user memory.
#[derive(Clone, Debug)]
pub struct Built {
    /// Stack pointer of the handler, lowest address of the frame.
    pub sp: u64,
    /// Address of `siginfo`, the handler's second argument.
    pub info: u64,
    /// Address of `ucontext`, its third.
    pub context: u64,
    /// Value of the frame pointer register in the handler, if the ISA sets it (AArch64).
    frame_pointer: Option<u64>,
    pieces: [(u64, usize, usize); 3],
    /// Where the vector registers lie, if they come with the frame.
    vectors: Option<u64>,
}

impl Built {
    /// What goes where: user addresses and ranges of the buffer.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, Range<usize>)> {
        self.pieces.into_iter().filter(|piece| piece.1 < piece.2).map(|(address, start, end)| (address, start..end))
    }

    /// Writes the vector registers that come with the frame, piece by piece. `write` copies to user memory.
    ///
    /// # Errors
    /// `write`'s.
    pub fn write_vectors<E>(
        &self,
        frame: &UserFrame,
        vectors: Option<Vectors<'_>>,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (Some(at), Some(vectors)) = (self.vectors, vectors) else { return Ok(()) };
        let (mut bytes, length) = (Aligned::<VECTOR_BYTES_MAX>::zeroed(), vectors.register_bytes());
        for n in 0..32 {
            let register = &mut bytes[..length];
            get_words(vectors.register(n), register);
            if frame_isa(frame) == Isa::AArch64 {
                get_ext(frame, 2 * n, &mut register[..16]);
            }
            write(at.wrapping_add((n * length) as u64), register)?;
        }
        let (mut predicates, size) = (Aligned::<{ aarch64::PREDICATES_MAX }>::zeroed(), vectors.predicate_bytes());
        get_words(vectors.predicates(), &mut predicates);
        if size == 0 { Ok(()) } else { write(at.wrapping_add(32 * length as u64), &predicates[..size]) }
    }
}

/// Builds the frame of a handler in `out`, which is zeroed: what is not written has to be zero. `vectors`: the thread's area, if it has one.
///
/// Addresses wrap when the stack pointer is nonsense; copying then fails, and the signal becomes SIGSEGV.
pub fn build(frame: &UserFrame, vectors: Option<Vectors<'_>>, delivery: &Delivery, out: &mut SigframeBuffer) -> Built {
    // What the area holds is the thread's only if the frame says so.
    let is_live = |vectors: &Vectors<'_>| registers::vector_bytes(frame) as usize == vectors.register_bytes();
    let vectors = vectors.filter(is_live);
    match frame_isa(frame) {
        Isa::X86_64 => x86_64::build(frame, delivery, out),
        Isa::AArch64 => aarch64::build(frame, vectors, delivery, out),
        Isa::RiscV64 => riscv64::build(frame, vectors, delivery, out),
        Isa::Hosted => hosted::build(frame, delivery, out),
    }
}

/// Lets the thread enter the handler: program counter, stack pointer, arguments (signal, `siginfo`, `ucontext`) and
/// return address. On x86-64 the extended state becomes the initial one, as on Linux.
pub fn enter(frame: &UserFrame, delivery: &Delivery, built: &Built) {
    let isa = frame_isa(frame);
    registers::set_pc(frame, delivery.handler);
    registers::set_sp(frame, built.sp);
    let args = [delivery.info.signal.into(), built.info, built.context];
    match isa {
        Isa::X86_64 => x86_64::enter(frame, args),
        Isa::AArch64 => aarch64::enter(frame, args, delivery.restorer, built.frame_pointer),
        Isa::RiscV64 => riscv64::enter(frame, args, delivery.restorer),
        Isa::Hosted => hosted::enter(frame, args, delivery.restorer),
    }
}

/// What `rt_sigreturn` restores besides registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The signal mask (unblockable signals removed).
    pub mask: SignalSet,
    /// The alternate stack, to be set as by `sigaltstack`, errors ignored.
    pub stack: SigStack,
}

/// The frame on the user stack cannot be read or says what no kernel wrote: the thread gets SIGSEGV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadFrame;

/// Takes the registers back from the frame at the thread's stack pointer (`rt_sigreturn`). `read` copies from user memory
/// and says whether it could; `area` gives the thread's area for vector registers of so many bytes, if it can have one. The thread's frame
/// and area may be half changed when this fails.
///
/// # Errors
/// [`BadFrame`].
pub fn restore<'a>(
    frame: &UserFrame,
    mut read: impl FnMut(u64, &mut [u8]) -> bool,
    mut area: impl FnMut(usize) -> Option<Vectors<'a>>,
) -> Result<Restored, BadFrame> {
    let mut read = |address: u64, into: &mut [u8]| if read(address, into) { Ok(()) } else { Err(BadFrame) };
    let restored = match frame_isa(frame) {
        Isa::X86_64 => x86_64::restore(frame, &mut read)?,
        Isa::AArch64 => aarch64::restore(frame, &mut read, &mut area)?,
        Isa::RiscV64 => riscv64::restore(frame, &mut read, &mut area)?,
        Isa::Hosted => hosted::restore(frame, &mut read)?,
    };
    if registers::pc(frame) >= USER_END {
        return Err(BadFrame); // x86-64 must never return to a non-canonical address
    }
    Ok(Restored { mask: restored.mask & !UNBLOCKABLE, ..restored })
}

type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> Result<(), BadFrame>;
type Area<'a, 'v> = &'a mut dyn FnMut(usize) -> Option<Vectors<'v>>;

/// Reads the registers at `address` into an area.
fn read_vectors(vectors: Vectors<'_>, address: u64, read: Read<'_>) -> Result<(), BadFrame> {
    let (mut bytes, length) = (Aligned::<VECTOR_BYTES_MAX>::zeroed(), vectors.register_bytes());
    for n in 0..32 {
        let register = &mut bytes[..length];
        read(address.wrapping_add((n * length) as u64), register)?;
        set_words(vectors.register(n), register);
    }
    let (mut predicates, size) = (Aligned::<{ aarch64::PREDICATES_MAX }>::zeroed(), vectors.predicate_bytes());
    if size != 0 {
        read(address.wrapping_add(32 * length as u64), &mut predicates[..size])?;
    }
    set_words(vectors.predicates(), &predicates);
    Ok(())
}

/// The least stack a signal needs (`AT_MINSIGSTKSZ`) of a program that may get vector registers of at most `vector_bytes`.
pub const fn min_stack_size(isa: Isa, vector_bytes: u32) -> u64 {
    match isa {
        Isa::X86_64 => 440 + x86_64::EXTENDED_SIZE as u64 + 64 + 16,
        Isa::AArch64 => aarch64::size(vector_bytes as usize) as u64 + 16 + 16,
        Isa::RiscV64 => riscv64::size(vector_bytes as usize) as u64 + 16,
        Isa::Hosted => hosted::SIZE as u64 + 16,
    }
}

/// Instructions that call `rt_sigreturn`, for handlers without `sa_restorer` (Linux has them in the vDSO); unwinders
/// know them by their bytes. x86-64 requires `sa_restorer`, and so does the hosted ISA.
pub const fn trampoline(isa: Isa) -> Option<&'static [u8; 8]> {
    match isa {
        Isa::AArch64 => Some(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4]), // mov x8, #139; svc #0
        Isa::RiscV64 => Some(&[0x93, 0x08, 0xb0, 0x08, 0x73, 0x00, 0x00, 0x00]), // li a7, 139; ecall
        Isa::X86_64 | Isa::Hosted => None,
    }
}

/// As [`trampoline`], for programs that hold the text of several ISAs and may set a handler on one and enter it on
/// another.
pub const fn return_code(isa: Isa) -> Option<&'static [u8; 8]> {
    match isa {
        Isa::X86_64 => Some(&[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x90]), // mov eax, 15; syscall; nop
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => trampoline(isa),
    }
}

/// Where the parts of a `ucontext` are that all ISAs but x86-64 have at the same place (`asm-generic/ucontext.h` with
/// the 1024-bit mask of AArch64 and RISC-V), relative to the frame, which begins with `siginfo`.
mod generic {
    pub(super) const CONTEXT: usize = super::SIGINFO_SIZE;
    pub(super) const STACK: usize = CONTEXT + 16;
    pub(super) const MASK: usize = CONTEXT + 40;
    /// `uc_mcontext`.
    pub(super) const MACHINE: usize = CONTEXT + 176;
}

fn get_reg(frame: &UserFrame, index: usize) -> u64 {
    frame.regs[index % FRAME_REGS].get()
}

fn set_reg(frame: &UserFrame, index: usize, value: u64) {
    frame.regs[index % FRAME_REGS].set(value);
}

/// Extended state from the word `first` on, as bytes.
fn get_ext(frame: &UserFrame, first: usize, out: &mut [u8]) {
    get_words(&frame.ext[first..], out);
}

fn set_ext(frame: &UserFrame, first: usize, from: &[u8]) {
    set_words(&frame.ext[first..], from);
}

/// Words that are copied without a branch in between.
const AT_ONCE: usize = 8;

/// As many words as both have.
fn get_words(words: &[Cell64], out: &mut [u8]) {
    let (out, _) = out.as_chunks_mut::<8>();
    let len = words.len().min(out.len());
    let (many, few) = words[..len].as_chunks::<AT_ONCE>();
    let (into_many, into_few) = out[..len].as_chunks_mut::<AT_ONCE>();
    let get = |words: &[Cell64], out: &mut [[u8; 8]]| {
        words.iter().zip(out).for_each(|(word, bytes)| *bytes = word.get().to_le_bytes());
    };
    many.iter().zip(into_many).for_each(|(words, out)| get(words, out));
    get(few, into_few);
}

fn set_words(words: &[Cell64], from: &[u8]) {
    let (from, _) = from.as_chunks::<8>();
    let len = words.len().min(from.len());
    let (many, few) = words[..len].as_chunks::<AT_ONCE>();
    let (from_many, from_few) = from[..len].as_chunks::<AT_ONCE>();
    let set = |words: &[Cell64], from: &[[u8; 8]]| {
        words.iter().zip(from).for_each(|(word, bytes)| word.set(u64::from_le_bytes(*bytes)));
    };
    many.iter().zip(from_many).for_each(|(words, from)| set(words, from));
    set(few, from_few);
}
