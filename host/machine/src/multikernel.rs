//! `os = "multikernel"` and `[messages]`: a kernel for each island, with memory of its own, and windows between them (`docs/protocols/messages.md`).

use motet_coherence::{Bytes, config::Link};
use motet_error::Result;
use motet_layout::{NODES_MAX, PAGE_SIZE, PAGES_MAX, RING_SLOTS_MAX, SLOT_LEN_MAX, SLOT_LEN_MIN};
use motet_protocol::{peer::MessageKind, ring};
use serde::Deserialize;
use toml::Spanned;

use super::{
    LocalRange, MachineSpec, POOL_SIZE_MIN,
    fault::{fault, span_of},
    local_ranges,
};

/// Pieces of a kernel's memory begin at multiples of this: x86-64 maps them by such pages.
const PIECE_ALIGN: u64 = 2 << 20;

/// A machine in which each island has a kernel of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultikernelSpec {
    /// Kernels, one for each island.
    pub kernels: usize,
    /// Bytes of memory that each has.
    pub kernel_len: u64,
    /// Bytes of a window between two.
    pub window_len: u64,
    /// Slots of a ring: messages that wait in one direction, at most.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_len: u32,
    /// A message rings only a kernel that is not about to look.
    pub coalesces: bool,
    /// Pages behind one that is asked for that are wished for, too.
    pub prefetch: u32,
    /// Pages are read in place: each kernel may read the other one's memory, which it sees behind its windows.
    pub by_reference: bool,
    /// How much later a message arrives than its doorbell would, in simulated nanoseconds.
    pub message_ns: u64,
}

/// What two messages, there and back, take longer over TCP than by shared memory: what Stramash's simulator adds (section 8.2).
const TCP_ROUND_TRIP_NS: i64 = 75_000;
const ROUND_TRIP_NS_MAX: i64 = 1_000_000_000;

/// `[messages]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesTable {
    slots: Option<Spanned<i64>>,
    slot: Option<Spanned<Bytes>>,
    coalesce: Option<bool>,
    prefetch: Option<Spanned<i64>>,
    #[serde(rename = "by-reference")]
    by_reference: Option<Spanned<bool>>,
    transport: Option<Spanned<String>>,
    round_trip_ns: Option<Spanned<i64>>,
}

/// Whether each island has a kernel of its own, from what the file says of it. The rest of the machine has been checked.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn check(
    text: &str,
    os: Option<&Spanned<String>>,
    messages: Option<Spanned<MessagesTable>>,
    machine: &MachineSpec,
) -> Result<Option<MultikernelSpec>> {
    match (os.map(|name| name.get_ref().as_str()), &messages) {
        (None | Some("fused"), None) => return Ok(None),
        (None | Some("fused"), Some(table)) => {
            let why = "messages: kernels that share all memory send none; os = \"multikernel\" gives each island a kernel of its own";
            return Err(fault(text, table.span(), why));
        }
        (Some("multikernel"), _) => {}
        (Some(other), _) => {
            let why = format!("os: unknown way \"{other}\"; known: fused, multikernel");
            return Err(fault(text, span_of(os), &why));
        }
    }
    if let Some(why) = misfit(machine) {
        return Err(fault(text, span_of(os), &format!("os: a multikernel {why}")));
    }
    let table = messages.map(Spanned::into_inner);
    let (slots, slot_len) =
        table.as_ref().map_or(Ok((RING_SLOTS_MAX as u32, SLOT_LEN_MAX as u32)), |table| table.ring(text))?;
    let kernels = machine.islands.len();
    let window_len = ring::window_len(slots, slot_len).next_multiple_of(PIECE_ALIGN);
    let windows_len = window_len * (kernels * (kernels - 1) / 2) as u64;
    let unit = machine.pool.block.max(PIECE_ALIGN);
    let kernel_len = machine.pool.size.saturating_sub(windows_len) / kernels as u64 / unit * unit;
    if kernel_len < POOL_SIZE_MIN {
        let why = format!(
            "os: {kernels} kernels of at least {} and the windows between them, {} in all, are more than the pool has",
            Bytes(POOL_SIZE_MIN),
            Bytes(windows_len),
        );
        return Err(fault(text, span_of(os), &why));
    }
    let coalesces = table.as_ref().and_then(|table| table.coalesce).unwrap_or(false);
    let by_reference = table.as_ref().and_then(|table| table.by_reference.clone());
    if let Some(key) = by_reference.as_ref().filter(|key| *key.get_ref() && kernels != 2) {
        let why = format!("messages.by-reference: two kernels read pages in place; the machine has {kernels}");
        return Err(fault(text, key.span(), &why));
    }
    let by_reference = by_reference.is_some_and(Spanned::into_inner);
    let prefetch = table.as_ref().map_or(Ok(0), |table| table.prefetch(text, slot_len))?;
    let message_ns = table.map_or(Ok(0), |table| table.message_ns(text))?;
    let spec = MultikernelSpec {
        kernels,
        kernel_len,
        window_len,
        slots,
        slot_len,
        coalesces,
        prefetch,
        by_reference,
        message_ns,
    };
    if let Some(island) = hides_windows(&spec, machine)? {
        let why = format!(
            "os: messages of \"{island}\" would not be seen: it caches windows privately ([[model.access]]; they begin at {} of the pool)",
            Bytes(spec.start(kernels))
        );
        return Err(fault(text, span_of(os), &why));
    }
    Ok(Some(spec))
}

