//! The headline figures of each machine.

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::flick::{
    calls::{COHERENT_TARGET_US, LINK_TARGET_US, POLLING_TARGET_US},
    machines::Protocol,
    paper,
};

/// What a null call by Flick's protocol is to take less than, over what the paper has.
const OVER_PAPER: f64 = 1.15;

/// A headline figure: a null call there and back, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its metric, as `motet bench flick` has it.
    pub metric: String,
    /// Caller and callee.
    pub isas: [Isa; 2],
    /// How the calls are made.
    pub protocol: Protocol,
    /// Whether idle cores poll that do not in the machine's file.
    pub polls: bool,
    /// What it is to be less than.
    pub target_us: f64,
}

fn of(machine: &str) -> Vec<Figure> {
    if machine == "flick" {
        let figure = |metric: &str, isas, protocol, target_us| Figure {
            metric: metric.into(),
            isas,
            protocol,
            polls: false,
            target_us,
        };
        let there = [Isa::X86_64, Isa::RiscV64];
        let back = [Isa::RiscV64, Isa::X86_64];
        return vec![
            figure("null_call_host_nxp_host_us", there, Protocol::Motet, LINK_TARGET_US),
            figure("null_call_nxp_host_nxp_us", back, Protocol::Motet, LINK_TARGET_US),
            figure("flick_protocol_host_nxp_host_us", there, Protocol::Flick, OVER_PAPER * paper::HOST_NXP_HOST_US),
            figure("flick_protocol_nxp_host_nxp_us", back, Protocol::Flick, OVER_PAPER * paper::NXP_HOST_NXP_US),
        ];
    }
    let mut figures = Vec::new();
    for (how, polls, target_us) in [("", false, COHERENT_TARGET_US), ("_polling", true, POLLING_TARGET_US)] {
        for isas in [[Isa::X86_64, Isa::AArch64], [Isa::AArch64, Isa::X86_64]] {
            let [from, to] = isas.map(Isa::name);
            let metric = format!("null_call_coherent{how}_us_{}_{from}_{to}", machine.replace('-', "_"));
            figures.push(Figure { metric, isas, protocol: Protocol::Motet, polls, target_us });
        }
    }
    figures
}

/// Those of a machine that are named; all, if none is.
///
/// # Errors
/// One is not there: the message lists those that are.
pub fn named(machine: &str, names: &[String]) -> Result<Vec<Figure>> {
    let mut figures = of(machine);
    if let Some(name) = names.iter().find(|name| !figures.iter().any(|figure| figure.metric == **name)) {
        let all: Vec<&str> = figures.iter().map(|figure| figure.metric.as_str()).collect();
        let message = format!("--figure {name}: {machine} has no such; there are: {}", all.join(", "));
        return Err(Error::new(ErrorKind::Usage, message));
    }
    figures.retain(|figure| names.is_empty() || names.contains(&figure.metric));
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_name_and_others_refused() {
        let metrics = |machine: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
            named(machine, &names).map(|found| found.into_iter().map(|figure| figure.metric).collect::<Vec<_>>())
        };
        let ways = ["host_nxp_host_us", "nxp_host_nxp_us"];
        let flick = ["null_call", "flick_protocol"].map(|start| ways.map(|way| format!("{start}_{way}"))).concat();
        assert_eq!(metrics("flick", &[]).unwrap(), flick);
        let one = "null_call_coherent_polling_us_stramash_fully_shared_aarch64_x86_64";
        assert_eq!(metrics("stramash-fully-shared", &[one]).unwrap(), [one]);
        assert!(metrics("flick", &[one]).unwrap_err().message.contains("there are: null_call_host_nxp_host_us"));
    }
}
