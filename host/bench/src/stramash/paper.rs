//! What Stramash's authors have published (ASPLOS '25), of class A and unoptimised programs.

use super::runs::Model;

/// Table 3: messages of Popcorn Linux, of IS, CG, MG and FT.
pub const MESSAGES: [u64; 4] = [207_124, 16_074, 287_672, 164_702];

/// Section 9.2.1: "up to" so many times as long as the fused kernel does the multiple-kernel take for IS. It does not say in which memory model.
pub const IS_OVER_POPCORN: f64 = 2.1;

/// Section 9.2.2: the fused kernel takes 34 % longer for CG, in the Shared and the Separated model.
pub const CG_OVER_POPCORN: f64 = 1.0 / 1.34;

/// Section 9.2.5, Figure 12: "exceeding 300" for a line of a page, about 2 for all 64.
pub const ONE_LINE_RATIO: f64 = 300.0;
/// The same of a whole page.
pub const WHOLE_PAGE_RATIO: f64 = 2.0;

/// Section 9.2.4: "up to" so many times as long as fused kernels Popcorn takes for 10 MB that the other side has written and this one has never used.
pub fn access(pass: &str, model: Model) -> Option<f64> {
    match (pass, model) {
        ("away_cold" | "home_cold", Model::Shared) => Some(2.5),
        ("away_cold" | "home_cold", Model::FullyShared) => Some(4.5),
        _ => None,
    }
}
