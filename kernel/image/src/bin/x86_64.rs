//! The x86_64 kernel.
#![no_std]
#![no_main]

motet_hal_x86_64::entry!(motet_image::main);