/// An island whose caches would keep messages to themselves: kernels flush no windows.
fn hides_windows<'a>(spec: &MultikernelSpec, machine: &'a MachineSpec) -> Result<Option<&'a str>> {
    let config = machine.model_config()?;
    let start = spec.start(spec.kernels);
    let end = start + spec.window_len * (spec.kernels * (spec.kernels - 1) / 2) as u64;
    let hides = |&island: &usize| config.private_parts(island).any(|part| part.start < end && start < part.end);
    Ok((0..spec.kernels).find(hides).map(|island| machine.islands[island].name.as_str()))
}

/// What of the machine does not go together with kernels that share nothing.
fn misfit(machine: &MachineSpec) -> Option<String> {
    let count = machine.islands.len();
    if !(2..=NODES_MAX).contains(&count) {
        return Some(format!("has 2 to {NODES_MAX} kernels, one for each island; the machine has {count}"));
    }
    let has = [
        (machine.service.is_some(), "service core"),
        (machine.fpga.is_some(), "FPGA"),
        (!machine.hardware.is_empty(), "hardware threads"),
        (machine.islands.iter().any(|island| island.hidden_harts > 0), "hidden harts"),
        (machine.islands.iter().any(|island| island.text.is_some()), "text in a range of the pool"),
        (machine.crossing != super::Crossing::Direct, "crossing"),
        (machine.calls != super::Calls::Fastest, "calls"),
    ];
    let (_, what) = has.into_iter().find(|(is_there, _)| *is_there)?;
    Some(format!("does not go together with this machine's {what}, which all islands share"))
}

impl MessagesTable {
    /// Slots of a ring, and their bytes.
    fn ring(&self, text: &str) -> Result<(u32, u32)> {
        let slots = self.slots.as_ref().map_or(RING_SLOTS_MAX as i64, |slots| *slots.get_ref());
        if !(2..=RING_SLOTS_MAX as i64).contains(&slots) || slots.count_ones() != 1 {
            let why = format!("messages.slots: {slots}, must be a power of two from 2 to {RING_SLOTS_MAX}");
            return Err(fault(text, span_of(self.slots.as_ref()), &why));
        }
        let slot = self.slot.as_ref().map_or(SLOT_LEN_MAX, |slot| slot.get_ref().0);
        if !(SLOT_LEN_MIN..=SLOT_LEN_MAX).contains(&slot) || !slot.is_power_of_two() {
            let limits = (Bytes(SLOT_LEN_MIN), Bytes(SLOT_LEN_MAX));
            let why =
                format!("messages.slot: {}, must be a power of two from {} to {}", Bytes(slot), limits.0, limits.1);
            return Err(fault(text, span_of(self.slot.as_ref()), &why));
        }
        Ok((slots as u32, slot as u32))
    }

