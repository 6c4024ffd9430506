//! `motet cc`, `motet c++` and `motet ld` on small programs.

mod builds;
mod c;
mod cpp;
mod folder;
mod linker;
mod lists;
mod orders;
mod types;
