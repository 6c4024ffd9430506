//! The firmware as a program: QEMU loads it at the start of RAM and enters it on all harts at once, in M-mode.
#![no_std]
#![no_main]

mod machine;
