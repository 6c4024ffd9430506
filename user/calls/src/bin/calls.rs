//! Executes the operations of [`motet_calls::OPERATIONS`] between marks. As `/init` of a Linux it switches the machine
//! off afterwards.
#![no_std]
#![no_main]

use motet_calls::{
    CLOCK_GETTIME, FORK_EXIT_WAIT, GETPID, OPERATIONS, Operation, PIPE_ROUND_TRIP, READ_NULL,
    system::{self, Arguments, Failure, STDOUT, mark},
};

motet_calls::program!(main);

/// A Linux that has just booted still tests its cryptography and collects entropy in the background.
const SETTLE_S: u64 = 10;

fn main(arguments: Arguments) -> u8 {
    let linux = arguments.get(0) == Some(b"/init");
    if linux {
        system::sleep(SETTLE_S);
    }
    let done = getpid().and_then(|()| read_null()).and_then(|()| pipe_round_trip()).and_then(|()| fork_exit_wait());
    let done = done.and_then(|()| clock_gettime());
    let message: &[u8] = if done.is_ok() { b"calls: ok\n" } else { b"calls: a system call failed\n" };
    let _ = system::write(STDOUT, message);
    if linux {
        system::power_off();
    }
    u8::from(done.is_err())
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
    let child = system::fork()?;
    if child == 0 {
        // The end of its input ends it.
        system::close(there_in);
        let mut byte = [0];
        while system::read(there_out, &mut byte) == Ok(1) && system::write(back_in, &byte) == Ok(1) {}
        system::exit(0);
    }
    let mut byte = [0];
    measure::<4, 5>(PIPE_ROUND_TRIP, || {
        expect(system::write(there_in, &byte)?, 1)?;
        expect(system::read(back_out, &mut byte)?, 1)
    })?;
    system::close(there_in);
    expect(system::wait(child)?, child)
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
