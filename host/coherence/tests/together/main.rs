//! Tests of the whole model, in one program: the model is compiled for its tests once, not for each file of them.

mod analytic;
mod bandwidth;
mod common;
mod contrib;
mod doubt;
mod elsewhere;
mod engine;
mod gem5;
mod machines;
mod random;
mod recorded;
mod stress;
mod translation;
mod translation_random;
