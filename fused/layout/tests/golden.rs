//! Compares every structure of the pool with `golden.txt`, so that no layout changes unnoticed.
//!
//! `MOTET_BLESS=1 cargo test -p motet-layout` writes the file anew.

use std::fmt::Write;

use motet_layout::LAYOUTS;

fn listing() -> String {
    let mut text = String::from(
        "# structure size align / offset size field. Written by `MOTET_BLESS=1 cargo test -p motet-layout`.\n",
    );
    for layout in LAYOUTS {
        writeln!(text, "{} {} {}", layout.name, layout.size, layout.align).expect("a String takes everything");
        for field in layout.fields {
            writeln!(text, "  {:>5} {:>5} {}", field.offset, field.size, field.name)
                .expect("a String takes everything");
        }
    }
    text
}

#[test]
fn layouts_are_as_listed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden.txt");
    let found = listing();
    if std::env::var_os("MOTET_BLESS").is_some() {
        std::fs::write(path, &found).expect("golden.txt can be written");
        return;
    }
    let golden = std::fs::read_to_string(path).expect("golden.txt can be read");
    let mut structure = "";
    for (line, (golden, found)) in golden.lines().zip(found.lines()).enumerate() {
        if !found.starts_with(' ') {
            structure = found;
        }
        assert_eq!(
            golden,
            found,
            "line {} of golden.txt, in `{structure}`; MOTET_BLESS=1 accepts the change",
            line + 1
        );
    }
    assert_eq!(
        golden.lines().count(),
        found.lines().count(),
        "golden.txt has more or fewer lines; MOTET_BLESS=1 accepts"
    );
}

#[test]
fn structure_names_are_unique() {
    let mut names: Vec<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a structure is listed twice");
}
