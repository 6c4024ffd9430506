//! C++ whose functions are pinned: what `motet c++` makes beside what the host's compiler makes, exceptions that would
//! leave a function on another instruction set, and CMake.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::{
    crossing::{compiled, source},
    process::{Motet, root, target},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 3] = [
        ("cpp::programs_do_what_they_do_when_the_hosts_compiler_makes_them", same_as_host),
        ("cpp::exceptions_do_not_leave_functions_that_a_system_call_calls", leaves),
        ("cpp::cmake_builds_a_project_that_runs", cmake),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

fn same_as_host() -> Result<(), String> {
    for program in ["streams", "exceptions", "thrown"] {
        let programs = compiled(program, &["-O1"])?;
        let ours = programs.on_host(program)?;
        let host = programs.path.join("host");
        let mut compiler = Command::new("g++");
        compiler.args(["-std=c++17", "-O1", "-I"]).arg(root().join("user/include")).arg(source(program));
        succeeds(compiler.arg("-o").arg(&host).arg("-lpthread"))?;
        let theirs = programs.on_host("host")?;
        if ours.status != 0 || ours.output.is_empty() || ours.output != theirs.output {
            return Err(format!("{program}: {ours:?}\nbut made by g++: {theirs:?}"));
        }
    }
    Ok(())
}

fn leaves() -> Result<(), String> {
    let programs = compiled("exceptions", &["-O1"])?;
    let ended = programs.run("exceptions leave", None);
    ended.expect_code(128 + 6)?;
    let message = "motet: an exception would leave a function that motet_call_on() has called";
    let uncaught = "terminating due to uncaught exception of type Custom: custom 2";
    ended.expect_errors(&[message, uncaught, "ends by signal 6", " was called by main+"])?;
    let last = ended.output.lines().last();
    if last == Some("bad cast") { Ok(()) } else { Err(format!("the last line is {last:?}")) }
}

const PROJECT: &str = "cmake_minimum_required(VERSION 3.10)
project(words CXX C)
set(CMAKE_CXX_STANDARD 17)
find_package(Threads REQUIRED)
add_library(words STATIC words.cpp island.c)
target_include_directories(words PRIVATE ${INCLUDE})
add_executable(program main.cpp)
target_link_libraries(program words Threads::Threads)
";

const HEADER: &str = "#include <string>
std::string join(const std::string &word, int times);
extern \"C\" int island(void);
";

const LIBRARY: &str = "#include \"words.hpp\"
#include <motet.h>
#include <stdexcept>
static std::string repeated(const std::string &word, int times) {
    if (times < 0)
        throw std::length_error(\"fewer than none\");
    return times ? word + repeated(word, times - 1) : \"\";
}
MOTET_ON(\"riscv64\") static void store(std::string &result, const std::string &word, int times) {
    try {
        result = repeated(word, times) + std::to_string(island());
    } catch (const std::length_error &error) {
        result = error.what();
    }
}
std::string join(const std::string &word, int times) {
    std::string result;
    store(result, word, times);
    return result;
}
";

const MAIN: &str = "#include \"words.hpp\"
#include <iostream>
#include <thread>
int main() {
    std::thread([] { std::cout << join(\"ab\", 3) << '\\n'; }).join();
    std::cout << join(\"ab\", -1) << '\\n' << island() << '\\n';
}
";

fn cmake() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let c = "#include <motet.h>\nint island(void) { return motet_island(); }\n";
    let files = [
        ("CMakeLists.txt", PROJECT),
        ("words.hpp", HEADER),
        ("words.cpp", LIBRARY),
        ("main.cpp", MAIN),
        ("island.c", c),
    ];
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).map_err(|error| error.to_string())?;
    }
    let (motet, build) = (target().join("release/motet"), folder.path().join("build"));
    let mut configure = Command::new("cmake");
    configure.env("CC", format!("{} cc", motet.display())).env("CXX", format!("{} c++", motet.display()));
    configure.env("MOTET_ROOT", root()).arg(format!("-DINCLUDE={}", root().join("user/include").display()));
    succeeds(configure.arg("-S").arg(folder.path()).arg("-B").arg(&build))?;
    succeeds(Command::new("cmake").env("MOTET_ROOT", root()).arg("--build").arg(&build))?;
    run(&build.join("program"))
}

fn run(program: &Path) -> Result<(), String> {
    let ended = Motet::run(["--in".as_ref(), program.as_os_str()]).arguments(["--", "/in/program"]).wait();
    ended.expect_code(0)?.expect_output("ababab2\nfewer than none\n0\n").map(drop)
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}\n{}{}", text(&stdout), text(&stderr))) }
}
