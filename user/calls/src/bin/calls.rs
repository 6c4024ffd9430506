//! Executes the operations of [`motet_calls::OPERATIONS`] between marks. As `/init` of a Linux it switches the machine
//! off afterwards.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering};

use motet_calls::{
    CLOCK_GETTIME, FORK_EXIT_WAIT, FUTEX_ROUND_TRIP, GETPID, MAP_TOUCH_UNMAP, OPEN_CLOSE, OPERATIONS, Operation,
    PIPE_ROUND_TRIP, READ_NULL, READ_PAGE, SIGNAL, SOCKET_ROUND_TRIP, STAT,
    system::{self, Arguments, Failure, STDOUT, machine, mark, measured},
};

motet_calls::program!(main);

/// A Linux that has just booted still tests its cryptography and collects entropy in the background.
const SETTLE_S: u64 = 10;

fn main(arguments: Arguments) -> u8 {
    let linux = arguments.get(0) == Some(b"/init");
    if linux {
        system::sleep(SETTLE_S);
    }
    let done = all();
    let message: &[u8] = if done.is_ok() { b"calls: ok\n" } else { b"calls: a system call failed\n" };
    let _ = system::write(STDOUT, message);
    if linux {
        system::power_off();
    }
    u8::from(done.is_err())
}

fn all() -> Result<(), Failure> {
    getpid()?;
    read_null()?;
    pipe_round_trip()?;
    fork_exit_wait()?;
    clock_gettime()?;
    open_close()?;
    stat()?;
    read_page()?;
    map_touch_unmap()?;
    signal()?;
    futex_round_trip()?;
    socket_round_trip()
}

fn getpid() -> Result<(), Failure> {
    const { assert!(is(0, GETPID)) };
    measure::<0, 1>(GETPID, || {
        system::getpid();
        Ok(())
    })
}

fn read_null() -> Result<(), Failure> {
    const { assert!(is(1, READ_NULL)) };
    let null = system::open(c"/dev/null")?;
    let mut byte = [0];
    measure::<2, 3>(READ_NULL, || expect(system::read(null, &mut byte)?, 0))
}

fn pipe_round_trip() -> Result<(), Failure> {
    const { assert!(is(2, PIPE_ROUND_TRIP)) };
    let [there_out, there_in] = system::pipe()?;
    let [back_out, back_in] = system::pipe()?;
    let child = echo(there_in, (there_out, back_in))?;
    let mut byte = [0];
    measure::<4, 5>(PIPE_ROUND_TRIP, || {
        expect(system::write(there_in, &byte)?, 1)?;
        expect(system::read(back_out, &mut byte)?, 1)
    })?;
    system::close(there_in);
    expect(system::wait(child)?, child)
}

/// A child that writes to `to` what it reads from `from`; the end of its input ends it, so it does not keep `other_end`.
fn echo(other_end: i32, (from, to): (i32, i32)) -> Result<usize, Failure> {
    let child = system::fork()?;
    if child == 0 {
        system::close(other_end);
        let mut byte = [0];
        while system::read(from, &mut byte) == Ok(1) && system::write(to, &byte) == Ok(1) {}
        system::exit(0);
    }
    Ok(child)
}

fn fork_exit_wait() -> Result<(), Failure> {
    const { assert!(is(3, FORK_EXIT_WAIT)) };
    measure::<6, 7>(FORK_EXIT_WAIT, || {
        let child = system::fork()?;
        if child == 0 {
            system::exit(0);
        }
        expect(system::wait(child)?, child)
    })
}

fn clock_gettime() -> Result<(), Failure> {
    const { assert!(is(4, CLOCK_GETTIME)) };
    measure::<8, 9>(CLOCK_GETTIME, || {
        system::now_ns();
        Ok(())
    })
}

fn open_close() -> Result<(), Failure> {
    const { assert!(is(5, OPEN_CLOSE)) };
    measure::<10, 11>(OPEN_CLOSE, || {
        system::close(system::open(c"/dev/null")?);
        Ok(())
    })
}

