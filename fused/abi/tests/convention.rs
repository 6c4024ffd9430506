//! Calls carried from one ISA's registers to another's.

use std::collections::BTreeMap;

use motet_abi::{
    convention::{self, Arguments, Entry, Results, StackWords},
    fat::Signature,
    gate, registers,
};
use motet_layout::{CrossingRecord, Isa, UserFrame};
use proptest::prelude::*;

const REAL: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
const GATE: u64 = 0x7fff_0000;

fn zeroed<T>() -> Box<T> {
    // SAFETY: allocated with the type's layout; both types used consist of atomic integers, for which zeroes are valid.
    unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<T>()).cast()) }
}

/// Enters a function as the kernel does; its frame, and its stack as words by address.
fn enter(isa: Isa, signature: Signature, arguments: Arguments) -> (Box<UserFrame>, BTreeMap<u64, u64>, StackWords) {
    let frame = zeroed::<UserFrame>();
    let entry = Entry { function: 0x40_1000, gate: GATE, stack: 0x7000_0008, tls: 0x1234 };
    let words = convention::enter(&frame, isa, &entry, &signature, &arguments);
    let stack = words.words().iter().enumerate().map(|(index, &word)| (words.at + 8 * index as u64, word)).collect();
    (frame, stack, words)
}

#[test]
fn a_function_passes_the_gate_once_more_with_the_same_results() {
    let signature = Signature { words: 0, floats: 0, result: 0x11 };
    for (isa, results) in [(Isa::X86_64, [0, 2]), (Isa::AArch64, [0, 1]), (Isa::RiscV64, [10, 11])] {
        let (frame, _, _) = enter(isa, signature, Arguments::default());
        let gate = gate::gate(isa);
        for (register, value) in results.into_iter().zip([55, 66]) {
            frame.regs[register].set(value);
        }
        gate.pass(&frame);
        gate.unpass(&frame);
        assert_eq!(registers::pc(&frame), gate.start());
        assert_eq!(results.map(|register| frame.regs[register].get()), [55, 66]);
        gate.pass(&frame);
        assert!(gate.is_passed(&frame));
        assert_eq!(gate::results(isa, &frame, &signature).words, [55, 66]);
    }
}

#[test]
fn a_function_finds_its_arguments_where_its_convention_says() {
    // f(long ×9, double, float)
    let signature = Signature { words: 0x1_1111_1111, floats: 0b1001, result: 1 };
    let mut arguments = Arguments::default();
    arguments.words[..9].copy_from_slice(&[10, 11, 12, 13, 14, 15, 16, 17, 18]);
    arguments.floats[..2].copy_from_slice(&[2.5f64.to_bits(), 1.5f32.to_bits().into()]);

    let (frame, stack, words) = enter(Isa::X86_64, signature, arguments);
    assert_eq!([7, 6, 2, 1, 8, 9].map(|reg| frame.regs[reg].get()), [10, 11, 12, 13, 14, 15]);
    assert_eq!(stack.into_values().collect::<Vec<_>>(), [GATE, 16, 17, 18]);
    assert_eq!((frame.ext[20].get(), frame.ext[22].get()), (arguments.floats[0], arguments.floats[1]));
    assert_eq!((words.at % 16, words.sp_at_return), (8, words.at + 8));
    assert!(words.at + 32 <= 0x7000_0008 - 128, "the caller's red zone stays");

    let (frame, stack, words) = enter(Isa::AArch64, signature, arguments);
    assert_eq!(frame.regs[..8].iter().map(|reg| reg.get()).collect::<Vec<_>>(), [10, 11, 12, 13, 14, 15, 16, 17]);
    assert_eq!((stack.into_values().collect::<Vec<_>>(), frame.regs[30].get()), (vec![18], GATE));
    assert_eq!((frame.ext[0].get(), frame.ext[2].get()), (arguments.floats[0], arguments.floats[1]));
    assert_eq!((words.at % 16, words.sp_at_return), (0, words.at));

    let (frame, stack, _) = enter(Isa::RiscV64, signature, arguments);
    assert_eq!(frame.regs[10..18].iter().map(|reg| reg.get()).collect::<Vec<_>>(), [10, 11, 12, 13, 14, 15, 16, 17]);
    assert_eq!((stack.into_values().collect::<Vec<_>>(), frame.regs[1].get()), (vec![18], GATE));
    assert_eq!((frame.ext[10].get(), frame.ext[11].get()), (arguments.floats[0], 0xffff_ffff_3fc0_0000));
    assert_eq!((registers::pc(&frame), registers::tls(&frame)), (0x40_1000, 0x1234));
}

proptest! {
    /// Arguments that the caller's core writes to the function's stack are where they are for a function that is entered as a whole.
    #[test]
    fn arguments_written_before_lie_where_the_function_looks(
        words in prop::array::uniform16(any::<u64>()),
        count in 1..=16u32,
        kinds in any::<u64>(),
        stack in 0x7000_0000..0x7000_1000u64,
    ) {
        // Whole words and narrow ones of all kinds; none is absent.
        let whole = (0..16).fold(0, |words, index| words | (1 + (kinds >> (4 * index) & 15) % 7) << (4 * index));
        let signature = Signature { words: whole & (u64::MAX >> (64 - 4 * count)), floats: 0, result: 1 };
        let arguments = Arguments { words, floats: [0; 8] };
        for isa in REAL {
            let (at_once, before) = (zeroed::<UserFrame>(), zeroed::<UserFrame>());
            let entry = Entry { function: 0x40_1000, gate: GATE, stack, tls: 0x1234 };
            let memory = |words: &StackWords| -> BTreeMap<u64, u64> {
                (words.at..).step_by(8).zip(words.words().iter().copied()).collect()
            };
            let entered = convention::enter(&at_once, isa, &entry, &signature, &arguments);
            let (written, below) = convention::arguments_on_stack(isa, stack, &signature, &arguments);
            let begun = convention::begin(&before, isa, &Entry { stack: below, ..entry }, 0);
            let mut both = memory(&written);
            both.extend(memory(&begun));
            prop_assert_eq!(both, memory(&entered));
            prop_assert_eq!((begun.at, begun.sp_at_return), (entered.at, entered.sp_at_return));
        }
    }
}

