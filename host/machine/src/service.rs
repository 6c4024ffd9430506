//! `[[service]]`: the machine's service core (`docs/protocols/service.md`).

use std::ops::RangeInclusive;

use motet_layout::{SERVICE_BARRIERS, SERVICE_CLIENTS, SERVICE_MUTEXES};
use serde::Deserialize;
use toml::Spanned;

use super::fault::{self, fault};
use motet_error::Result;

/// A service core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServiceSpec {
    /// Timed runs: how long a store to a register keeps its core, in nanoseconds.
    pub store_ns: u64,
    /// Timed runs: from a store, or the beginning of a load, until the core has it, in nanoseconds.
    pub request_ns: u64,
    /// Timed runs: one operation, in nanoseconds.
    pub operation_ns: u64,
    /// Timed runs: from the end of an operation until the load that waits for it has the answer, in nanoseconds.
    pub answer_ns: u64,
    /// Timed runs: operations that it executes at once.
    pub ports: u32,
    /// Mutexes that there can be, and condition variables.
    pub mutexes: u32,
    /// Barriers that there can be.
    pub barriers: u32,
    /// Pages of registers.
    pub clients: u32,
}

/// Longest time of each part.
const NS_MAX: i64 = 1_000_000;
/// Most ports.
const PORTS_MAX: i64 = 32;
/// A bus that clocks at 100 MHz, and a core that needs two of its cycles: tens of cycles of the cores that ask.
const PART_NS: i64 = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceTable {
    store_ns: Option<Spanned<i64>>,
    request_ns: Option<Spanned<i64>>,
    operation_ns: Option<Spanned<i64>>,
    answer_ns: Option<Spanned<i64>>,
    ports: Option<Spanned<i64>>,
    mutexes: Option<Spanned<i64>>,
    barriers: Option<Spanned<i64>>,
    clients: Option<Spanned<i64>>,
}

/// The service core that a file describes, if any.
pub(super) fn check(text: &str, tables: Vec<Spanned<ServiceTable>>) -> Result<Option<ServiceSpec>> {
    if let Some(second) = tables.get(1) {
        return Err(fault(text, second.span(), "service: a machine has at most one service core"));
    }
    let Some(table) = tables.into_iter().next().map(Spanned::into_inner) else { return Ok(None) };
    let number = |key: &str, value: &Option<Spanned<i64>>, default: i64, range: RangeInclusive<i64>| {
        fault::number(text, &format!("service.{key}"), value.as_ref(), default, range)
    };
    let objects = |key: &str, value: &Option<Spanned<i64>>, most: usize| {
        number(key, value, most as i64, 1..=most as i64).map(|number| number as u32)
    };
    Ok(Some(ServiceSpec {
        store_ns: number("store_ns", &table.store_ns, 0, 0..=NS_MAX)?,
        request_ns: number("request_ns", &table.request_ns, PART_NS, 0..=NS_MAX)?,
        operation_ns: number("operation_ns", &table.operation_ns, PART_NS, 1..=NS_MAX)?,
        answer_ns: number("answer_ns", &table.answer_ns, PART_NS, 0..=NS_MAX)?,
        ports: number("ports", &table.ports, 1, 1..=PORTS_MAX)? as u32,
        mutexes: objects("mutexes", &table.mutexes, SERVICE_MUTEXES)?,
        barriers: objects("barriers", &table.barriers, SERVICE_BARRIERS)?,
        clients: objects("clients", &table.clients, SERVICE_CLIENTS)?,
    }))
}
