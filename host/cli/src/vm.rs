//! `motet vm`: a machine that runs virtual machines.

use std::path::Path;

use motet_accelerators::Kind;
use motet_error::{Error, ErrorKind, Result};

use crate::{
    arguments::{Net, NetworkOptions, Quantum, RunOptions, VmRunOptions},
    run,
};

/// Boots a machine and runs virtual machines in it, until all have ended: 0, or the first other exit status of one.
///
/// # Errors
/// No image is named, or two have one name, which they would have in the machine; those of [`run::run`].
pub fn run(options: VmRunOptions) -> Result<u8> {
    let command = command(&options)?;
    let inputs = [options.rtos, options.general, options.initrd.into_iter().collect()].concat();
    run::run(&RunOptions {
        machine: options.machine,
        // Guests have no way to it.
        network: NetworkOptions { net: Some(Net::None), published: Vec::new() },
        inputs,
        roots: Vec::new(),
        output: None,
        timed: options.timed,
        deterministic: false,
        quantum: Quantum::AUTO,
        stats: None,
        report: None,
        trace: None,
        accesses: None,
        accesses_skip: 0,
        accesses_max: 1,
        points: None,
        passages: None,
        survive: false,
        gdb: false,
        quiet: options.quiet,
        command: vec![command],
    })
}

/// Real-time priority of real-time systems' cores: in the middle, so that there may be some above and below them.
const PRIORITY_OF_RTOS: u32 = 50;

/// Takes the limit of real-time threads away (docs/protocols/wake-up.md).
const UNLIMITED: &str = "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; ";
/// Starts a machine in the background: its lines have its name in front, and its status is noted.
const START: &str = "start() { name=$1; shift; { vm run \"$@\" 2>&1 </dev/null; echo $? >\"/tmp/vm.$name\"; } | \
    while IFS= read -r line || [ \"$line\" ]; do echo \"$name: $line\"; done & names=\"$names $name\"; }; ";
/// Waits for all, and ends with the first status that is not 0.
const FINISH: &str =
    "wait; for name in $names; do status=$(cat /tmp/vm.$name); [ \"$status\" = 0 ] || exit $status; done";

/// What the machine's shell is to do.
fn command(options: &VmRunOptions) -> Result<String> {
    let rtos = options.rtos.iter().map(|image| (image, Some(PRIORITY_OF_RTOS)));
    let images: Vec<_> = rtos.chain(options.general.iter().map(|image| (image, None))).collect();
    let wrong = |message: String| Err(Error::new(ErrorKind::Usage, message));
    let mut names = Vec::new();
    for (image, _) in &images {
        let name = name(image)?;
        if names.contains(&name) {
            return wrong(format!("two images have the name {name}: give each one of its own"));
        }
        names.push(name);
    }
    check_accelerators(&options.accel, &names)?;
    let arguments = |image: &Path, realtime: Option<u32>| -> Result<String> {
        let mut words = vec!["--memory".into(), options.memory.to_string(), "--cpus".into(), options.cpus.to_string()];
        if let Some(priority) = realtime {
            words.extend(["--real-time".into(), priority.to_string()]);
        }
        if let Some(initrd) = &options.initrd {
            words.extend(["--initrd".into(), format!("/in/{}", name(initrd)?)]);
        }
        if let Some(append) = &options.append {
            words.extend(["--append".into(), append.clone()]);
        }
        for accelerator in accelerators(&options.accel, name(image)?) {
            words.extend(["--accel".into(), accelerator.into()]);
        }
        for share in &options.share {
            words.extend(["--share".into(), share.clone()]);
        }
        words.push(format!("/in/{}", name(image)?));
        Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
    };
    let first = if options.strict { UNLIMITED } else { "" };
    match images.as_slice() {
        [] => wrong("no image is named: --general IMAGE or --rtos IMAGE".into()),
        [(image, realtime)] => Ok(format!("{first}exec vm run {}", arguments(image, *realtime)?)),
        _ => {
            let mut text = format!("{first}{START}");
            for (image, realtime) in &images {
                text += &format!("start {} {}; ", quoted(&name(image)?), arguments(image, *realtime)?);
            }
            Ok(text + FINISH)
        }
    }
}

