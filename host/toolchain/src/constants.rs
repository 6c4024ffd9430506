//! Variables that no code writes.
//!
//! Without optimisation clang leaves `static char text[] = ...` a variable, though nothing writes it; the optimiser makes a constant of it or
//! takes it out. The linker wants variables to be the same for all ISAs, since code of one may read what another's has written. That is no reason
//! to refuse what is never written, and programs that ask a compiler about itself (`check_type_size` of CMake) are made of such texts.

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, elf};

/// Options, behind those of the user, by which clang finds out.
pub const FLAGS: [&str; 3] = ["-w", "-O1", "-fno-keep-persistent-storage-variables"];

/// Whether a variable in an object file that was compiled with [`FLAGS`] can be written.
pub fn is_written(object: &[u8], variable: &str) -> bool {
    let Ok(file) = object::File::parse(object) else { return true };
    let section_of = |symbol: object::Symbol<'_, '_>| file.section_by_index(symbol.section_index()?).ok();
    let mut symbols = file.symbols().filter(|symbol| symbol.name() == Ok(variable));
    symbols.any(|symbol| match section_of(symbol).map(|section| section.flags()) {
        Some(SectionFlags::Elf { sh_flags, .. }) => sh_flags.0 & elf::SHF_WRITE.0 != 0,
        _ => true,
    })
}
