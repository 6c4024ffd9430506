//! Which extensions of their instruction set cores have, of those that QEMU gives them.

use motet_abi::extension::ExtensionSet;
use motet_layout::Isa;
use serde::Deserialize;
use toml::Spanned;

use super::fault::fault;
use motet_error::Result;

/// `[[island.core]]`: what is different on some of an island's cores.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CoreTable {
    cores: Spanned<Vec<Spanned<i64>>>,
    extensions: Vec<Spanned<String>>,
}

/// What a file says of a core's extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreExtensions {
    /// What it takes away of those that the core reports.
    pub withheld: ExtensionSet,
    /// What vendors have made, of which no core reports anything: the file alone knows.
    pub claimed: ExtensionSet,
}

/// By core: `"-v"` takes V away, and what implies it; `"v"` gives it back; `"custom-0"` says that the core has it.
///
/// # Errors
/// Names of no extension, cores that the island does not have or that are named twice.
pub(super) fn by_core(
    text: &str,
    isa: Isa,
    cores: usize,
    of_island: &[Spanned<String>],
    of_cores: &[CoreTable],
) -> Result<Vec<CoreExtensions>> {
    let all = ExtensionSet::all(isa);
    // Of what cores report, all unless the file says otherwise; of what vendors have made, nothing.
    let reported = all.difference(all.vendors());
    let left = edit(text, reported, of_island)?;
    let mut by_core = vec![left; cores];
    let mut named = vec![false; cores];
    for table in of_cores {
        let left = edit(text, left, &table.extensions)?;
        if table.cores.get_ref().is_empty() {
            return Err(fault(text, table.cores.span(), "core: cores: names no core"));
        }
        for core in table.cores.get_ref() {
            let index = usize::try_from(*core.get_ref()).ok().filter(|&index| index < cores);
            let Some(index) = index else {
                let message = format!("core: cores: {}, the island has cores 0 to {}", core.get_ref(), cores - 1);
                return Err(fault(text, core.span(), &message));
            };
            if std::mem::replace(&mut named[index], true) {
                return Err(fault(text, core.span(), &format!("core: cores: {index} is described twice")));
            }
            by_core[index] = left;
        }
    }
    let of = |left: ExtensionSet| CoreExtensions { withheld: reported.difference(left), claimed: left.vendors() };
    Ok(by_core.into_iter().map(of).collect())
}

fn edit(text: &str, set: ExtensionSet, names: &[Spanned<String>]) -> Result<ExtensionSet> {
    names.iter().try_fold(set, |set, name| {
        let edited = set.edited([name.get_ref().as_str()]);
        edited.map_err(|error| fault(text, name.span(), &format!("extensions: {error}")))
    })
}
