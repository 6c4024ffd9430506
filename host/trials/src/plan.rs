//! What each step consists of.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::job::{Job, Kind, Reports, Step};

/// Where things are, and what was asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The project.
    pub root: PathBuf,
    /// What is built.
    pub target: PathBuf,
    /// The steps to run.
    pub steps: Vec<Step>,
    /// Parts of names: tests without any of them are left out. Empty: none is.
    pub names: Vec<String>,
    /// What is slow by nature, too.
    pub long: bool,
    /// The seed of random tests.
    pub seed: u64,
    /// Nothing is kept for a next build, and `Cargo.lock` must be complete.
    pub is_ci: bool,
    /// Processors.
    pub processors: usize,
}

/// Processors that the build keeps busy in the mean: its two halves end with links, each of one processor. What is beside it has the rest.
const BUILD_PROCESSORS: f64 = 1.5;
/// Folders of cargo, of which each is one build's at a time.
const DEBUG: &str = "debug";
const MODEL: &str = "model";
const LINTS: &str = "lints";

impl Plan {
    /// The jobs that can be named before anything is built.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for step in &self.steps {
            match step {
                Step::Fmt => {
                    jobs.push(self.cargo("fmt", Step::Fmt, Kind::Test(Reports::Status), &["fmt", "--all", "--check"]))
                }
                Step::Clippy => jobs.extend(self.lints()),
                Step::Unit => jobs.extend(self.unit()),
                Step::Model => jobs.extend(self.models()),
                Step::Machine => jobs.extend(self.machines()),
                Step::Setup => jobs.extend(self.set_up()),
            }
        }
        jobs.retain(|job| !matches!(job.kind, Kind::Test(_)) || self.is_wanted(&job.name));
        if jobs.iter().any(|job| job.needs.contains(&"build")) {
            let build = self.script("build", Step::Machine, Kind::Build, "motet", &["build", "--tests"]);
            jobs.push(build.on(BUILD_PROCESSORS.min(self.processors as f64)));
        }
        jobs
    }

    /// Whether a test is one of those asked for.
    pub fn is_wanted(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }

    /// A call of cargo that uses one processor, so that another one beside it has the other.
    fn cargo(&self, name: &str, step: Step, kind: Kind, arguments: &[&str]) -> Job {
        let mut command: Vec<OsString> = vec!["cargo".into()];
        command.extend(arguments.iter().map(OsString::from));
        if self.is_ci && arguments[0] != "fmt" {
            command.insert(2, "--locked".into());
        }
        let builds = self.steps.iter().filter(|step| !matches!(step, Step::Fmt | Step::Setup)).count();
        let share = (self.processors / builds.max(1)).max(1);
        let job = Job::new(name, step, kind, command).within(&self.root).with("CARGO_BUILD_JOBS", share.to_string());
        // What a next build could begin with is a third of all that is written.
        let job = if self.is_ci { job.with("CARGO_INCREMENTAL", "0") } else { job };
        job.on(share as f64)
    }

    /// Has cargo make test programs and tell of them.
    fn test_programs(&self, name: &str, step: Step, what: &str) -> Job {
        let words = ["test", "--no-run", "--message-format=json-render-diagnostics"];
        let words: Vec<&str> = words.into_iter().chain(what.split_whitespace()).collect();
        self.cargo(name, step, Kind::TestPrograms(step), &words)
    }

    fn script(&self, name: &str, step: Step, kind: Kind, path: &str, arguments: &[&str]) -> Job {
        let program = self.root.join(path);
        let words = [program.as_os_str()].into_iter().chain(arguments.iter().map(OsStr::new));
        Job::new(name, step, kind, words).within(&self.root)
    }

    /// The host's crates, then each kernel and the guest programs for their own target.
    fn lints(&self) -> Vec<Job> {
        let lint = |name: &str, arguments: &str| {
            let words: Vec<&str> = ["clippy", "--quiet"].into_iter().chain(arguments.split_whitespace()).collect();
            self.cargo(
                &format!("clippy::{name}"),
                Step::Clippy,
                Kind::Test(Reports::Status),
                &[&words[..], &["--", "-D", "warnings"]].concat(),
            )
        };
        // Beside the tests' programs, whose macros and build scripts are these, too.
        let of_host = |name: &str, arguments: &str| lint(name, arguments).keyed(DEBUG);
        let apart = |name: &str, arguments: &str| {
            lint(name, arguments).keyed(LINTS).with("CARGO_TARGET_DIR", self.target.join("lints"))
        };
        let boards = "--target aarch64-unknown-none-softfloat --target riscv64imac-unknown-none-elf";
        let floats =
            "--target x86_64-unknown-linux-gnu --target aarch64-unknown-none --target riscv64gc-unknown-none-elf";
        let kernel = |isa: &str, target: &str| {
            let what = format!(
                "-p motet-hal-{isa} -p motet-image -p motet-calls --features motet-calls/guest --target {target}"
            );
            apart(&format!("{isa}_kernel"), &what)
        };
        vec![
            // The test program of machines is not among all targets of what is tested without machines.
            of_host("host", "--all-targets"),
            of_host("machine", "--test machine"),
            kernel("x86_64", "x86_64-unknown-none"),
            kernel("aarch64", "aarch64-unknown-none-softfloat"),
            kernel("riscv64", "riscv64imac-unknown-none-elf"),
            // Without unwinding, which there is none of.
            apart("computing", &format!("--release -p motet-kernels --features guest {floats}")),
            // Without a compiler for FreeRTOS: nothing is linked.
            apart("guests", &format!("-p motet-guest-board -p motet-guests --features motet-guests/freertos {boards}"))
                .with("MOTET_ZIG", ""),
            apart("monitor", &format!("-p motet-vm --features guest --bin vm {boards}")),
            apart("bare", "-p motet-kernels --features bare --bin bare --target riscv64gc-unknown-none-elf"),
            apart(
                "firmware",
                "-p motet-firmware -p motet-guest --features motet-firmware/bare,motet-guest/bare --target riscv64imac-unknown-none-elf",
            ),
        ]
    }

    /// Unit and property tests, several kernels in one process, and the golden layouts; then the examples in documentation.
    fn unit(&self) -> Vec<Job> {
        let of_documents = ["test", "--quiet", "--doc"];
        vec![
            self.test_programs("programs: unit", Step::Unit, "--lib --bins --tests").keyed(DEBUG),
            self.cargo("unit::documentation", Step::Unit, Kind::Test(Reports::Status), &of_documents)
                .keyed(DEBUG)
                .after(&["programs: unit"]),
        ]
    }

    /// The protocols and the kernels in one process, with every atomic operation on the pool a point where the seeded schedule may switch. What
    /// has no such points is tested as [unit tests](Self::unit).
    fn models(&self) -> Vec<Job> {
        let packages = "--release -p motet-protocol -p motet-firmware -p motet-hal-hosted -p motet-tests-hosted";
        let tests = "--test model --test conformance --test whole";
        let job = self.test_programs("programs: models", Step::Model, &format!("{packages} {tests}")).keyed(MODEL);
        vec![job.with("RUSTFLAGS", "--cfg motet_model").with("CARGO_TARGET_DIR", self.target.join("model"))]
    }

    /// On real QEMU: the conformance suite of each HAL, then programs on fused machines.
    fn machines(&self) -> Vec<Job> {
        let program = self.target.join("release/motet");
        let conform = [program.as_os_str(), OsStr::new("conformance")];
        let mut tests = self.test_programs("programs: machine", Step::Machine, "--test machine");
        tests.kind = Kind::MachineProgram;
        vec![
            Job::new("machine::hals_conform", Step::Machine, Kind::Test(Reports::Status), conform)
                .within(&self.root)
                .after(&["build"]),
            tests.keyed(DEBUG).after(&["build"]),
        ]
    }

    /// The front door with stand-ins for what it calls, on the real machine as another user, and what is installed on new systems.
    fn set_up(&self) -> Vec<Job> {
        let test = |name: &str, path: &str, arguments: &[&str]| {
            self.script(name, Step::Setup, Kind::Test(Reports::Status), path, arguments)
        };
        let mut fresh = test("setup::new_systems", "tests/setup/fresh.sh", &["--set-up"]);
        if !self.long {
            // One of both systems in one of both orders, another each day.
            let suite = ["bookworm", "trixie"][self.seed as usize % 2];
            let order = ["run test", "test run"][self.seed as usize / 2 % 2];
            fresh = fresh.with("MOTET_FRESH_SUITES", suite).with("MOTET_FRESH_ORDER", order);
        }
        vec![
            test("setup::front_door", "tests/setup/front_door.sh", &[]),
            test("setup::another_user", "tests/setup/another_user.sh", &[]).after(&["build"]),
            fresh,
        ]
    }

    /// The tests of the programs that cargo has built, each a job. `list` says which tests a program has, all of them or those that Rust's
    /// harness ignores: these are slow by nature.
    ///
    /// # Errors
    /// A program cannot be asked.
    pub fn tests(
        &self,
        step: Step,
        messages: &str,
        mut list: impl FnMut(&Program, bool) -> Result<String, String>,
    ) -> Result<Tests, String> {
        let mut tests = Tests::default();
        for program in programs(messages) {
            let ignored = list(&program, true)?;
            let ignored: Vec<&str> = ignored.lines().collect();
            for line in list(&program, false)?.lines() {
                let Some(test) = line.strip_suffix(": test") else { continue };
                let name = format!("{}::{}::{test}", step.name(), program.name);
                if !self.is_wanted(&name) {
                    continue;
                }
                if ignored.contains(&line) && !self.runs_long() {
                    tests.left_out.push(name);
                    continue;
                }
                let words = [program.path.as_os_str(), OsStr::new("--exact"), OsStr::new(test)];
                let words = words.into_iter().chain(["--nocapture", "--include-ignored"].map(OsStr::new));
                let job = Job::new(&name, step, Kind::Test(Reports::Status), words).within(&program.folder);
                tests.jobs.push(self.seeded(job.with("CARGO_MANIFEST_DIR", &program.folder)));
            }
        }
        Ok(tests)
    }

    /// The tests of whole machines: one job for those that share a boot. `listed` has a line for each, with tabs: name, name of the job, and
    /// whether it is `long` or `quick`.
    pub fn machine_tests(&self, program: &Path, listed: &str) -> Tests {
        let mut tests = Tests::default();
        for line in listed.lines() {
            let [test, unit, class] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
            if !self.is_wanted(test) {
                continue;
            }
            if class == "long" && !self.runs_long() {
                tests.left_out.push(test.to_owned());
                continue;
            }
            if let Some(job) = tests.jobs.iter_mut().find(|job| job.name == unit) {
                job.tests.push(test.to_owned());
                continue;
            }
            let mut job = Job::new(unit, Step::Machine, Kind::Test(Reports::File), [program])
                .within(&self.root)
                .after(&["build"]);
            job.tests.push(test.to_owned());
            tests.jobs.push(self.seeded(job));
        }
        tests
    }

    /// What is slow by nature is run when it is asked for as a whole, or by its name.
    fn runs_long(&self) -> bool {
        self.long || !self.names.is_empty()
    }

    /// With the seed of random tests, and whether they are to try all that they can.
    fn seeded(&self, job: Job) -> Job {
        let job = job.with("MOTET_TEST_SEED", self.seed.to_string());
        if self.long { job.with("MOTET_LONG", "1") } else { job }
    }
}