#[test]
fn a_caller_gets_back_what_its_convention_preserves() {
    for isa in REAL {
        let (caller, record) = (zeroed::<UserFrame>(), zeroed::<CrossingRecord>());
        registers::init_frame(&caller, isa, 0x40_0000, 0x7000);
        caller.regs.iter().enumerate().for_each(|(n, reg)| reg.set(n as u64 + 100));
        caller.ext.iter().enumerate().for_each(|(n, word)| word.set(n as u64 + 1000));
        convention::save_caller(registers::frame_isa(&caller), &caller, &record);
        record.return_pc.set(0x40_0004);
        record.caller_sp.set(0x7008);
        record.caller_tls.set(77);
        let after = zeroed::<UserFrame>();
        let signature = Signature { words: 0, floats: 0, result: 0x106 };
        let results = Results { words: [0x1_ffff_fffe, 0], floats: [2.0f64.to_bits(), 0] };
        convention::resume_caller(&after, isa, &record, &signature, &results);
        let (kept, floats, result, float_result): (&[usize], &[usize], _, _) = match isa {
            Isa::X86_64 => (&[3, 5, 12, 13, 14, 15], &[], 0, 20),
            Isa::AArch64 => (&[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29], &[16, 18, 20, 22, 24, 26, 28, 30], 0, 0),
            Isa::RiscV64 | Isa::Hosted => (
                &[3, 8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27],
                &[8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27],
                10,
                10,
            ),
        };
        let shown = convention::kept_on_stack(isa, &caller, 0x7008);
        assert!(shown.at + 8 * shown.words().len() as u64 <= 0x7008 - 128, "the caller's red zone stays");
        for &reg in kept {
            assert_eq!(after.regs[reg].get(), reg as u64 + 100, "{isa:?} register {reg}");
            assert!(shown.words().contains(&(reg as u64 + 100)), "{isa:?} register {reg}");
        }
        for &word in floats {
            assert_eq!(after.ext[word].get(), word as u64 + 1000, "{isa:?} float {word}");
        }
        assert_eq!(after.regs[result].get(), -2i64 as u64, "{isa:?}: an int is extended by its sign");
        assert_eq!(after.ext[float_result].get(), 2.0f64.to_bits(), "{isa:?}");
        assert_eq!((registers::pc(&after), registers::sp(&after), registers::tls(&after)), (0x40_0004, 0x7008, 77));
    }
}

fn signature() -> impl Strategy<Value = Signature> {
    let words = proptest::collection::vec(1u64..8, 0..=16);
    let floats = proptest::collection::vec(1u32..3, 0..=8);
    (words, floats, 0u32..0x1000).prop_map(|(words, floats, result)| Signature {
        words: words.iter().enumerate().map(|(index, code)| code << (4 * index)).sum(),
        floats: floats.iter().enumerate().map(|(index, code)| code << (2 * index)).sum(),
        result,
    })
}

proptest! {
    /// What one ISA's function was given, a call from there to any other ISA's passes on unchanged.
    #[test]
    fn arguments_survive_any_chain_of_isas(
        signature in signature(),
        words: [u64; 16],
        floats: [u64; 8],
        isas in proptest::collection::vec(0usize..3, 1..5),
    ) {
        let mut arguments = Arguments { words, floats };
        let mut first = None;
        for isa in isas.into_iter().map(|index| REAL[index]) {
            let (frame, stack, _) = enter(isa, signature, arguments);
            convention::arguments(isa, &frame, &signature, |at| stack.get(&at).copied(), &mut arguments).unwrap();
            // By meaning: extended to 64 bits by type.
            let meaning: Vec<u64> = (0..signature.word_count())
                .map(|index| signature.word(index).in_register(Isa::X86_64, arguments.words[index]))
                .chain((0..signature.float_count()).map(|index| {
                    if signature.is_single(index) { arguments.floats[index] & 0xffff_ffff } else { arguments.floats[index] }
                }))
                .collect();
            prop_assert_eq!(first.get_or_insert_with(|| meaning.clone()), &meaning);
            let (pc, sp) = convention::return_point(isa, &frame, |at| stack.get(&at).copied()).unwrap();
            prop_assert_eq!(pc, GATE);
            prop_assert_eq!(sp % 16, 0);
        }
    }

    /// No signature, however strange, makes the translation panic.
    #[test]
    fn any_signature_is_carried(words: u64, floats: u32, result: u32, isa in 0usize..3) {
        let signature = Signature { words, floats, result };
        let (frame, stack, _) = enter(REAL[isa], signature, Arguments::default());
        let _ = convention::arguments(REAL[isa], &frame, &signature, |at| stack.get(&at).copied(), &mut Arguments::default());
        let _ = convention::results(REAL[isa], &frame, &signature);
    }
}
