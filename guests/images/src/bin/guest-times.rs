//! The guest `times` of docs/guests.md.
#![no_std]
#![no_main]

motet_guest_board::entry!(motet_guests::times::run);
