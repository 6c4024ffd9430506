//! Accelerators: published vectors, sizes that they refuse, and the same result wherever they are stopped.

use std::cell::RefCell;

use motet_accelerators::{Kind, Memory};
use motet_protocol::fpga::{AcceleratorId, Fault, InterfaceId, Job, State, Step};
use proptest::prelude::*;

/// Bytes of the data section, and where results go in it.
const SECTION: usize = 256 << 10;
const RESULTS: u32 = 64 << 10;
/// Where coefficients and chaining values lie.
const ASIDE: u32 = 60 << 10;

struct Section(RefCell<Vec<u8>>);

impl Section {
    fn with(data: &[u8], aside: &[u8]) -> Self {
        let mut bytes = vec![0; SECTION];
        bytes[..data.len()].copy_from_slice(data);
        bytes[ASIDE as usize..][..aside.len()].copy_from_slice(aside);
        Self(RefCell::new(bytes))
    }

    fn results(&self, len: usize) -> Vec<u8> {
        self.0.borrow()[RESULTS as usize..][..len].to_vec()
    }
}

impl Memory for Section {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let bytes = self.0.borrow();
        let end = (at as usize).checked_add(into.len()).ok_or(Fault::Address)?;
        into.copy_from_slice(bytes.get(at as usize..end).ok_or(Fault::Address)?);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Fault> {
        let mut bytes = self.0.borrow_mut();
        let end = (at as usize).checked_add(from.len()).ok_or(Fault::Address)?;
        bytes.get_mut(at as usize..end).ok_or(Fault::Address)?.copy_from_slice(from);
        Ok(())
    }
}

fn job(size: usize, command: u32, custom: [u32; 7]) -> Job {
    let mut all = [RESULTS, 0, 0, 0, 0, 0, 0, 0];
    all[1..].copy_from_slice(&custom);
    let (interface, accelerator) = (InterfaceId::new(0).unwrap(), AcceleratorId::new(0).unwrap());
    Job { interface, accelerator, command, data_addr: 0, data_size: size as u32, custom: all }
}

/// From the beginning to the end; `between` gets the state after each frame.
fn run(kind: Kind, job: &Job, section: &Section, mut between: impl FnMut(&mut State)) -> Result<u64, Fault> {
    kind.begin(job)?;
    let mut state: State = [0; _];
    for _ in 0..1000 {
        match kind.frame(job, &mut state, section)? {
            Step::Over(result) => return Ok(result),
            Step::More => between(&mut state),
        }
    }
    panic!("it does not end");
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn key(hex: &str) -> [u32; 4] {
    let bytes = bytes(hex);
    std::array::from_fn(|at| u32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap()))
}

