//! x86-64 (Intel's manual, volume 2, chapter 2 and appendix A; AMD's, volume 6, for XOP): what precedes the operands becomes one word,
//! the *key*, which the table is asked about.
//!
//! | bits of the key | what |
//! |---|---|
//! | 0–7 | opcode |
//! | 8–11 | map: 0 one byte, 1 `0F`, 2 `0F 38`, 3 `0F 3A`, others as encoded |
//! | 12–13 | how it is encoded: 0 legacy, 1 VEX, 2 EVEX, 3 XOP |
//! | 14–15 | prefix as VEX encodes it: 0 none, 1 `66`, 2 `F3`, 3 `F2` |
//! | 16 | W |
//! | 17–18 | vector length |
//! | 19 | ModRM.mod is 3: a register |
//! | 20–22 | ModRM.reg |
//! | 23–25 | ModRM.rm |

use motet_layout::Isa;

use super::{LONGEST_BYTES, Needed, lookup::look_up, x86_64_table::KEYS};

pub(super) fn needed(bytes: &[u8]) -> Needed {
    decode(&mut Reader { bytes, at: 0 }).unwrap_or_else(|end| end)
}

/// Reads the instruction's bytes one after the other; past the end, says what that means.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) -> Result<(), Needed> {
        self.at += count;
        match self.at {
            at if at > LONGEST_BYTES => Err(Needed::Unknown),
            at if at > self.bytes.len() => Err(Needed::Short),
            _ => Ok(()),
        }
    }

    fn next(&mut self) -> Result<u8, Needed> {
        self.skip(1)?;
        Ok(self.bytes[self.at - 1])
    }
}

/// What comes before ModRM.
#[derive(Default)]
struct Opcode {
    byte: u8,
    map: u8,
    encoding: u8,
    prefix: u8,
    wide: u8,
    vector: u8,
    /// EVEX.b: with registers, `vector` is a rounding mode, and vectors have 512 bits.
    rounds: bool,
}

impl Opcode {
    /// Of those in the table, vzeroupper and vzeroall have none.
    const fn has_modrm(&self) -> bool {
        !matches!((self.encoding, self.map, self.byte), (VEX, 1, 0x77))
    }
}

const LEGACY: u8 = 0;
const VEX: u8 = 1;
const EVEX: u8 = 2;
const XOP: u8 = 3;

fn decode(reader: &mut Reader) -> Result<Needed, Needed> {
    let opcode = opcode(reader)?;
    let modrm = if opcode.has_modrm() { reader.next()? } else { 0xc0 };
    let (is_register, reg, rm) = (modrm >> 6 == 3, modrm >> 3 & 7, modrm & 7);
    let vector = if opcode.rounds && is_register { 2 } else { opcode.vector };
    let key = u32::from(opcode.byte)
        | u32::from(opcode.map) << 8
        | u32::from(opcode.encoding) << 12
        | u32::from(opcode.prefix) << 14
        | u32::from(opcode.wide) << 16
        | u32::from(vector) << 17
        | u32::from(is_register) << 19
        | u32::from(reg) << 20
        | u32::from(rm) << 23;
    let requirement = look_up(KEYS, Isa::X86_64, key, 0);
    if let Needed::Unknown = requirement.needed() {
        return Ok(Needed::Unknown);
    }
    address(reader, modrm)?;
    reader.skip(immediate_bytes(&opcode))?;
    Ok(requirement.with_len(reader.at as u8).needed())
}

fn opcode(reader: &mut Reader) -> Result<Opcode, Needed> {
    let (mut operand_size, mut repeat, mut locked, mut rex) = (false, 0, false, None);
    loop {
        let byte = reader.next()?;
        let prefixed = operand_size || repeat != 0 || locked || rex.is_some();
        match byte {
            0x66 => operand_size = true,
            0xf3 => repeat = 2,
            0xf2 => repeat = 3,
            0xf0 => locked = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 => {}
            0x40..=0x4f => {
                rex = Some(byte);
                continue;
            }
            // After other prefixes they are illegal.
            0xc4 | 0xc5 | 0x62 if prefixed => return Err(Needed::Unknown),
            0xc5 => return two_byte_vex(reader),
            0xc4 => return three_byte(reader, VEX),
            0x62 => return evex(reader),
            0x8f if !prefixed => return three_byte(reader, XOP),
            _ => {
                let prefix = if repeat == 0 { u8::from(operand_size) } else { repeat };
                return legacy(reader, byte, prefix, rex.unwrap_or(0) >> 3 & 1);
            }
        }
        // Only the last byte before the opcode is one.
        rex = None;
    }
}

fn legacy(reader: &mut Reader, first: u8, prefix: u8, wide: u8) -> Result<Opcode, Needed> {
    let (map, byte) = match first {
        // Floating point, of which SSE3 has one.
        0xd8..=0xdf => (0, first),
        0x0f => match reader.next()? {
            0x38 => (2, reader.next()?),
            0x3a => (3, reader.next()?),
            byte => (1, byte),
        },
        _ => return Err(Needed::Unknown),
    };
    Ok(Opcode { byte, map, encoding: LEGACY, prefix, wide, ..Opcode::default() })
}

fn two_byte_vex(reader: &mut Reader) -> Result<Opcode, Needed> {
    let payload = reader.next()?;
    let (prefix, vector) = (payload & 3, payload >> 2 & 1);
    Ok(Opcode { byte: reader.next()?, map: 1, encoding: VEX, prefix, vector, ..Opcode::default() })
}

/// VEX of three bytes, and XOP, which is `pop` if the map is below 8.
fn three_byte(reader: &mut Reader, encoding: u8) -> Result<Opcode, Needed> {
    let map = reader.next()? & 31;
    if map > 15 || (encoding == XOP && map < 8) {
        return Err(Needed::Unknown);
    }
    let payload = reader.next()?;
    let (prefix, vector, wide) = (payload & 3, payload >> 2 & 1, payload >> 7);
    Ok(Opcode { byte: reader.next()?, map, encoding, prefix, wide, vector, rounds: false })
}

fn evex(reader: &mut Reader) -> Result<Opcode, Needed> {
    let [registers, operands, mode] = [reader.next()?, reader.next()?, reader.next()?];
    // Bits that later extensions use.
    if registers & 8 != 0 || operands & 4 == 0 {
        return Err(Needed::Unknown);
    }
    Ok(Opcode {
        byte: reader.next()?,
        map: registers & 7,
        encoding: EVEX,
        prefix: operands & 3,
        wide: operands >> 7,
        vector: mode >> 5 & 3,
        rounds: mode & 0x10 != 0,
    })
}

/// Skips SIB and displacement.
fn address(reader: &mut Reader, modrm: u8) -> Result<(), Needed> {
    let (kind, mut base) = (modrm >> 6, modrm & 7);
    if kind == 3 {
        return Ok(());
    }
    if base == 4 {
        base = reader.next()? & 7;
    }
    reader.skip(match (kind, base) {
        (0, 5) | (2, _) => 4,
        (1, _) => 1,
        _ => 0,
    })
}

/// Bytes after the address, of instructions that the table has.
fn immediate_bytes(opcode: &Opcode) -> usize {
    match (opcode.encoding, opcode.map, opcode.byte) {
        (XOP, 8, _) => 1,
        (XOP, 10, _) => 4,
        (LEGACY | VEX | EVEX, 3, _) => 1,
        // SSE4a's extrq and insertq.
        (LEGACY, 1, 0x78) => 2,
        (LEGACY | VEX | EVEX, 1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) => 1,
        _ => 0,
    }
}
