//! The riscv64 kernel.
#![no_std]
#![no_main]

motet_hal_riscv64::entry!(motet_image::main);
