//! Tests of whole kernels, in one program: the kernel is compiled for its tests once, not for each file of them.
//!
//! With `--cfg motet_model`, every atomic operation on the pool is a point where another core may go on, or an island may die. Programs take some ten
//! times as long then, so only what needs that is there.

mod extensions;
mod handed;
mod kernels;
mod locks_of_the_dead;
mod lost;

#[cfg(motet_model)]
mod accepting;
#[cfg(motet_model)]
mod peeking;
#[cfg(motet_model)]
mod repairs;
#[cfg(motet_model)]
mod shutting;

#[cfg(not(motet_model))]
mod balance;
#[cfg(not(motet_model))]
mod clock;
#[cfg(not(motet_model))]
mod crossing;
#[cfg(not(motet_model))]
mod damaged_links;
#[cfg(not(motet_model))]
mod documents;
#[cfg(not(motet_model))]
mod ends;
#[cfg(not(motet_model))]
mod epoll;
#[cfg(not(motet_model))]
mod families;
#[cfg(not(motet_model))]
mod file_systems;
#[cfg(not(motet_model))]
mod fused;
#[cfg(not(motet_model))]
mod halves;
#[cfg(not(motet_model))]
mod inet;
#[cfg(not(motet_model))]
mod inotify;
#[cfg(not(motet_model))]
mod kinds_of_files;
#[cfg(not(motet_model))]
mod late;
#[cfg(not(motet_model))]
mod layers;
#[cfg(not(motet_model))]
mod leftover;
#[cfg(not(motet_model))]
mod long_calls;
#[cfg(not(motet_model))]
mod mqueues;
#[cfg(not(motet_model))]
mod netlink;
#[cfg(not(motet_model))]
mod network;
#[cfg(not(motet_model))]
mod orders;
#[cfg(not(motet_model))]
mod outside;
#[cfg(not(motet_model))]
mod owners;
#[cfg(not(motet_model))]
mod packets;
#[cfg(not(motet_model))]
mod pidfds;
#[cfg(not(motet_model))]
mod posix_timers;
#[cfg(not(motet_model))]
mod rejoin;
#[cfg(not(motet_model))]
mod removed_and_dead;
#[cfg(not(motet_model))]
mod signals;
#[cfg(not(motet_model))]
mod slices;
#[cfg(not(motet_model))]
mod sysv;
#[cfg(not(motet_model))]
mod tables;
#[cfg(not(motet_model))]
mod transfers;
#[cfg(not(motet_model))]
mod users;
