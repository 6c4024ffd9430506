//! `--trace FILE`: what the cores did, in the format that ui.perfetto.dev and chrome://tracing open (the JSON array of the
//! "Trace Event Format").
//!
//! A process per island and a track per core; slices say which thread runs, arrows who made it run. Behind them are the cores of virtual
//! machines and the regions of the FPGA.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use motet_fabric::{stats::FpgaChangeStats, trace::Recording};
use motet_layout::{CORES_MAX, CoreId};
use motet_machine::MachineSpec;
use motet_protocol::trace::{End, Event, Kind};
use serde_json::{Value, json};

/// Writes a trace: a line per event, in order of time.
///
/// # Errors
/// `out` does not take it.
pub fn write(machine: &MachineSpec, recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let mut converter = Converter::new(machine, out);
    converter.names()?;
    for (core, event) in &recording.events {
        converter.event(*core, event)?;
    }
    converter.regions(&recording.fpga)?;
    converter.end()
}

/// Where the FPGA's tracks are: its process, and its first region.
const FPGA: [usize; 2] = [9001, 9001];

/// Where the virtual machines' tracks are: their process, and the first one.
const GUESTS: [usize; 2] = [9002, 9101];

/// What a core's track has open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Idle,
    Thread { tid: u32, name: [u8; 16] },
}

/// A thread was made ready and does not run yet.
struct Ready {
    /// Number of the arrow.
    flow: u64,
    what: &'static str,
}

struct Converter<'a> {
    machine: &'a MachineSpec,
    out: &'a mut dyn Write,
    open: [Open; CORES_MAX],
    /// By kernel and thread id.
    ready: HashMap<(usize, u32), Ready>,
    flows: u64,
    /// Cores of virtual machines (kernel, machine, core of it), in the order of their tracks: where each runs.
    guests: Vec<((usize, u32, u32), Option<CoreId>)>,
    time_ns: u64,
    first: bool,
}

impl<'a> Converter<'a> {
    fn new(machine: &'a MachineSpec, out: &'a mut dyn Write) -> Self {
        let open = [Open::Nothing; CORES_MAX];
        Self { machine, out, open, ready: HashMap::new(), flows: 0, guests: Vec::new(), time_ns: 0, first: true }
    }

