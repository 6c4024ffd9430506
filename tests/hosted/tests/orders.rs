//! "Store, then look" is written in one way: the rule of `motet_layout::handshake`, held by looking at the sources.

use motet_tests_hosted::sources::{below, code, read};

/// Sources that have sequentially consistent stores or fences of their own, and why.
const EXCEPTED: [(&str, &str); 3] = [
    ("fused/layout/src/handshake.rs", "the one function"),
    ("kernel/hal-hosted/src/hart.rs", "the fence that programs of hosted islands execute"),
    ("host/timing/src/", "clocks and turns, between threads of the host: no emulator translates them"),
];

/// The arguments of a call, from behind its opening parenthesis.
fn arguments(code: &str) -> &str {
    let mut depth = 1;
    let end = code.find(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0
    });
    &code[..end.unwrap_or(code.len())]
}

/// The last argument of each call of a function or method.
fn last_arguments<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let is_whole = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let calls = code.match_indices(name).filter(move |(at, _)| name.starts_with('.') || is_whole(*at));
    calls.map(|(at, _)| {
        let arguments = arguments(&code[at + name.len()..]);
        arguments.trim_end().trim_end_matches(',').rsplit(',').next().unwrap_or("")
    })
}

/// Sequentially consistent stores and fences of a source.
fn found(source: &str) -> usize {
    let code = code(source);
    let is_one = |order: &&str| order.contains("SeqCst");
    [".store(", "fence("].iter().map(|name| last_arguments(&code, name).filter(is_one).count()).sum()
}

#[test]
fn handshakes_are_made_by_the_one_function() {
    let all = below("");
    let with: Vec<&String> = all.iter().filter(|path| found(&read(path)) > 0).collect();
    let is_excepted = |path: &str| EXCEPTED.iter().any(|(home, _)| path.starts_with(home));
    for path in &with {
        assert!(is_excepted(path), "{path} has a `SeqCst` store or fence: see `motet_layout::handshake`");
    }
    for (home, why) in EXCEPTED {
        assert!(with.iter().any(|path| path.starts_with(home)), "{home} is excepted ({why}), and has none");
    }
    let users = all.iter().filter(|path| last_arguments(&code(&read(path)), "then_look(").count() > 0).count();
    assert!(users > 20, "only {users} sources call `then_look`: calls are no longer found");
}

#[test]
fn stores_and_fences_are_found_however_they_are_written() {
    assert_eq!(found("word.store(1, Ordering::SeqCst); fence(SeqCst);"), 2);
    assert_eq!(found("word.store(\n    other.load(Relaxed),\n    atomic::Ordering::SeqCst,\n);"), 1);
    assert_eq!(found("core::sync::atomic::fence(Ordering::SeqCst)"), 1);
    assert_eq!(found("word.store(other.load(SeqCst), Release); word.load(SeqCst); compiler_fence(SeqCst);"), 0);
    assert_eq!(found("// word.store(1, SeqCst)\n#[cfg(test)]\nmod tests { word.store(1, SeqCst); }"), 0);
}
