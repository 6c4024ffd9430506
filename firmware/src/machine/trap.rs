//! Traps: calls and interrupts, what is passed on, and what is a fault of the firmware.

use core::{fmt::Write, panic::PanicInfo};

use motet_firmware::{
    calls::{Caller, Machine},
    forward::{Forwarded, Hypervisor, forward, time_read_to},
    hart::HartId,
    migrate,
    state::Next,
};
use rustsbi::{SbiRet, spec::base};

use super::{
    Hardware, SHARED, csr, devices,
    entry::{A0, Frame, motet_firmware_await_launch},
    hart,
    travel::{self, Homecoming},
};

const INTERRUPT: u64 = 1 << 63;
const MACHINE_SOFTWARE: u64 = INTERRUPT | 3;
const MACHINE_TIMER: u64 = INTERRUPT | 7;
const CALL_OF_SUPERVISOR: u64 = 9;
/// `mstatus`: the mode before; 0: a program.
const PREVIOUS_MODE: u64 = 3 << 11;

/// A trap from a lower mode.
#[unsafe(no_mangle)]
extern "C" fn motet_firmware_trap(frame: &mut Frame) {
    let hardware = Hardware::own();
    if hardware.board.hidden.contains(hardware.own) {
        return match csr::read!("mcause") {
            MACHINE_SOFTWARE => travel::send_home(&hardware, frame, None),
            cause if cause & INTERRUPT == 0 => travel::send_home(&hardware, frame, Some(cause)),
            _ => motet_firmware_fault(frame),
        };
    }
    match csr::read!("mcause") {
        MACHINE_SOFTWARE => hardware.serve(),
        MACHINE_TIMER => hart::pass_timer(),
        CALL_OF_SUPERVISOR => call(&hardware, frame),
        cause if cause & INTERRUPT == 0 => exception(&hardware, frame, cause),
        _ => motet_firmware_fault(frame),
    }
}

/// An exception that came to the firmware first, or that has come home with a thread.
fn exception(hardware: &Hardware, frame: &mut Frame, cause: u64) {
    if read_time(frame, cause) {
        return;
    }
    let cause = match travel::travel(hardware, frame) {
        Some(Homecoming::Nothing) => return,
        Some(Homecoming::Exception(cause)) if read_time(frame, cause) => return,
        Some(Homecoming::Exception(cause)) => cause,
        None => cause,
    };
    pass_on(cause);
}

/// A call of the SBI, and what becomes of the hart then. Threads' trips are no business of RustSBI's.
fn call(hardware: &Hardware, frame: &mut Frame) {
    let [a0, a1, a2, a3, a4, a5, function, extension] = core::array::from_fn(|index| frame.0[A0 + index] as usize);
    if extension == migrate::EXTENSION {
        // Nothing becomes of the hart.
        return answer(frame, travel::call(hardware, function, [a0, a1]));
    }
    let own = hardware.own;
    let caller = Caller { own, machine: hardware, board: hardware.board, shared: &SHARED };
    let is_probe = extension == base::EID_BASE && function == base::PROBE_EXTENSION && a0 == migrate::EXTENSION;
    let result = if is_probe { SbiRet::success(1) } else { caller.call(extension, function, [a0, a1, a2, a3, a4, a5]) };
    answer(frame, result);
    match SHARED.states.next(own) {
        Next::Return => return,
        Next::Stop => {
            travel::forget_all(hardware);
            SHARED.states.stopped(own);
        }
        Next::Sleep => {
            SHARED.states.sleeps(own);
            hart::sleep(hardware);
            SHARED.states.woke(own);
            return;
        }
        Next::SleepAndLaunch => {
            SHARED.states.sleeps(own);
            hart::sleep(hardware);
            SHARED.states.woke_to_launch(own);
        }
    }
    // SAFETY: nothing on this stack is needed any more.
    unsafe { motet_firmware_await_launch() }
}

/// The caller goes on with this answer.
fn answer(frame: &mut Frame, answer: SbiRet) {
    frame.0[A0] = answer.error as u64;
    frame.0[A0 + 1] = answer.value as u64;
    go_on_behind();
}

/// Waits until this hart is started; `frame` then says with what.
#[unsafe(no_mangle)]
extern "C" fn motet_firmware_launch(frame: &mut Frame) {
    let hardware = Hardware::own();
    if hardware.board.hidden.contains(hardware.own) {
        travel::receive(&hardware, frame);
    }
    let launch = loop {
        hardware.serve();
        if let Some(launch) = SHARED.states.take_launch(hardware.own) {
            break launch;
        }
        hart::wait();
    };
    hart::prepare_launch(&hardware, launch);
    frame.0 = [0; 31];
    frame.0[A0] = hardware.own.index() as u64;
    frame.0[A0 + 1] = launch.argument;
}