/// The image that an accelerator is for, if it is for one, and its name.
fn parts(accelerator: &str) -> (Option<&str>, &str) {
    accelerator.rsplit_once('=').map_or((None, accelerator), |(image, name)| (Some(image), name))
}

/// The accelerators of an image.
fn accelerators(all: &[String], image: String) -> impl Iterator<Item = &str> {
    all.iter().map(|one| parts(one)).filter(move |(of, _)| of.is_none_or(|of| of == image)).map(|(_, name)| name)
}

/// Refuses accelerators that there cannot be, and those of images that are not run.
fn check_accelerators(all: &[String], images: &[String]) -> Result<()> {
    for (image, name) in all.iter().map(|one| parts(one)) {
        if let Some(image) = image.filter(|image| !images.iter().any(|known| known == image)) {
            let message = format!("--accel: no image is called {image}; there are: {}", images.join(", "));
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let name = name.split_once(':').map_or(name, |(name, _)| name);
        if Kind::named(name).is_none() {
            let known = Kind::ALL.map(Kind::name).join(", ");
            let message = format!("--accel: unknown accelerator {name}; known: {known}");
            return Err(Error::new(ErrorKind::Usage, message));
        }
    }
    Ok(())
}

/// What a file is called in the machine.
fn name(path: &Path) -> Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_plain = |name: &&str| !name.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    name.filter(is_plain).map(str::to_owned).ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("{}: the file's name must be one without spaces", path.display()))
    })
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Subcommand, VmSubcommand};
    use clap::Parser;

    fn of(arguments: &[&str]) -> Result<String> {
        let all = ["motet", "vm", "run"].into_iter().chain(arguments.iter().copied());
        let Subcommand::Vm(vm) = Arguments::try_parse_from(all).unwrap().command else { panic!("not vm") };
        let VmSubcommand::Run(options) = vm.command else { panic!("not run") };
        command(&options)
    }

    #[test]
    fn strict_priorities_have_no_limit() {
        let command = of(&["--rtos", "b", "--strict"]).unwrap();
        assert!(command.starts_with("echo -1 >/proc/sys/kernel/sched_rt_runtime_us; exec vm run "), "{command}");
    }

    #[test]
    fn areas_are_shared_by_all() {
        let command = of(&["--general", "a", "--rtos", "b", "--share", "court:8"]).unwrap();
        assert_eq!(command.matches(" '--share' 'court:8' ").count(), 2, "{command}");
    }

    #[test]
    fn accelerators_are_for_all_images_or_one() {
        let command = of(&["--general", "a", "--rtos", "b", "--accel", "b=qam16:50", "--accel", "fir"]).unwrap();
        let start = |name: &str| command.split("start ").find(|part| part.starts_with(name)).unwrap();
        assert!(start("'a'").contains(" '--accel' 'fir' '/in/a'"), "{command}");
        assert!(start("'b'").contains(" '--accel' 'qam16:50' '--accel' 'fir' '/in/b'"), "{command}");
        for (wrong, message) in [("c=fir", "no image is called c; there are: b, a"), ("qam", "unknown accelerator qam")]
        {
            let error = of(&["--general", "a", "--rtos", "b", "--accel", wrong]).unwrap_err();
            assert!(error.exit_status() == 64 && error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn one_image_is_the_command() {
        let command = of(&["--general", "a/b.elf", "--append", "it's"]).unwrap();
        assert_eq!(command, "exec vm run '--memory' '64' '--cpus' '1' '--append' 'it'\\''s' '/in/b.elf'");
    }

    #[test]
    fn real_time_systems_are_more_urgent() {
        let command = of(&["--general", "linux", "--rtos", "rtos"]).unwrap();
        assert!(
            command.contains("start 'rtos' '--memory' '64' '--cpus' '1' '--real-time' '50' '/in/rtos'; "),
            "{command}"
        );
        assert!(command.contains("start 'linux' '--memory' '64' '--cpus' '1' '/in/linux'; "), "{command}");
    }

    #[test]
    fn wrong_images_are_named() {
        for wrong in [&[][..], &["--general", "a/x", "--rtos", "b/x"], &["--general", "a b"]] {
            assert_eq!(of(wrong).unwrap_err().exit_status(), 64, "{wrong:?}");
        }
    }
}
