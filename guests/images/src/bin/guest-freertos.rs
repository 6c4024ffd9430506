//! Thread-Metric on FreeRTOS.
#![no_std]
#![no_main]

motet_guest_board::entry!(motet_guests::freertos::FreeRtos::run);