/// Answers a read of `time` that the supervisor does not permit; whether it was one.
fn read_time(frame: &mut Frame, cause: u64) -> bool {
    let Some(register) = time_read_to(csr::read!("mstatus"), cause, csr::read!("mtval")) else { return false };
    // Of its programs the supervisor sees to it.
    if travel::is_taken_over() && csr::read!("mstatus") & PREVIOUS_MODE == 0 {
        return false;
    }
    // Frames begin with `x1`; `x0` takes nothing.
    if let Some(place) = register.checked_sub(1) {
        frame.0[place] = csr::read!("time");
    }
    go_on_behind();
    true
}

/// The trap returns behind the instruction, of four bytes, that it came from.
fn go_on_behind() {
    let behind = csr::read!("mepc") + 4;
    // SAFETY: it is the lower mode's program.
    unsafe { csr::write!("mepc", behind) };
}

/// Passes an exception on to the supervisor, which then sees what hardware would have shown it.
fn pass_on(cause: u64) {
    const HAS_HYPERVISOR: u64 = 1 << 7;
    let hypervisor = (csr::read!("misa") & HAS_HYPERVISOR != 0).then(|| Hypervisor {
        hstatus: csr::read!("0x600"),
        hedeleg: csr::read!("0x602"),
        vsstatus: csr::read!("0x200"),
    });
    let (counter, value) = (csr::read!("mepc"), csr::read!("mtval"));
    let (status, vector) = match forward(csr::read!("mstatus"), cause, hypervisor) {
        Forwarded::Supervisor { status, hstatus } => {
            if let Some(hstatus) = hstatus {
                let (value2, instruction) = (csr::read!("0x34b"), csr::read!("0x34a"));
                // SAFETY: hstatus, htval and htinst, as a trap that is delegated sets them.
                unsafe {
                    csr::write!("0x600", hstatus);
                    csr::write!("0x643", value2);
                    csr::write!("0x64a", instruction);
                }
            }
            // SAFETY: as above.
            unsafe {
                csr::write!("scause", cause);
                csr::write!("sepc", counter);
                csr::write!("stval", value);
            }
            (status, csr::read!("stvec"))
        }
        Forwarded::Guest { status, vsstatus } => {
            // SAFETY: vsstatus, vscause, vsepc and vstval, as a trap that a hypervisor delegated sets them.
            unsafe {
                csr::write!("0x200", vsstatus);
                csr::write!("0x242", cause);
                csr::write!("0x241", counter);
                csr::write!("0x243", value);
            }
            (status, csr::read!("0x205"))
        }
    };
    // SAFETY: the way back leads to the handler; exceptions go to its vector's base.
    unsafe {
        csr::write!("mstatus", status);
        csr::write!("mepc", vector & !3);
    }
}

/// A trap of the firmware itself: reports it, and the hart stops for good. The others go on.
#[unsafe(no_mangle)]
extern "C" fn motet_firmware_fault(frame: &Frame) -> ! {
    const NAMES: [&str; 31] = [
        "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
        "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
    ];
    let id = csr::read!("mhartid");
    give_up_once();
    let [cause, counter, value, status] =
        [csr::read!("mcause"), csr::read!("mepc"), csr::read!("mtval"), csr::read!("mstatus")];
    let held = devices::hold_console();
    let _ = writeln!(
        devices::Words,
        "motet firmware: hart {id}: a trap in the firmware: mcause {cause:#x} mepc {counter:#x} mtval {value:#x} \
         mstatus {status:#x}; the hart stops"
    );
    for (index, (name, value)) in NAMES.iter().zip(frame.0).enumerate() {
        let end = if index % 4 == 3 || index == NAMES.len() - 1 { '\n' } else { ' ' };
        let _ = write!(devices::Words, "  {name:>3} {value:016x}{end}");
    }
    drop(held);
    hart::park()
}

/// Marks this hart as lost. A second time, something is wrong with reporting it.
fn give_up_once() {
    let own = HartId::new(csr::read!("mhartid") as usize);
    if own.is_none_or(|own| SHARED.states.halt(own)) {
        hart::park();
    }
    // Somebody may wait for a thread that was here.
    if let (Some(own), Some(board)) = (own, super::board())
        && board.hidden.contains(own)
    {
        let hardware = Hardware { own, board };
        board.harts.iter().for_each(|hart| hardware.ring(hart));
    }
}

/// Says why the machine does not start, and stops.
pub fn refuse(reason: &str) -> ! {
    devices::say(format_args!("{reason}"));
    hart::park()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    give_up_once();
    devices::say(format_args!("hart {}: {info}; the hart stops", csr::read!("mhartid")));
    hart::park()
}
