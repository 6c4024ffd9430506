//! The FPGA's tables, and its executor in runs that are not timed: one thread of the host, which polls all registers in turn, and computes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use motet_accelerators::PoolLogic;
use motet_layout::{CoreId, FPGA_FREE, Fpga, FpgaRegisters, Frame, PAGE_SHIFT, PAGE_SIZE, Pool, PoolAddr};
use motet_protocol::{
    Context as _,
    fpga::{self, AcceleratorId, Device, RegionState, history, signature},
    memory::frame_record,
};

use crate::{
    Doorbells, HostPool,
    device_thread::{self, DeviceThread},
    stats::{FpgaChangeStats, FpgaRegionStats, FpgaStats},
};
use motet_machine::{FpgaSpec, MachineSpec};

/// Who the FPGA is here: not 0.
const HOST: u64 = u64::MAX;
/// Pauses between looks at registers when nothing happens, at first and at most: a host has fewer cores than its machines.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(500)];
/// What bitstreams of machine files are signed with.
const KEY: u64 = 0x6d6f_7465_742d_6670;

/// Bytes of an FPGA's records, registers and data sections.
pub fn len(spec: &FpgaSpec) -> u64 {
    size_of::<Fpga>() as u64 + u64::from(spec.interfaces) * (PAGE_SIZE + spec.data)
}

/// Makes an FPGA at a place in the pool, a page's beginning.
pub fn lay_out(pool: Pool, spec: &FpgaSpec, at: PoolAddr) {
    let Some(fpga) = pool.get::<Fpga>(at) else { return };
    fpga.region_count.set(spec.regions.len() as u32);
    fpga.accelerator_count.set(spec.accelerators.len() as u32);
    fpga.interface_count.set(spec.interfaces);
    fpga.policy.set(spec.policy as u32);
    fpga.port_kib_ps.set(spec.port_kib_ns * 1000);
    fpga.port_faults.set(spec.port_faults);
    fpga.expire_ps.set(spec.expire_us * 1_000_000);
    fpga.data_bytes.set(spec.data);
    fpga.registers.set(at.0 + size_of::<Fpga>() as u64);
    fpga.data.set(fpga.registers.get() + u64::from(spec.interfaces) * PAGE_SIZE);
    fpga.key.set(KEY);
    let manager = &spec.manager;
    fpga.manager_search_ps.set(manager.search_ns * 1000);
    fpga.manager_assign_ps.set(manager.assign_ns * 1000);
    fpga.manager_reconfigure_ps.set(manager.reconfigure_ns * 1000);
    fpga.manager_preempt_ps.set(manager.preempt_ns * 1000);
    fpga.manager_port_ps.set(manager.port_ns * 1000);
    fpga.manager_stop_ps.set(manager.stop_ns * 1000);
    for (region, bytes) in fpga.regions.iter().zip(&spec.regions) {
        region.area.set(*bytes as u32);
    }
    for (number, (accelerator, spec_of)) in (0u32..).zip(fpga.accelerators.iter().zip(&spec.accelerators)) {
        accelerator.kind.set(spec_of.kind as u32);
        accelerator.frame_ps.set(spec_of.frame_ns * 1000);
        for region in &spec_of.regions {
            let (bitstream, bytes) = (&accelerator.bitstreams[*region], spec.regions[*region]);
            bitstream.bytes.set(bytes);
            bitstream.region.set(*region as u32);
            bitstream.accelerator.set(number);
            let signed = signature(KEY, number, *region as u32, bytes);
            bitstream.signature.set(if spec_of.unsigned.contains(region) { !signed } else { signed });
            if spec_of.misplaced.contains(region) {
                bitstream.region.set(*region as u32 + 1);
            }
        }
    }
    for frame in memory_frames(at.0 + size_of::<Fpga>() as u64, len(spec) - size_of::<Fpga>() as u64) {
        // Its own reference: an FPGA's memory could not become free.
        frame_record(pool, frame).refs.store(1, Ordering::Relaxed);
    }
    pool.header().fpga.set(at.0);
}