    /// How many pages are wished for beside one that is asked for.
    fn prefetch(&self, text: &str, slot_len: u32) -> Result<u32> {
        let prefetch = self.prefetch.as_ref().map_or(0, |number| *number.get_ref());
        let room = u64::from(slot_len) - MessageKind::PagesResponse.message_len() as u64;
        let pages = (room / PAGE_SIZE).min(PAGES_MAX as u64) as i64;
        if !(0..pages).contains(&prefetch) {
            let why = format!(
                "messages.prefetch: {prefetch}, must be 0 to {}: a slot of {} has room for {pages} pages, of which one is that which is asked for",
                pages - 1,
                Bytes(slot_len.into()),
            );
            return Err(fault(text, span_of(self.prefetch.as_ref()), &why));
        }
        Ok(prefetch as u32)
    }

    /// How much longer a message takes than by shared memory.
    fn message_ns(&self, text: &str) -> Result<u64> {
        let round_trip = self.round_trip_ns.as_ref();
        match (self.transport.as_ref().map(|name| name.get_ref().as_str()), round_trip) {
            (None | Some("shm"), None) => Ok(0),
            (None | Some("shm"), Some(number)) => {
                let why = "messages.round_trip_ns: for transport = \"tcp\"; shared memory takes what [model] says";
                Err(fault(text, number.span(), why))
            }
            (Some("tcp"), _) => {
                let round_trip_ns = round_trip.map_or(TCP_ROUND_TRIP_NS, |number| *number.get_ref());
                if !(0..=ROUND_TRIP_NS_MAX).contains(&round_trip_ns) {
                    let why = format!("messages.round_trip_ns: {round_trip_ns}, must be 0 to {ROUND_TRIP_NS_MAX}");
                    return Err(fault(text, span_of(round_trip), &why));
                }
                Ok(round_trip_ns as u64 / 2)
            }
            (Some(other), _) => {
                let why = format!("messages.transport: unknown way \"{other}\"; known: shm, tcp");
                Err(fault(text, span_of(self.transport.as_ref()), &why))
            }
        }
    }
}

impl MultikernelSpec {
    /// Where the memory of a kernel lies in the machine's: its first byte.
    pub fn start(&self, kernel: usize) -> u64 {
        kernel as u64 * self.kernel_len
    }

    /// Where the window between a kernel and another one lies in the kernel's own map of memory, behind its pool. `None`: it is the same kernel.
    pub fn window(&self, kernel: usize, other: usize) -> Option<u64> {
        let place = (0..self.kernels).filter(|&peer| peer != kernel).position(|peer| peer == other)?;
        Some(self.kernel_len + place as u64 * self.window_len)
    }

    /// Has messages come as much later as the transport says. Between kernels there are no other doorbells.
    pub(super) fn slow_down(&self, links: &mut [Vec<Link>]) {
        for (from, row) in links.iter_mut().enumerate() {
            for (_, link) in row.iter_mut().enumerate().filter(|&(to, _)| to != from) {
                link.doorbell_ps += self.message_ns * 1000;
            }
        }
    }

    /// Bytes of a kernel's windows.
    pub fn windows_len(&self) -> u64 {
        (self.kernels as u64 - 1) * self.window_len
    }

    /// The map of a kernel's memory, of `machine`'s islands the one with its number: its own, then the windows to its peers in their order. Nothing else is its, but for the
    /// other one's memory behind them where pages are read in place.
    pub fn ranges(&self, machine: &MachineSpec, kernel: usize) -> Vec<LocalRange> {
        let island = &machine.islands[kernel];
        let base = local_ranges(island.isa, island.private, machine.pool.size)[0].1;
        let mut ranges = vec![(0, base + self.start(kernel), self.kernel_len)];
        for other in (0..self.kernels).filter(|&other| other != kernel) {
            let phys = base + self.start(self.kernels) + self.number(kernel, other) * self.window_len;
            let (offset, first, len) = ranges[ranges.len() - 1];
            if ranges.len() > 1 && first + len == phys {
                ranges.pop();
                ranges.push((offset, first, len + self.window_len));
            } else {
                ranges.push((offset + len, phys, self.window_len));
            }
        }
        if self.by_reference {
            for other in (0..self.kernels).filter(|&other| other != kernel) {
                let (offset, _, len) = ranges[ranges.len() - 1];
                ranges.push((offset + len, base + self.start(other), self.kernel_len));
            }
        }
        ranges
    }