fn i16s(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[test]
fn aes_is_that_of_the_standards() {
    // FIPS 197, appendix C.1.
    let [a, b, c, d] = key("000102030405060708090a0b0c0d0e0f");
    let plain = bytes("00112233445566778899aabbccddeeff");
    let section = Section::with(&plain, &[]);
    assert_eq!(run(Kind::Aes128, &job(16, 0, [a, b, c, d, 0, 0, 0]), &section, |_| {}), Ok(16));
    assert_eq!(section.results(16), bytes("69c4e0d86a7b0430d8cdb78070b4c55a"));
    let section = Section::with(&section.results(16), &[]);
    run(Kind::Aes128, &job(16, 1, [a, b, c, d, 0, 0, 0]), &section, |_| {}).unwrap();
    assert_eq!(section.results(16), plain);
    // NIST SP 800-38A, F.2.1 and F.2.2.
    let [a, b, c, d] = key("2b7e151628aed2a6abf7158809cf4f3c");
    let plain = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    let chained = bytes("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2");
    let first = bytes("000102030405060708090a0b0c0d0e0f");
    for (command, from, to) in [(2, &plain, &chained), (3, &chained, &plain)] {
        let section = Section::with(from, &first);
        run(Kind::Aes128, &job(32, command, [a, b, c, d, ASIDE, 0, 0]), &section, |_| {}).unwrap();
        assert_eq!(&section.results(32), to, "command {command}");
    }
}

#[test]
fn chained_blocks_follow_each_other_over_frames() {
    let key = [1, 2, 3, 4, ASIDE, 0, 0];
    let plain: Vec<u8> = (0..3000u32).map(|at| (at * 11 % 253) as u8).take(2992).collect();
    let section = Section::with(&plain, &[7; 16]);
    run(Kind::Aes128, &job(plain.len(), 2, key), &section, |_| {}).unwrap();
    let chained = section.results(plain.len());
    let mut before = vec![7; 16];
    for (at, block) in plain.chunks(16).enumerate() {
        let mixed: Vec<u8> = block.iter().zip(&before).map(|(plain, before)| plain ^ before).collect();
        let one = Section::with(&mixed, &[]);
        run(Kind::Aes128, &job(16, 0, key), &one, |_| {}).unwrap();
        before = one.results(16);
        assert_eq!(chained[16 * at..][..16], before, "block {at}");
    }
    let section = Section::with(&chained, &[7; 16]);
    run(Kind::Aes128, &job(plain.len(), 3, key), &section, |_| {}).unwrap();
    assert_eq!(section.results(plain.len()), plain);
}

#[test]
fn sha_256_is_that_of_the_standard() {
    // FIPS 180-4's examples, and the empty message.
    let vectors: [(&[u8], &str); 3] = [
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
    ];
    for (message, digest) in &vectors {
        let section = Section::with(message, &[]);
        let result = run(Kind::Sha256, &job(message.len(), 0, [0; 7]), &section, |_| {}).unwrap();
        assert_eq!(section.results(32), bytes(digest));
        assert_eq!(result.to_be_bytes(), bytes(digest)[..8]);
    }
    // Whatever its length, as the library that hashes it at once.
    for len in [55, 56, 63, 64, 1023, 1024, 1025, 2048, 50_000] {
        use sha2::Digest as _;
        let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let section = Section::with(&message, &[]);
        run(Kind::Sha256, &job(len, 0, [0; 7]), &section, |_| {}).unwrap();
        assert_eq!(section.results(32), sha2::Sha256::digest(&message)[..], "{len} bytes");
    }
}

#[test]
fn points_of_bits_lie_where_they_belong() {
    // 1001 0110: (3, -1), (-1, 3) of 16-QAM; 10 bits more make three points of 64-QAM.
    let section = Section::with(&[0b1001_0110], &[]);
    assert_eq!(run(Kind::Qam16, &job(1, 0, [0; 7]), &section, |_| {}), Ok(8));
    let unit = |number: f64, factor: f64| (number / factor.sqrt() * 16384.0).round() as i16;
    assert_eq!(i16s(&section.results(8)), [3.0, -1.0, -1.0, 3.0].map(|number| unit(number, 10.0)));
    // 100 101 | 011 000 | 0000 and nothing: (7, 5), (-3, -7), (-7, -7).
    let section = Section::with(&[0b1001_0101, 0b1000_0000], &[]);
    assert_eq!(run(Kind::Qam64, &job(2, 0, [0; 7]), &section, |_| {}), Ok(12));
    assert_eq!(i16s(&section.results(12)), [7.0, 5.0, -3.0, -7.0, -7.0, -7.0].map(|number| unit(number, 42.0)));
    // The paper's frame.
    assert_eq!(run(Kind::Qam16, &job(18_800 / 8, 0, [0; 7]), &section, |_| {}), Ok(4700 * 4));
}

#[test]
fn transforms_are_those_of_the_definition() {
    for (kind, points) in [(Kind::Fft512, 512usize), (Kind::Fft1024, 1024)] {
        let samples: Vec<i16> = (0..2 * points).map(|at| ((at * 7919 + 13) % 20_011) as i16 - 10_000).collect();
        let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let section = Section::with(&data, &[]);
        run(kind, &job(data.len(), 0, [0; 7]), &section, |_| {}).unwrap();
        let found = i16s(&section.results(data.len()));
        for bin in [0, 1, 17, points / 2, points - 1] {
            let (mut re, mut im) = (0.0, 0.0);
            for at in 0..points {
                let angle = -2.0 * std::f64::consts::PI * (bin * at % points) as f64 / points as f64;
                let (i, q) = (f64::from(samples[2 * at]), f64::from(samples[2 * at + 1]));
                re += i * angle.cos() - q * angle.sin();
                im += i * angle.sin() + q * angle.cos();
            }
            let expected = [re, im].map(|number| (number / points as f64).round() as i16);
            assert_eq!(found[2 * bin..][..2], expected, "{points} points, bin {bin}");
        }
    }
}

#[test]
fn a_filter_answers_an_impulse_with_its_coefficients() {
    let taps: Vec<i16> = vec![16_384, -8_192, 4_096, 100, -100];
    let aside: Vec<u8> = taps.iter().flat_map(|tap| tap.to_le_bytes()).collect();
    let mut data = vec![0u8; 6000];
    // At the border of two frames.
    data[2 * 1022..][..2].copy_from_slice(&i16::MIN.to_le_bytes());
    let section = Section::with(&data, &aside);
    run(Kind::Fir, &job(data.len(), 5, [ASIDE, 0, 0, 0, 0, 0, 0]), &section, |_| {}).unwrap();
    let found = i16s(&section.results(data.len()));
    let expected: Vec<i16> = taps.iter().map(|tap| -tap).collect();
    assert_eq!(found[1022..1027], expected);
    assert!(found[..1022].iter().chain(&found[1027..]).all(|sample| *sample == 0));
}

#[test]
fn what_they_do_not_do_is_refused() {
    let refused = [
        (Kind::Qam16, 0, 0, Fault::Size),
        (Kind::Qam64, 8, 1, Fault::Command),
        (Kind::Fft512, 0, 0, Fault::Size),
        (Kind::Fft1024, 4097, 0, Fault::Size),
        (Kind::Fft1024, 4096, 2, Fault::Command),
        (Kind::Aes128, 17, 0, Fault::Size),
        (Kind::Aes128, 16, 4, Fault::Command),
        (Kind::Sha256, 1, 1, Fault::Command),
        (Kind::Fir, 3, 5, Fault::Size),
        (Kind::Fir, 4, 0, Fault::Command),
        (Kind::Fir, 4, 65, Fault::Command),
    ];
    for (kind, size, command, fault) in refused {
        assert_eq!(kind.begin(&job(size, command, [0; 7])), Err(fault), "{kind:?} of {size} bytes, command {command}");
    }
    let section = Section::with(&[], &[]);
    for kind in Kind::ALL {
        let mut outside = job(SECTION, u32::from(kind == Kind::Fir), [0; 7]);
        outside.data_addr = 4096;
        assert_eq!(run(kind, &outside, &section, |_| {}), Err(Fault::Address), "{kind:?}");
    }
}

fn jobs() -> impl Strategy<Value = (Kind, Vec<u8>, u32)> {
    let kinds = prop::sample::select(&Kind::ALL[..]);
    (kinds, prop::collection::vec(any::<u8>(), 16..20_000), 0..4u32).prop_map(|(kind, mut data, command)| {
        data.truncate(data.len() / 16 * 16);
        let command = match kind {
            Kind::Qam16 | Kind::Qam64 | Kind::Sha256 => 0,
            Kind::Fft512 | Kind::Fft1024 => command % 2,
            Kind::Aes128 => command,
            Kind::Fir => 1 + 13 * command,
        };
        (kind, data, command)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whoever_is_stopped_at_any_frame_has_the_same_result((kind, data, command) in jobs(), other in any::<u8>()) {
        let custom = if kind == Kind::Fir { [ASIDE; 7] } else { [1, 2, 3, 4, ASIDE, 0, 0] };
        let job = job(data.len(), command, custom);
        let aside: Vec<u8> = (0..128u8).map(|at| other.wrapping_add(at.wrapping_mul(7))).collect();
        let (whole, stopped) = (Section::with(&data, &aside), Section::with(&data, &aside));
        let result = run(kind, &job, &whole, |_| {});
        // Another client's job is done in the meantime, with the same accelerator: all that goes on is the state.
        let elsewhere = Section::with(&data[..16], &[other; 128]);
        let after = run(kind, &job, &stopped, |state| {
            let saved: Vec<u64> = state.to_vec();
            let mut small = job;
            small.data_size = 16;
            run(kind, &small, &elsewhere, |_| {}).unwrap();
            *state = saved.try_into().unwrap();
        });
        prop_assert_eq!(result, after);
        prop_assert!(whole.0 == stopped.0, "{:?} has written something else", kind);
    }

    #[test]
    fn no_state_makes_them_fail((kind, data, command) in jobs(), words in prop::collection::vec(any::<u64>(), 128)) {
        let job = job(data.len(), command, [ASIDE; 7]);
        let section = Section::with(&data, &[]);
        let mut state: State = words.try_into().unwrap();
        let _ = kind.frame(&job, &mut state, &section);
        state[0] %= 2 * data.len() as u64;
        let _ = kind.frame(&job, &mut state, &section);
    }
}
