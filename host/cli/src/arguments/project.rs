//! Commands about the project itself: what is built, tested and installed.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub const DOCTOR_HELP: &str = "\
Examples:
  ./motet doctor";

const BUILD_HELP: &str = "\
Examples:
  ./motet build
  ./motet build --tests      what tests need, too";

/// `motet build`.
#[derive(Args, Debug)]
#[command(after_help = BUILD_HELP)]
pub struct BuildOptions {
    /// Only these instruction sets (x86_64, aarch64, riscv64); all by default
    #[arg(value_name = "ISA")]
    pub isas: Vec<String>,
    /// Build what tests need, too: the compiler's libraries, guests of virtual machines
    #[arg(long, conflicts_with = "isas")]
    pub tests: bool,
}

const GUESTS_HELP: &str = "\
Examples:
  ./motet guests riscv64";

/// `motet guests`.
#[derive(Args, Debug)]
#[command(after_help = GUESTS_HELP)]
pub struct GuestsOptions {
    /// Only for these instruction sets (aarch64, riscv64); both by default
    #[arg(value_name = "ISA")]
    pub isas: Vec<String>,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  ./motet completions bash > ~/.local/share/bash-completion/completions/motet
  ./motet completions zsh > ~/.zfunc/_motet
  ./motet completions fish > ~/.config/fish/completions/motet.fish";

/// `motet completions`.
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsOptions {
    /// Whose
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

const MAN_HELP: &str = "\
Examples:
  ./motet man --output ~/.local/share/man/man1     then man motet, man motet-run";

/// `motet man`.
#[derive(Args, Debug)]
#[command(after_help = MAN_HELP)]
pub struct ManOptions {
    /// The folder, made if it is missing; a page for each command goes there
    #[arg(long, value_name = "DIR")]
    pub output: PathBuf,
}

const TEST_HELP: &str = r#"Examples:
  ./motet test machine vm::           the tests of virtual machines
  ./motet test                        everything that CI runs: all steps (45 to 50 minutes on 2 cores)
  ./motet test unit layout            the unit tests of fused/layout (and others with that word)
  ./motet test machine --list         the names of all tests of machines
  ./motet test machine fuzz --seed 20260101

Instead of a step, alone:
  long                everything, and what is slow by nature: all seeds and schedules, kills, whole libraries with functions
                      pinned at random, new Debian systems in both orders; for before figures are recorded
  soak                random programs with new seeds, for MOTET_SOAK_MINUTES (30)
  packages [NAME...]  each package of tests/packages with 20 sets of functions pinned at random, one after the other; a run that
                      was interrupted goes on where it was; of single packages, with the same --seed N (hours)
  packages --table    what has passed so far, as a table
  fresh [OPTION]      run and test, in either order, on new systems of Debian 12 and 13 (root; hours)

Times are printed for each test (seconds, and seconds of processor time) and kept in target/times.tsv. A test that takes more
processor time than its class (1, 10, 60 s) is named.

Variables, for tests by themselves:
  MOTET_TEST_SEED   machine: as --seed
  MOTET_BLESS=1     write what is compared (golden layouts, docs/figures.md, conformance, tables) instead of comparing it
  MOTET_TEST_HOST=1 machine: scripts of tests/guest/same run on the host twice, a check of the scripts themselves
  MOTET_KILLS=N     machine crossing_policies: as many machines whose islands are killed (4, long: 20)
  MOTET_SEED=N      unit, model: of kernels in one process, this seed alone, as a failure prints it
  MOTET_SEEDS=N     the same: as many seeds
  MOTET_FIRST=N     the same: beginning with this one
  MOTET_STRIDE=N    deaths at any moment: every N-th step of a run (1: all); MOTET_OFFSET=N begins there
  MOTET_DEATHS=N    unit repairs, late: at most as many deaths of an island for each seed
  MOTET_APART=N     unit repairs: one death in N is tried with the repair, too (8)
  MOTET_ALL=1       unit damaged_links: runs that do not end are printed, too
  MOTET_ECHO=1      kernels in one process print what they log at once
  MOTET_SOAK_MINUTES, MOTET_FRESH_SUITES (bookworm trixie), MOTET_FRESH_ORDER ("run test")"#;

/// `motet test`: scripts/test.sh and host/trials do what these say.
#[derive(Args, Debug)]
#[command(after_help = TEST_HELP)]
pub struct TestOptions {
    /// Steps (fmt clippy unit model machine setup; none: all), or one step and parts of names of its tests; or a word below
    #[arg(value_name = "STEP|NAME")]
    pub words: Vec<String>,
    /// Name the tests and run none
    #[arg(long)]
    pub list: bool,
    /// The seed of random tests; otherwise today's date (20260131), which is printed
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Keep N processors busy, not all
    #[arg(long, value_name = "N")]
    pub processors: Option<f64>,
    /// Write the times that were measured to tests/times.tsv, by which tests are scheduled
    #[arg(long)]
    pub record: bool,
    /// With packages: show what has passed so far
    #[arg(long)]
    pub table: bool,
}
