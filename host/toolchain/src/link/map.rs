//! The map of a program (`-Wl,-Map`): what lies where, and out of which file.

use std::fmt::Write;

use super::{plan::Plan, targets::Segment};
use crate::isa::ISAS;

/// The map, a line for each function and datum in the order of addresses.
pub fn text(plan: &Plan) -> String {
    let mut map = String::from("One address on all instruction sets, unless a line names one.\n");
    for segment in Segment::ALL {
        let (start, end) = plan.ranges[&segment];
        let _ = writeln!(map, "\n{start:#012x} {:#10x} {}", end - start, segment.name());
        let mut rows: Vec<(u64, String)> = Vec::new();
        for id in &plan.order {
            let unit = plan.linkage.units.get(*id);
            if unit.segment == segment {
                let file = &plan.linkage.program.modules[unit.module].name;
                let addresses = &plan.addresses[id];
                let is_one = addresses.iter().all(|address| *address == addresses[0]);
                for (isa, address) in addresses.iter().enumerate().filter(|(isa, _)| unit.sections[*isa].is_some()) {
                    let of = if is_one { String::new() } else { format!(" ({})", ISAS[isa].name()) };
                    rows.push((*address, format!("{:#10x}   {} {file}{of}", unit.size, unit.title())));
                }
            }
        }
        if segment == Segment::Bss {
            rows.extend(plan.commons.iter().map(|(name, address)| (*address, format!("{:>10}   {name} (common)", ""))));
        }
        rows.sort();
        rows.dedup();
        rows.iter().for_each(|(address, row)| {
            let _ = writeln!(map, "{address:#012x} {row}");
        });
    }
    map
}