    /// Names of islands and cores.
    fn names(&mut self) -> io::Result<()> {
        for (index, island) in self.machine.islands.iter().enumerate() {
            let first = CoreId::new(motet_layout::IslandId(index as u8), 0);
            let name = format!("{} ({})", island.name, island.isa.name());
            self.put(first, "M", "process_name", json!({ "args": { "name": name } }))?;
            self.put(first, "M", "process_sort_index", json!({ "args": { "sort_index": index } }))?;
            for number in 0..island.cores {
                let core = CoreId(first.0 + number as u8);
                self.put(core, "M", "thread_name", json!({ "args": { "name": format!("core {number}") } }))?;
                self.put(core, "M", "thread_sort_index", json!({ "args": { "sort_index": number } }))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, core: CoreId, event: &Event) -> io::Result<()> {
        self.time_ns = event.time_ns;
        match event.kind {
            Kind::Run => self.run(core, event),
            Kind::Stop => {
                let end = End::from_raw(event.detail).map_or("?", |end| match end {
                    End::Ended => "ended or stopped",
                    End::Blocked => "waits",
                    End::Yielded => "others are to run",
                    End::Moved => "moved to another core",
                });
                self.close(core, json!({ "args": { "end": end } }))
            }
            Kind::Wake => self.hand_over(core, event, "wake-up"),
            Kind::Start => self.hand_over(core, event, "new thread"),
            Kind::Move => self.hand_over(core, event, "crossing"),
            Kind::Ring => {
                let name = format!("rings {}", self.core_name(event.detail));
                self.put(core, "i", &name, json!({ "cat": "doorbell", "s": "t" }))
            }
            Kind::Rung => self.put(core, "i", "doorbell", json!({ "cat": "doorbell", "s": "t" })),
            Kind::Sleep => {
                self.close(core, json!({}))?;
                self.open[core.index()] = Open::Idle;
                self.put(core, "B", "idle", json!({ "cat": "idle", "cname": "grey" }))
            }
            Kind::Awake if self.open[core.index()] == Open::Idle => self.close(core, json!({})),
            Kind::Awake => Ok(()),
            Kind::Guest => self.guest_runs(core, event.pid, event.detail),
            Kind::GuestStop => self.guest_stops(core),
        }
    }

    /// A core of a virtual machine runs from now on.
    fn guest_runs(&mut self, core: CoreId, machine: u32, vcpu: u32) -> io::Result<()> {
        self.guest_stops(core)?;
        let guest = (self.kernel_of(core), machine, vcpu);
        let known = self.guests.iter().position(|(known, _)| *known == guest);
        let track = known.unwrap_or(self.guests.len());
        if known.is_none() {
            if track == 0 {
                self.put_at(GUESTS, "M", "process_name", json!({ "args": { "name": "virtual machines" } }))?;
            }
            let of = self
                .machine
                .multikernel
                .map_or_else(String::new, |_| format!(" of {}", self.machine.islands[guest.0].name));
            let name = format!("VM {machine}{of}, vCPU {vcpu}");
            self.put_at([GUESTS[0], GUESTS[1] + track], "M", "thread_name", json!({ "args": { "name": name } }))?;
            self.guests.push((guest, None));
        }
        if let Some(before) = self.guests[track].1 {
            // It has come from a core whose clock is ahead.
            self.guest_stops(before)?;
        }
        self.guests[track].1 = Some(core);
        let name = self.core_name(core.0.into());
        self.put_at([GUESTS[0], GUESTS[1] + track], "B", &name, json!({ "cat": "guest" }))
    }

    /// What runs on a core is no virtual machine any more.
    fn guest_stops(&mut self, core: CoreId) -> io::Result<()> {
        let Some(track) = self.guests.iter().position(|(_, at)| *at == Some(core)) else { return Ok(()) };
        self.guests[track].1 = None;
        self.put_at([GUESTS[0], GUESTS[1] + track], "E", "", json!({}))
    }

    /// A thread begins to run; when it runs already, perhaps another program.
    fn run(&mut self, core: CoreId, event: &Event) -> io::Result<()> {
        let new = Open::Thread { tid: event.tid, name: event.name };
        if self.open[core.index()] == new {
            return Ok(());
        }
        self.close(core, json!({ "args": { "end": "another program" } }))?;
        self.open[core.index()] = new;
        let end = event.name.iter().position(|&byte| byte == 0).unwrap_or(event.name.len());
        let name = String::from_utf8_lossy(&event.name[..end]);
        let args = json!({ "cat": "thread", "args": { "pid": event.pid, "tid": event.tid } });
        self.put(core, "B", &name, args)?;
        match self.ready.remove(&(self.kernel_of(core), event.tid)) {
            Some(ready) => self.put(core, "f", ready.what, json!({ "cat": "flow", "id": ready.flow, "bp": "e" })),
            None => Ok(()),
        }
    }

    /// An arrow begins: to where the thread runs next.
    fn hand_over(&mut self, core: CoreId, event: &Event, what: &'static str) -> io::Result<()> {
        let target = self.core_name(event.detail);
        let name = format!("{what} of {} on {target}", event.tid);
        let about = json!({ "cat": "flow", "s": "t", "args": { "tid": event.tid, "core": target } });
        self.flows += 1;
        let flow = self.flows;
        let arrow = json!({ "cat": "flow", "id": flow });
        if self.open[core.index()] == Open::Nothing {
            // An arrow needs a slice to begin in: the kernel does this between two threads, for a timer that expired.
            self.put(core, "B", &name, about)?;
            self.put(core, "s", what, arrow)?;
            self.put(core, "E", &name, json!({}))?;
        } else {
            self.put(core, "i", &name, about)?;
            self.put(core, "s", what, arrow)?;
        }
        // Untimed islands' clocks differ by microseconds: it may run there already.
        let runs = |open: &Open| matches!(open, Open::Thread { tid, .. } if *tid == event.tid);
        match CoreId::from_raw(event.detail).filter(|target| *target != core && runs(&self.open[target.index()])) {
            Some(target) => self.put(target, "f", what, json!({ "cat": "flow", "id": flow, "bp": "e" })),
            None => {
                self.ready.insert((self.kernel_of(core), event.tid), Ready { flow, what });
                Ok(())
            }
        }
    }

    /// Ends what the core's track has open.
    fn close(&mut self, core: CoreId, more: Value) -> io::Result<()> {
        match std::mem::replace(&mut self.open[core.index()], Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Idle => self.put(core, "E", "idle", json!({})),
            Open::Thread { .. } => self.put(core, "E", "", more),
        }
    }

    /// The FPGA: a process, and its regions' tracks. These come behind the cores, as the format allows.
    fn regions(&mut self, changes: &[FpgaChangeStats]) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let end_ns = self.time_ns;
        self.put_at(FPGA, "M", "process_name", json!({ "args": { "name": "FPGA" } }))?;
        let count = changes.iter().map(|change| change.region + 1).max().unwrap_or(0);
        for region in 0..count {
            let name = format!("region {}", region + 1);
            self.put_at([FPGA[0], FPGA[1] + region], "M", "thread_name", json!({ "args": { "name": name } }))?;
        }
        let mut open = vec![None; count];
        for change in changes {
            let track = [FPGA[0], FPGA[1] + change.region];
            self.time_ns = change.at_ps / 1000;
            if open[change.region].replace(track).is_some() {
                self.put_at(track, "E", "", json!({}))?;
            }
            self.put_at(track, "B", &change.title(), json!({ "cat": "region", "args": { "state": change.state } }))?;
        }
        self.time_ns = self.time_ns.max(end_ns);
        open.into_iter().flatten().try_for_each(|track| self.put_at(track, "E", "", json!({})))
    }

    /// Ends all that is open, and the file.
    fn end(mut self) -> io::Result<()> {
        for core in 0..CORES_MAX {
            self.close(CoreId(core as u8), json!({ "args": { "end": "the run's" } }))?;
            self.guest_stops(CoreId(core as u8))?;
        }
        self.out.write_all(b"\n]\n")?;
        self.out.flush()
    }

    /// The number of the kernel that a core has.
    fn kernel_of(&self, core: CoreId) -> usize {
        self.machine.multikernel.map_or(0, |_| core.island().index())
    }

    fn core_name(&self, raw: u32) -> String {
        let island = |core: CoreId| self.machine.islands.get(core.island().index());
        match CoreId::from_raw(raw).and_then(|core| Some((core, island(core)?))) {
            Some((core, island)) => format!("{}.{}", island.name, core.index_in_island()),
            None => format!("core {raw}"),
        }
    }

    /// Writes an event: its phase, name, place and time, and what else it has. Times are microseconds in this format.
    fn put(&mut self, core: CoreId, phase: &str, name: &str, more: Value) -> io::Result<()> {
        self.put_at([core.island().index() + 1, core.index() + 1], phase, name, more)
    }

    /// The same for any track: its process's number and its own.
    fn put_at(&mut self, [process, track]: [usize; 2], phase: &str, name: &str, more: Value) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"[\n" } else { b",\n" })?;
        let mut line = json!({ "ph": phase, "pid": process, "tid": track });
        let fields = line.as_object_mut().expect("an object");
        if !name.is_empty() {
            fields.insert("name".into(), name.into());
        }
        fields.insert("ts".into(), (self.time_ns as f64 / 1e3).into());
        if let Value::Object(more) = more {
            fields.extend(more);
        }
        serde_json::to_writer(&mut self.out, &line)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: CoreId = CoreId(16);

    fn machine() -> MachineSpec {
        let text = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 2\n\
            [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 1\n";
        MachineSpec::parse(text).unwrap()
    }

    fn event(time_ns: u64, kind: Kind, tid: u32, detail: u32, name: &str) -> Event {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Event { time_ns, kind, tid, pid: tid, detail, name: bytes }
    }

    fn convert(events: &[(CoreId, Event)]) -> Vec<Value> {
        convert_with(events, Vec::new())
    }

    fn convert_with(events: &[(CoreId, Event)], regions: Vec<FpgaChangeStats>) -> Vec<Value> {
        convert_on(&machine(), events, regions)
    }

    fn convert_on(machine: &MachineSpec, events: &[(CoreId, Event)], regions: Vec<FpgaChangeStats>) -> Vec<Value> {
        let mut bytes = Vec::new();
        write(machine, &Recording { events: events.to_vec(), lost: 0, fpga: regions }, &mut bytes).unwrap();
        let lines: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        check(&lines);
        lines.into_iter().filter(|line| line["ph"] != "M").collect()
    }

    #[test]
    fn threads_of_two_kernels_with_one_number_are_not_taken_for_each_other() {
        let text = format!("os = \"multikernel\"\n{}", machine().text.replace("64MiB", "512MiB"));
        let events = [
            (ARM, event(1000, Kind::Wake, 9, 16, "")),
            (CoreId(0), event(1500, Kind::Run, 9, 0, "cat")),
            (ARM, event(2000, Kind::Run, 9, 0, "wc")),
        ];
        let lines = convert_on(&MachineSpec::parse(&text).unwrap(), &events, Vec::new());
        let ends: Vec<_> =
            lines.iter().filter(|line| line["ph"] == "f").map(|line| line["ts"].as_f64().unwrap()).collect();
        assert_eq!(ends, [2.0]);
    }

    /// On every track, times ascend and slices begin and end in turn.
    fn check(lines: &[Value]) {
        let mut tracks: HashMap<u64, (f64, i32)> = HashMap::new();
        for line in lines {
            let (latest_us, depth) = tracks.entry(line["tid"].as_u64().unwrap()).or_default();
            let now_us = line["ts"].as_f64().unwrap();
            assert!(now_us >= *latest_us, "{line}");
            *latest_us = now_us;
            *depth += i32::from(line["ph"] == "B") - i32::from(line["ph"] == "E");
            assert!((0..=1).contains(depth), "{line}");
        }
        assert!(tracks.values().all(|(_, depth)| *depth == 0), "a slice has no end");
    }

    fn phases(lines: &[Value]) -> String {
        lines.iter().map(|line| line["ph"].as_str().unwrap()).collect()
    }

    #[test]
    fn an_arrow_leads_from_the_waker_to_the_woken_thread_on_another_island() {
        let lines = convert(&[
            (CoreId(0), event(1000, Kind::Run, 5, 0, "cat")),
            (ARM, event(1500, Kind::Sleep, 0, 16, "")),
            (CoreId(0), event(2000, Kind::Wake, 9, 16, "")),
            (CoreId(0), event(2100, Kind::Ring, 0, 16, "")),
            (ARM, event(4000, Kind::Awake, 0, 16, "")),
            (ARM, event(4001, Kind::Rung, 0, 16, "")),
            (ARM, event(4500, Kind::Run, 9, 0, "wc \"x\"")),
            (ARM, event(5000, Kind::Stop, 9, End::Blocked as u32, "")),
        ]);
        assert_eq!(phases(&lines), "BBisiEiBfEE");
        let (from, to) = (&lines[3], &lines[8]);
        assert_eq!((&from["id"], &from["pid"], &from["ts"]), (&json!(1), &json!(1), &json!(2.0)));
        assert_eq!((&to["id"], &to["pid"], &to["ts"], &to["bp"]), (&json!(1), &json!(2), &json!(4.5), &json!("e")));
        assert_eq!(lines[7]["name"], "wc \"x\"");
        assert_eq!(lines[4]["name"], "rings arm.0");
        assert_eq!(lines[9]["args"]["end"], "waits");
    }

    #[test]
    fn regions_of_an_fpga_have_tracks_of_their_own() {
        let change = |at_us: u64, region, state: &str, accelerator: Option<&str>, process| FpgaChangeStats {
            at_ps: at_us * 1_000_000,
            region,
            state: state.into(),
            accelerator: accelerator.map(str::to_owned),
            process,
        };
        let lines = convert_with(
            &[],
            vec![
                change(10, 1, "reconfig", None, None),
                change(20, 0, "hold", Some("fir"), Some(3)),
                change(30, 1, "busy", Some("qam16"), Some(4)),
                change(50, 1, "idle", Some("qam16"), Some(4)),
            ],
        );
        assert_eq!(phases(&lines), "BBEBEBEE");
        let names = lines.iter().filter(|line| line["ph"] == "B").map(|line| line["name"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["reconfig", "fir of 3: hold", "qam16 of 4: busy", "qam16: idle"]);
        assert_eq!((&lines[3]["pid"], &lines[3]["tid"], &lines[3]["ts"]), (&json!(9001), &json!(9002), &json!(30.0)));
    }

    #[test]
    fn cores_of_virtual_machines_have_tracks_that_say_where_they_run() {
        let about = |time_ns, kind, vm, vcpu| Event { pid: vm, ..event(time_ns, kind, 9, vcpu, "") };
        let lines = convert(&[
            (CoreId(0), about(1000, Kind::Guest, 1, 0)),
            (CoreId(1), about(1100, Kind::Guest, 2, 0)),
            (CoreId(0), about(2000, Kind::GuestStop, 1, 0)),
            (CoreId(0), about(2000, Kind::Guest, 1, 1)),
            (CoreId(0), about(2500, Kind::Guest, 2, 0)), // the stops before were lost
        ]);
        assert_eq!(phases(&lines), "BBEBEEBE");
        let [first, second, third] = [9101, 9102, 9103];
        let tracks: Vec<_> = lines.iter().map(|line| line["tid"].as_u64().unwrap()).collect();
        assert_eq!(tracks, [first, second, first, third, third, second, second, second]);
        assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&json!("x86.0"), &json!("x86.1")));
    }

    #[test]
    fn a_thread_that_runs_another_program_gets_another_slice() {
        let lines = convert(&[
            (CoreId(1), event(1, Kind::Run, 5, 0, "sh")),
            (CoreId(1), event(2, Kind::Run, 5, 0, "sh")), // a signal handler returned
            (CoreId(1), event(3, Kind::Run, 5, 0, "sort")),
            (CoreId(1), event(4, Kind::Move, 5, 16, "")),
            (CoreId(1), event(5, Kind::Stop, 5, End::Moved as u32, "")),
            (ARM, event(6, Kind::Run, 5, 0, "uname")),
        ]);
        assert_eq!(phases(&lines), "BEBisEBfE");
        assert_eq!(lines[3]["name"], "crossing of 5 on arm.0");
        assert_eq!((&lines[7]["pid"], &lines[7]["name"]), (&json!(2), &json!("crossing")));
    }

    #[test]
    fn an_arrow_is_drawn_although_the_target_s_clock_is_behind() {
        let lines = convert(&[
            (ARM, event(10, Kind::Run, 9, 0, "wc")),
            (CoreId(0), event(12, Kind::Wake, 9, 16, "")),
            (ARM, event(20, Kind::Stop, 9, 0, "")),
            (ARM, event(30, Kind::Run, 9, 0, "wc")),
        ]);
        assert_eq!(phases(&lines), "BBsEfEBE");
    }

    #[test]
    fn what_a_broken_kernel_wrote_still_makes_a_trace() {
        let lines = convert(&[
            (CoreId(0), event(1, Kind::Stop, 1, 77, "")),
            (CoreId(0), event(2, Kind::Awake, 0, 0, "")),
            (CoreId(0), event(3, Kind::Wake, 1, 99, "")),
            (CoreId(0), event(4, Kind::Ring, 1, u32::MAX, "")),
            (CoreId(0), event(5, Kind::Sleep, 1, 0, "")),
            (CoreId(0), event(6, Kind::Run, 1, 0, "\u{1}\u{fe}")),
        ]);
        assert_eq!(phases(&lines), "BsEiBEBfE");
        assert_eq!(lines[3]["name"], "rings core 4294967295");
        assert!(convert(&[]).is_empty());
    }
}