/// Tests that were found.
#[derive(Debug, Default)]
pub struct Tests {
    /// Those to run.
    pub jobs: Vec<Job>,
    /// Names of those that are slow by nature and not asked for.
    pub left_out: Vec<String>,
}

/// A test program.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The package, and the file of tests if it has a program of its own.
    name: String,
    /// The program.
    pub path: PathBuf,
    /// The folder of its package, where its tests run.
    pub folder: PathBuf,
}

/// The test programs that cargo tells of, one message a line.
fn programs(messages: &str) -> Vec<Program> {
    messages.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect()
}

fn program(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = message["package_id"].as_str()?.rsplit(['/', '#']).next()?;
    let package = package.split('@').next()?;
    // With a path alone, the package's name is the folder's.
    let package =
        if package.starts_with(|first: char| first.is_ascii_digit()) { folder.file_name()?.to_str()? } else { package };
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?;
    let name = match kind {
        "test" | "bin" => format!("{package}/{}", target["name"].as_str()?),
        _ => package.to_owned(),
    };
    Some(Program { name, path: message["executable"].as_str()?.into(), folder })
}

/// The test program that cargo has built.
pub fn only_program(messages: &str) -> Option<PathBuf> {
    programs(messages).pop().map(|program| program.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = concat!(
        r#"{"reason":"compiler-artifact","package_id":"path+file:///m/fused/layout#motet-layout@0.1.0","manifest_path":"/m/fused/layout/Cargo.toml","target":{"kind":["lib"],"name":"motet_layout"},"profile":{"test":false},"executable":null}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///m/fused/layout#motet-layout@0.1.0","manifest_path":"/m/fused/layout/Cargo.toml","target":{"kind":["lib"],"name":"motet_layout"},"profile":{"test":true},"executable":"/t/layout-1"}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///m/firmware#0.1.0","manifest_path":"/m/firmware/Cargo.toml","target":{"kind":["test"],"name":"golden"},"profile":{"test":true},"executable":"/t/golden-2"}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
        "\n",
    );

    fn plan(names: &[&str]) -> Plan {
        Plan {
            root: "/m".into(),
            target: "/t".into(),
            steps: Step::ALL.to_vec(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            long: false,
            seed: 1,
            is_ci: true,
            processors: 2,
        }
    }

    #[test]
    fn tests_of_programs_are_jobs_with_names_that_say_where_they_are() {
        let list = |program: &Program, ignored: bool| {
            let lines = match (program.path.ends_with("layout-1"), ignored) {
                (true, false) => "a::b: test\nc: benchmark\nlasts: test\n",
                (true, true) => "lasts: test\n",
                (false, false) => "d: test\n",
                (false, true) => "",
            };
            Ok(lines.to_owned())
        };
        let found = |plan: Plan| {
            let tests = plan.tests(Step::Unit, MESSAGES, list).unwrap();
            (tests.jobs.into_iter().map(|job| job.name).collect::<Vec<_>>(), tests.left_out)
        };
        let [b, lasts, d] =
            ["unit::motet-layout::a::b", "unit::motet-layout::lasts", "unit::firmware/golden::d"].map(str::to_owned);
        assert_eq!(found(plan(&[])), (vec![b.clone(), d.clone()], vec![lasts.clone()]));
        assert_eq!(found(plan(&["golden", "lasts"])), (vec![lasts.clone(), d.clone()], vec![]));
        assert_eq!(found(Plan { long: true, ..plan(&[]) }), (vec![b, lasts, d], vec![]));
    }

    #[test]
    fn tests_that_share_a_boot_are_one_job() {
        let listed = "one\tshared\tquick\ntwo\tshared\tquick\nthree\tshared\tquick\nfour\tfour\tlong\n";
        let found = |names: &[&str]| {
            let tests = plan(names).machine_tests(Path::new("/t/machine"), listed);
            (tests.jobs.into_iter().map(|job| (job.name, job.tests.join(" "))).collect::<Vec<_>>(), tests.left_out)
        };
        let job = |name: &str, tests: &str| (name.to_owned(), tests.to_owned());
        assert_eq!(found(&[]), (vec![job("shared", "one two three")], vec!["four".to_owned()]));
        assert_eq!(found(&["one", "three", "four"]), (vec![job("shared", "one three"), job("four", "four")], vec![]));
    }

    #[test]
    fn every_need_is_a_job_and_cargo_never_waits_for_itself() {
        let jobs = plan(&[]).jobs();
        for job in &jobs {
            assert!(job.needs.iter().all(|need| jobs.iter().any(|other| other.name == *need)), "{job:?}");
            let is_cargo = job.command[0] == "cargo" && job.command[1] != "fmt";
            assert!(!is_cargo || job.key.is_some() && job.command[2] == "--locked", "{job:?}");
        }
    }

    #[test]
    fn what_needs_no_machine_builds_none() {
        let only =
            |steps: &[Step]| Plan { steps: steps.to_vec(), ..plan(&[]) }.jobs().iter().any(|job| job.name == "build");
        assert!(!only(&[Step::Fmt, Step::Clippy, Step::Unit, Step::Model]));
        assert!(only(&[Step::Machine]) && only(&[Step::Setup]));
    }
}