fn stat() -> Result<(), Failure> {
    const { assert!(is(6, STAT)) };
    measure::<12, 13>(STAT, || measured::status(c"/dev/null").map(|_| ()))
}

/// With a stack of its own: what others measure must not find one more page on theirs.
#[inline(never)]
fn read_page() -> Result<(), Failure> {
    const { assert!(is(7, READ_PAGE)) };
    let file = machine::memory(4096)?;
    let mut page = [1; 4096];
    expect(system::write(file, &page)?, page.len())?;
    measure::<14, 15>(READ_PAGE, || expect(machine::read_at(file, &mut page, 0)?, 4096))?;
    system::close(file);
    Ok(())
}

fn map_touch_unmap() -> Result<(), Failure> {
    const { assert!(is(8, MAP_TOUCH_UNMAP)) };
    // The next one lies beside it: the page that is measured needs no page tables of its own, wherever the kernel puts them.
    system::zeroed::<u64>(512)[0] = 1;
    measure::<16, 17>(MAP_TOUCH_UNMAP, || {
        let page = system::zeroed::<u64>(512);
        // SAFETY: its own memory; volatile, as nobody reads it.
        unsafe { (&raw mut page[0]).write_volatile(1) };
        system::unmap(page);
        Ok(())
    })
}

fn signal() -> Result<(), Failure> {
    const { assert!(is(9, SIGNAL)) };
    const SIGUSR1: usize = 10;
    measured::handle(SIGUSR1)?;
    let own = system::getpid();
    measure::<18, 19>(SIGNAL, || measured::send(own, SIGUSR1))
}

fn futex_round_trip() -> Result<(), Failure> {
    const { assert!(is(10, FUTEX_ROUND_TRIP)) };
    // Turns that each side has had.
    let [there, back] = measured::shared_words()?;
    let child = system::fork()?;
    if child == 0 {
        let mut turn = 0;
        while wait_while(there, turn) != u32::MAX {
            turn += 1;
            back.store(turn, Ordering::Release);
            let _ = measured::futex_wake(back);
        }
        system::exit(0);
    }
    let mut turn = 0;
    measure::<20, 21>(FUTEX_ROUND_TRIP, || {
        there.store(turn + 1, Ordering::Release);
        measured::futex_wake(there)?;
        wait_while(back, turn);
        turn += 1;
        Ok(())
    })?;
    there.store(u32::MAX, Ordering::Release);
    measured::futex_wake(there)?;
    expect(system::wait(child)?, child)
}

/// Waits until the word is another one, and returns that.
fn wait_while(word: &AtomicU32, value: u32) -> u32 {
    loop {
        let now = word.load(Ordering::Acquire);
        if now != value {
            return now;
        }
        let _ = measured::futex_wait(word, value);
    }
}

fn socket_round_trip() -> Result<(), Failure> {
    const { assert!(is(11, SOCKET_ROUND_TRIP)) };
    let [own, other] = measured::socket_pair()?;
    let child = echo(own, (other, other))?;
    let mut byte = [0];
    measure::<22, 23>(SOCKET_ROUND_TRIP, || {
        expect(system::write(own, &byte)?, 1)?;
        expect(system::read(own, &mut byte)?, 1)
    })?;
    system::close(other);
    system::close(own);
    expect(system::wait(child)?, child)
}

#[inline(always)]
fn measure<const BEGIN: u8, const END: u8>(
    operation: Operation,
    mut execute: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    for _ in 0..operation.warm_up {
        execute()?;
    }
    for _ in 0..operation.batches {
        mark::<BEGIN>();
        for _ in 0..operation.iterations {
            execute()?;
        }
        mark::<END>();
    }
    Ok(())
}

#[inline(always)]
fn expect(got: usize, wanted: usize) -> Result<(), Failure> {
    if got == wanted { Ok(()) } else { Err(0) }
}

const fn is(index: usize, operation: Operation) -> bool {
    let listed = OPERATIONS[index];
    listed.warm_up == operation.warm_up
        && listed.batches == operation.batches
        && listed.iterations == operation.iterations
}
