//! Which extension runs an instruction: tables and their judges.
//!
//! `MOTET_BLESS=1 cargo test -p motet-abi --test extensions` rewrites what is generated; without it, it is compared.

mod aarch64;
mod generate;
mod riscv64;
mod sets;
mod x86_64;
