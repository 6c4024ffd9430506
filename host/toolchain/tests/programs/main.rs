//! `motet cc`, `motet c++` and `motet ld` on small programs.

mod c;
mod cpp;
mod folder;
mod orders;
