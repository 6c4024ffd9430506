//! Thread-Metric on Motet's real-time kernel.
#![no_std]
#![no_main]

motet_guest_board::entry!(motet_guests::rtos::Motet::run);