fn memory_frames(at: u64, bytes: u64) -> impl Iterator<Item = Frame> {
    (at >> PAGE_SHIFT..(at + bytes) >> PAGE_SHIFT).map(|frame| Frame(frame as u32))
}

/// Starts the thread, if the machine has an FPGA.
///
/// # Errors
/// The host refuses a thread.
pub fn start(pool: &HostPool, bells: &Arc<Doorbells>) -> motet_error::Result<Option<DeviceThread>> {
    let ring = device_thread::ring(pool, bells);
    let pool = pool.pool();
    let Some(fpga) = fpga::of(pool) else { return Ok(None) };
    DeviceThread::start("fpga", move |stop| run_until(&PoolLogic { pool, fpga }, stop, ring)).map(Some)
}

/// What the FPGA did until `end_ps`; `None`: the machine has none.
pub fn stats(pool: &HostPool, machine: &MachineSpec, end_ps: u64) -> Option<FpgaStats> {
    let (fpga, spec) = (fpga::of(pool.pool())?, machine.fpga.as_ref()?);
    let regions = fpga::regions(fpga).map(|id| {
        let region = &fpga.regions[id.index()];
        let (mut spent_ps, changed_ps) = history::spent_ps(fpga, id);
        let state = RegionState::from_raw(region.state.get()).unwrap_or(RegionState::Idle);
        spent_ps[state as usize] += end_ps.saturating_sub(changed_ps);
        let named = |state: &RegionState| (state.name().to_owned(), spent_ps[*state as usize]);
        let state_ps = RegionState::ALL.iter().map(named).collect();
        FpgaRegionStats { frames: region.frames.get(), loads: region.loads.get(), state_ps }
    });
    Some(FpgaStats {
        requests: fpga.requests.get(),
        preemptions: fpga.preemptions.get(),
        loads: fpga.loads.get(),
        load_errors: fpga.load_errors.get(),
        regions: regions.collect(),
        changes: changes(fpga, spec),
        changes_lost: history::lost(fpga),
    })
}

fn changes(fpga: &Fpga, spec: &FpgaSpec) -> Vec<FpgaChangeStats> {
    let name = |id: AcceleratorId| Some(spec.accelerators.get(id.index())?.kind.name().to_owned());
    let told = history::changes(fpga).map(|change| FpgaChangeStats {
        at_ps: change.at_ps,
        region: change.region.index(),
        state: change.state.name().into(),
        accelerator: change.accelerator.and_then(name),
        process: change.owner,
    });
    told.collect()
}

fn run_until(logic: &PoolLogic, stop: &AtomicBool, ring: impl Fn(CoreId)) {
    let (started, mut pause) = (Instant::now(), PAUSES[0]);
    while !stop.load(Ordering::SeqCst) {
        let now_ps = started.elapsed().as_nanos() as u64 * 1000;
        let frames = |fpga: &Fpga| fpga.regions.iter().map(|region| region.frames.get()).sum::<u64>();
        let before = (logic.fpga.requests.get(), frames(logic.fpga));
        if !fpga::acquire(logic.fpga, HOST) {
            return; // nobody else is the FPGA; a damaged word
        }
        let mut device = Device::new(logic.pool, logic.fpga, logic);
        let next_ps = device.run(now_ps);
        let rings = device.rings();
        fpga::release(logic.fpga);
        rings.for_each(&ring);
        let is_used = |interface: &motet_layout::FpgaInterface| interface.state.load(Ordering::SeqCst) != FPGA_FREE;
        if !logic.fpga.interfaces.iter().any(is_used) {
            std::thread::park();
            continue;
        }
        let is_busy = before != (logic.fpga.requests.get(), frames(logic.fpga));
        pause = if is_busy { PAUSES[0] } else { (pause * 2).min(PAUSES[1]) };
        let until_next = next_ps.map_or(pause, |next_ps| Duration::from_nanos(next_ps.saturating_sub(now_ps) / 1000));
        std::thread::park_timeout(pause.min(until_next));
    }
}

const _: () = assert!(size_of::<FpgaRegisters>() as u64 == PAGE_SIZE);
