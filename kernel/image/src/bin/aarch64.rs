//! The aarch64 kernel.
#![no_std]
#![no_main]

motet_hal_aarch64::entry!(motet_image::main);