    /// The number of the window between two kernels, of all in the machine: those of the first kernel come first.
    fn number(&self, kernel: usize, other: usize) -> u64 {
        let (low, high) = (kernel.min(other), kernel.max(other));
        let before: usize = (0..low).map(|first| self.kernels - 1 - first).sum();
        (before + high - low - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(islands: usize, further: &str) -> Result<MachineSpec> {
        let isas = ["x86_64", "aarch64", "riscv64", "x86_64", "aarch64"];
        let island = |index: usize| format!("[[island]]\nname = \"i{index}\"\nisa = \"{}\"\ncores = 1\n", isas[index]);
        let islands: String = (0..islands).map(island).collect();
        MachineSpec::parse(&format!("os = \"multikernel\"\n[pool]\nsize = \"1GiB\"\n{islands}{further}"))
    }

    #[test]
    fn kernels_have_what_nobody_else_has_but_their_windows() {
        for kernels in 2..=NODES_MAX {
            let machine = machine(kernels, "[messages]\nslots = 64\nslot = \"16KiB\"\n").unwrap();
            let spec = machine.multikernel.unwrap();
            let private = machine.islands.iter().map(|island| local_ranges(island.isa, island.private, 1 << 30)[0].1);
            let private: Vec<u64> = private.collect();
            // Which kernels have each unit of the machine's memory.
            let mut owners = vec![Vec::new(); ((1u64 << 30) / PIECE_ALIGN) as usize];
            for (kernel, &private) in private.iter().enumerate() {
                let ranges = spec.ranges(&machine, kernel);
                let mut covered = 0;
                assert!(ranges.len() <= 4, "{ranges:x?}");
                for (offset, phys, len) in ranges {
                    assert_eq!((offset, phys % PIECE_ALIGN, len % PIECE_ALIGN), (covered, 0, 0));
                    covered += len;
                    let first = ((phys - private) / PIECE_ALIGN) as usize;
                    owners[first..][..(len / PIECE_ALIGN) as usize]
                        .iter_mut()
                        .for_each(|unit| unit.push((kernel, offset)));
                }
                assert_eq!(covered, spec.kernel_len + spec.windows_len());
            }
            assert!(owners.iter().all(|unit| unit.len() <= 2));
            let shared = owners.iter().filter(|unit| unit.len() == 2).count() as u64 * PIECE_ALIGN;
            assert_eq!(shared, spec.window_len * (kernels * (kernels - 1) / 2) as u64);
            // Both kernels of a pair find the same window where they are told.
            for (kernel, other) in (0..kernels).flat_map(|kernel| (0..kernel).map(move |other| (kernel, other))) {
                let phys = |kernel: usize, other: usize| {
                    let at = spec.window(kernel, other).unwrap();
                    let ranges = spec.ranges(&machine, kernel);
                    let (offset, phys, _) = *ranges.iter().rfind(|(offset, ..)| *offset <= at).unwrap();
                    at - offset + phys - private[kernel]
                };
                assert_eq!(phys(kernel, other), phys(other, kernel));
            }
        }
    }

    #[test]
    fn the_model_has_kernels_where_they_lie_and_a_window_once() {
        let ranges = "[[model.range]]\nname = \"of-i0\"\nend = \"444MiB\"\nnear = [\"i0\"]\n[[model.range]]\nname = \"of-i1\"\n\
            end = \"888MiB\"\nnear = [\"i1\"]\n[[model.range]]\nname = \"window\"\nnear = [\"i0\"]\n";
        let machine = machine(2, ranges).unwrap();
        let (spec, config) = (machine.multikernel.unwrap(), machine.model_config().unwrap());
        let reach = |kernel: usize, offset: u64| {
            let ranges = spec.ranges(&machine, kernel);
            let (start, phys, _) = *ranges.iter().rfind(|(start, ..)| *start <= offset).unwrap();
            let local = phys + offset - start;
            let segment = config.islands[kernel].segments.iter().rfind(|segment| segment.local <= local).unwrap();
            (config.islands[kernel].global(motet_coherence::Kind::Load, local).unwrap(), segment.far)
        };
        for kernel in [0, 1] {
            // Its header, and the records of its cores in it, its last byte, and the window behind that.
            for offset in [0, std::mem::offset_of!(motet_layout::PoolHeader, cores) as u64, spec.kernel_len - 1] {
                assert_eq!(reach(kernel, offset), (spec.start(kernel) + offset, false), "{kernel} {offset:#x}");
            }
            let window = spec.window(kernel, 1 - kernel).unwrap();
            assert_eq!(reach(kernel, window + 64), (2 * spec.kernel_len + 64, kernel == 1));
        }
    }

    #[test]
    fn records_are_near_to_their_island_wherever_its_kernel_lies() {
        let machine = machine(2, "[[model.range]]\nname = \"near-i0\"\nend = \"64MiB\"\nnear = [\"i0\", \"i1\"]\n[[model.range]]\nname = \"far\"\n").unwrap();
        let (spec, config) = (machine.multikernel.unwrap(), machine.model_config().unwrap());
        let base = spec.ranges(&machine, 1)[0].1;
        let is_far = |offset: usize| {
            let local = base + offset as u64;
            config.islands[1].segments.iter().rfind(|segment| segment.local <= local).unwrap().far
        };
        let cores = std::mem::offset_of!(motet_layout::PoolHeader, cores);
        let records = motet_layout::CORES_PER_ISLAND_MAX * size_of::<motet_layout::CoreRecord>();
        // The kernel has room for islands that it has not: it is island 0 of its pool.
        assert_eq!([cores, cores + records - 1, cores + records].map(is_far), [false, false, true]);
    }

    #[test]
    fn popcorns_rings_are_the_default() {
        let spec = machine(2, "").unwrap().multikernel.unwrap();
        assert_eq!((spec.slots, spec.slot_len, spec.coalesces), (1024, 65536, false));
        assert_eq!((spec.window_len, spec.kernel_len), (130 << 20, 444 << 20));
        assert_eq!((spec.window(0, 0), spec.window(0, 1), spec.window(1, 0)), (None, Some(444 << 20), Some(444 << 20)));
    }

    #[test]
    fn tcp_takes_as_much_longer_as_in_the_paper() {
        let latencies_ps = |further: &str| {
            let config = machine(2, further).unwrap().model_config().unwrap();
            [0, 1].map(|to| config.links[0][to].doorbell_ps)
        };
        let near = latencies_ps("")[0];
        assert_eq!(latencies_ps("[messages]\ntransport = \"shm\"\n"), [near; 2]);
        assert_eq!(latencies_ps("[messages]\ntransport = \"tcp\"\n"), [near, near + 37_500_000]);
        assert_eq!(latencies_ps("[messages]\ntransport = \"tcp\"\nround_trip_ns = 600\n"), [near, near + 300_000]);
        let why = |further: &str| machine(2, further).unwrap_err().message;
        assert!(
            why("[messages]\ntransport = \"udp\"\n")
                .contains("messages.transport: unknown way \"udp\"; known: shm, tcp")
        );
        assert!(why("[messages]\nround_trip_ns = 1\n").contains("messages.round_trip_ns: for transport = \"tcp\""));
        let late = "[messages]\ntransport = \"tcp\"\nround_trip_ns = -1\n";
        assert!(why(late).contains("messages.round_trip_ns: -1, must be 0 to 1000000000"));
    }

    #[test]
    fn kernels_that_read_pages_in_place_see_each_others_memory_behind_their_windows() {
        let by_reference = machine(2, "[messages]\nby-reference = true\n").unwrap();
        let (plain, spec) = (machine(2, "").unwrap(), by_reference.multikernel.unwrap());
        for kernel in [0, 1] {
            let mut wanted = plain.multikernel.unwrap().ranges(&plain, kernel);
            let other = wanted[0].1 - spec.start(kernel) + spec.start(1 - kernel);
            wanted.push((spec.kernel_len + spec.windows_len(), other, spec.kernel_len));
            assert_eq!(spec.ranges(&by_reference, kernel), wanted);
        }
        let why = machine(3, "[messages]\nby-reference = true\n").unwrap_err().message;
        assert!(why.contains("messages.by-reference: two kernels read pages in place; the machine has 3"), "{why}");
        assert!(!machine(3, "[messages]\nby-reference = false\n").unwrap().multikernel.unwrap().by_reference);
    }

    #[test]
    fn pages_are_prefetched_as_far_as_a_message_has_room() {
        let parse = |messages: &str| machine(2, &format!("[messages]\n{messages}"));
        let of = |messages: &str| parse(messages).unwrap().multikernel.unwrap().prefetch;
        assert_eq!((of(""), of("prefetch = 0\n"), of("prefetch = 14\n")), (0, 0, 14));
        assert_eq!(of("slot = \"16KiB\"\nprefetch = 2\n"), 2);
        let why = |messages: &str| parse(messages).unwrap_err().message;
        let most = "messages.prefetch: 15, must be 0 to 14: a slot of 64KiB has room for 15 pages, of which one is that which is asked for";
        assert!(why("prefetch = 15\n").contains(most));
        assert!(why("prefetch = -1\n").contains("messages.prefetch: -1, must be 0 to 14"));
        assert!(
            why("slot = \"8KiB\"\nprefetch = 1\n")
                .contains("messages.prefetch: 1, must be 0 to 0: a slot of 8KiB has room for 1 pages")
        );
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let why = |islands, further: &str| machine(islands, further).unwrap_err().message;
        assert!(
            why(1, "").contains("1:6: os: a multikernel has 2 to 4 kernels, one for each island; the machine has 1")
        );
        assert!(why(5, "").contains("the machine has 5"));
        let small = machine(4, "").unwrap().text.replace("1GiB", "896MiB");
        let small = MachineSpec::parse(&small).unwrap_err().message;
        let want = "1:6: os: 4 kernels of at least 32MiB and the windows between them, 780MiB in all, are more than the pool has";
        assert!(small.contains(want), "{small}");
        assert!(why(2, "[messages]\nslots = 3\n").contains("messages.slots: 3, must be a power of two from 2 to 1024"));
        assert!(
            why(2, "[messages]\nslot = \"4KiB\"\n")
                .contains("messages.slot: 4KiB, must be a power of two from 8KiB to 64KiB")
        );
        // Two kernels with all of Popcorn's rings: the window begins at 888 MiB.
        let private = |at: &str| {
            format!(
                "[[model.range]]\nname = \"first\"\nend = \"{at}\"\nnear = [\"i1\"]\n[[model.range]]\nname = \"rest\"\nnear = [\"i1\"]\n\
                 [[model.access]]\nisland = \"i1\"\nrange = \"first\"\ndata = \"private\"\n"
            )
        };
        let want = "1:6: os: messages of \"i1\" would not be seen: it caches windows privately ([[model.access]]; they begin at 888MiB of the pool)";
        assert!(why(2, &private("890MiB")).contains(want));
        assert!(machine(2, &private("888MiB")).is_ok());
        let parse = |text: &str| MachineSpec::parse(text).unwrap_err().message;
        let island = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        assert!(
            parse(&format!("os = \"split\"\n{island}"))
                .contains("1:6: os: unknown way \"split\"; known: fused, multikernel")
        );
        assert!(parse(&format!("{island}[messages]\n")).contains("kernels that share all memory send none"));
    }
}
