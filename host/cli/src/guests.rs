//! `motet guests`: programs for virtual machines and bare boards (docs/guests.md), built when somebody asks for them.

use motet_error::Result;
use motet_fabric::{place::Place, run::guest_path};
use motet_layout::Isa;
use motet_toolchain::Tools;

use crate::{arguments::GuestsOptions, build, progress};

/// The instruction sets that there are guests for.
const ISAS: [Isa; 2] = [Isa::AArch64, Isa::RiscV64];
/// The names of all guests.
const GUESTS: [&str; 8] = ["rtos", "freertos", "heartbeat", "hostile", "serial", "share", "accelerated", "times"];

/// Builds the guests, and prints their paths.
///
/// # Errors
/// An unknown instruction set, the C compiler cannot be fetched, or cargo is missing or fails.
pub fn guests(options: &GuestsOptions) -> Result<u8> {
    let place = Place::find()?;
    place.needs_source("guests")?;
    let Place { root, built: target, .. } = place;
    let isas = build::choose(&ISAS, &options.isas)?;
    // For FreeRTOS, which is C.
    let tools = Tools::find(&target.join("toolchain"))?;
    for isa in isas {
        progress::print(&format!("motet: building the guests for {}", isa.name()));
        let package = ["--profile", "kernel", "-p", "motet-guests", "--features", "freertos"];
        build::cargo(&root, isa, &package, &[("MOTET_ZIG", &tools.program)])?;
        for guest in GUESTS {
            motet_error::print(&format!("{}\n", target.join(guest_path(isa, guest)).display()))?;
        }
    }
    Ok(0)
}
