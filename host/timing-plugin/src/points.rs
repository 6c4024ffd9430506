//! Points: instructions whose moments are noted, for `--points` and for bare boards. They change nothing in the simulation.

use std::{collections::BTreeMap, sync::OnceLock};

use motet_plugin_api::{Guest, Instruction, Vcpu};
use motet_record::{POINTS_MAX, Passage, Passages, Point};

use crate::{PLUGIN, Plugin, operands};

/// Points of an island, and room for what happens there.
#[derive(Debug)]
pub struct Points {
    /// By address: a number, and a register whose value is noted.
    points: BTreeMap<u64, (usize, Option<String>)>,
    passages: Passages<'static>,
}

/// Bits of a call's data for a point's number.
const NUMBER_BITS: u32 = POINTS_MAX.ilog2();
/// Names of registers, by a point's number.
static REGISTERS: OnceLock<BTreeMap<usize, String>> = OnceLock::new();

impl Points {
    /// From lines as [`Point`] writes them, whose numbers count from 0.
    ///
    /// # Errors
    /// A line is something else, or there are too many.
    pub fn new(text: &str, island: usize, passages: Passages<'static>) -> Result<Self, String> {
        let mut points = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let point = Point::read(line, |word| word.parse().ok()).ok_or_else(|| format!("points: {line}"))?;
            if number >= POINTS_MAX {
                return Err(format!("points: more than {POINTS_MAX}"));
            }
            if point.island == island {
                points.insert(point.address, (number, point.register));
            }
        }
        let named = points.values().filter_map(|(number, register)| Some((*number, register.clone()?)));
        let _ = REGISTERS.set(named.collect());
        Ok(Self { points, passages })
    }

    /// The number of a point.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.points.get(&address).map(|(number, _)| *number)
    }

    /// Lets translated code note the moment of an instruction; `ahead_ps`: what is charged already and comes later.
    pub fn report(&self, instruction: &Instruction<'_>, number: usize, ahead_ps: u64) {
        let data = (ahead_ps << NUMBER_BITS) as usize | number;
        if self.points.values().any(|(other, register)| *other == number && register.is_some()) {
            instruction.call_with_guest(passed_with_guest, data);
        } else {
            instruction.call(passed, data);
        }
    }
}

fn passed(vcpu: &mut Vcpu, data: usize) {
    note(vcpu, data, 0);
}

fn passed_with_guest(vcpu: &mut Vcpu, guest: &Guest<'_>, data: usize) {
    let number = data & ((1 << NUMBER_BITS) - 1);
    let register = REGISTERS.get().and_then(|all| all.get(&number));
    note(vcpu, data, register.and_then(|name| operands::named(guest, name)).unwrap_or(0));
}

fn note(vcpu: &mut Vcpu, data: usize, value: u64) {
    let Some((plugin, points)) = PLUGIN.get().and_then(|plugin| Some((plugin, plugin.points.as_ref()?))) else {
        return;
    };
    let Some(core) = plugin.core(vcpu).filter(|_| !plugin.timing.is_stopped()) else { return };
    let at_ps = now_at(plugin, vcpu, data as u64 >> NUMBER_BITS);
    let (point, core) = (data & ((1 << NUMBER_BITS) - 1), plugin.number(core));
    points.passages.note(Passage { point, core, at_ps, value });
}

fn now_at(plugin: &Plugin, vcpu: &mut Vcpu, ahead_ps: u64) -> u64 {
    plugin.now_ps(vcpu).saturating_sub(ahead_ps)
}
