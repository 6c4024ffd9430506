//! The ramfs against a simple model: any sequence of operations has the same results and leaves the same tree, and
//! everything is given back in the end.

mod files_support;

use std::collections::BTreeMap;

use files_support::Actor;
use motet_abi::Errno;
use motet_layout::{EntryRecord, InodeRecord, NAME_MAX, PAGE_SIZE, sync::Ordering};
use motet_protocol::{
    Context,
    fs::{self, Attributes, Held, Replace},
    memory::release_frame,
};
use proptest::prelude::*;

const POOL_LEN: u64 = 32 << 20;

/// Where an operation acts: a directory path of up to two names, and a name in it.
type Place = (Vec<u8>, u8);

#[derive(Clone, Debug)]
enum Operation {
    Create(Place),
    Mkdir(Place),
    Symlink(Place),
    Unlink(Place),
    Rmdir(Place),
    Link(Place, Place),
    Rename(Place, Place, u8),
    Write(Place, u32, u16, u8),
    Truncate(Place, u32),
    Punch(Place, u32, u32),
}

fn place() -> impl Strategy<Value = Place> {
    (prop::collection::vec(0..3u8, 0..3), 0..3u8)
}

/// Offsets near page and level boundaries, and some in between.
fn offset() -> impl Strategy<Value = u32> {
    prop_oneof![0..3u32, 4090..4100u32, 8192..12290u32, (1u32 << 21) - 4..(1u32 << 21) + 4]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        place().prop_map(Operation::Create),
        place().prop_map(Operation::Mkdir),
        place().prop_map(Operation::Symlink),
        place().prop_map(Operation::Unlink),
        place().prop_map(Operation::Rmdir),
        (place(), place()).prop_map(|(from, to)| Operation::Link(from, to)),
        (place(), place(), 0..3u8).prop_map(|(from, to, how)| Operation::Rename(from, to, how)),
        (place(), offset(), 0..9000u16, any::<u8>())
            .prop_map(|(at, offset, len, byte)| Operation::Write(at, offset, len, byte)),
        (place(), offset()).prop_map(|(at, size)| Operation::Truncate(at, size)),
        (place(), offset(), offset()).prop_map(|(at, offset, len)| Operation::Punch(at, offset, len)),
    ]
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Directory(BTreeMap<u8, usize>),
    File(Vec<u8>),
    Symlink,
}

/// The model: nodes by number, node 0 is the root.
struct Model(Vec<Node>);

impl Model {
    fn entries(&mut self, dir: usize) -> &mut BTreeMap<u8, usize> {
        match &mut self.0[dir] {
            Node::Directory(entries) => entries,
            Node::File(_) | Node::Symlink => unreachable!("only directories are walked"),
        }
    }

    fn is_directory(&self, node: usize) -> bool {
        matches!(self.0[node], Node::Directory(_))
    }

    fn walk(&mut self, path: &[u8]) -> Result<usize, Errno> {
        let mut at = 0;
        for name in path {
            if !self.is_directory(at) {
                return Err(Errno::ENOTDIR);
            }
            at = *self.entries(at).get(name).ok_or(Errno::ENOENT)?;
        }
        if self.is_directory(at) { Ok(at) } else { Err(Errno::ENOTDIR) }
    }

    fn find(&mut self, (path, name): &Place) -> Result<usize, Errno> {
        let dir = self.walk(path)?;
        self.entries(dir).get(name).copied().ok_or(Errno::ENOENT)
    }

    fn add(&mut self, (path, name): &Place, node: Node) -> Result<(), Errno> {
        let dir = self.walk(path)?;
        if self.entries(dir).contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.0.push(node);
        let number = self.0.len() - 1;
        self.entries(dir).insert(*name, number);
        Ok(())
    }

    fn remove(&mut self, (path, name): &Place, directory: bool) -> Result<(), Errno> {
        let dir = self.walk(path)?;
        let node = *self.entries(dir).get(name).ok_or(Errno::ENOENT)?;
        match &self.0[node] {
            Node::Directory(_) if !directory => return Err(Errno::EISDIR),
            Node::Directory(entries) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
            Node::File(_) | Node::Symlink if directory => return Err(Errno::ENOTDIR),
            Node::Directory(_) | Node::File(_) | Node::Symlink => {}
        }
        self.entries(dir).remove(name);
        Ok(())
    }

    fn contains(&self, ancestor: usize, node: usize) -> bool {
        ancestor == node
            || match &self.0[ancestor] {
                Node::Directory(entries) => entries.values().any(|&below| self.contains(below, node)),
                Node::File(_) | Node::Symlink => false,
            }
    }

    fn link(&mut self, from: &Place, to: &Place) -> Result<(), Errno> {
        let node = self.find(from)?;
        let dir = self.walk(&to.0)?;
        if self.is_directory(node) {
            return Err(Errno::EPERM);
        }
        if self.entries(dir).contains_key(&to.1) {
            return Err(Errno::EEXIST);
        }
        self.entries(dir).insert(to.1, node);
        Ok(())
    }

    fn rename(&mut self, from: &Place, to: &Place, replace: Replace) -> Result<(), Errno> {
        let (old_dir, new_dir) = (self.walk(&from.0)?, self.walk(&to.0)?);
        let source = *self.entries(old_dir).get(&from.1).ok_or(Errno::ENOENT)?;
        let target = self.entries(new_dir).get(&to.1).copied();
        if replace == Replace::Refuse && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if self.is_directory(source) && self.contains(source, new_dir) {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = target {
            if self.is_directory(target) && self.contains(target, old_dir) {
                return Err(if replace == Replace::Exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
            }
            if replace == Replace::Exchange {
                self.entries(new_dir).insert(to.1, source);
                self.entries(old_dir).insert(from.1, target);
                return Ok(());
            }
            match (self.is_directory(source), &self.0[target]) {
                (true, Node::File(_) | Node::Symlink) => return Err(Errno::ENOTDIR),
                (false, Node::Directory(_)) => return Err(Errno::EISDIR),
                (_, Node::Directory(entries)) if target != source && !entries.is_empty() => {
                    return Err(Errno::ENOTEMPTY);
                }
                _ if target == source => return Ok(()),
                _ => {}
            }
        } else if replace == Replace::Exchange {
            return Err(Errno::ENOENT);
        }
        self.entries(old_dir).remove(&from.1);
        self.entries(new_dir).insert(to.1, source);
        Ok(())
    }

    fn change(&mut self, at: &Place, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), Errno> {
        let node = self.find(at)?;
        match &mut self.0[node] {
            Node::File(bytes) => change(bytes),
            Node::Directory(_) | Node::Symlink => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::Create(at) => self.add(at, Node::File(Vec::new())),
            Operation::Mkdir(at) => self.add(at, Node::Directory(BTreeMap::new())),
            Operation::Symlink(at) => self.add(at, Node::Symlink),
            Operation::Unlink(at) => self.remove(at, false),
            Operation::Rmdir(at) => self.remove(at, true),
            Operation::Link(from, to) => self.link(from, to),
            Operation::Rename(from, to, how) => self.rename(from, to, replace(*how)),
            Operation::Write(at, offset, len, byte) => self.change(at, |bytes| {
                let (start, end) = (*offset as usize, *offset as usize + *len as usize);
                if *len > 0 && bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if *len > 0 {
                    bytes[start..end].fill(*byte);
                }
            }),
            Operation::Truncate(at, size) => self.change(at, |bytes| bytes.resize(*size as usize, 0)),
            Operation::Punch(at, offset, len) => self.change(at, |bytes| {
                let end = bytes.len().min((offset + len) as usize);
                let start = end.min(*offset as usize);
                bytes[start..end].fill(0);
            }),
        }
    }
}

fn replace(how: u8) -> Replace {
    [Replace::Allow, Replace::Refuse, Replace::Exchange][how as usize]
}

fn name(letter: u8) -> [u8; 1] {
    [b'a' + letter]
}

fn walk<'c>(actor: &'c Actor, path: &[u8]) -> Result<Held<'c, Actor>, Errno> {
    let mut at = Held::new(actor, actor.root());
    for &letter in path {
        at = fs::lookup(actor, at.inode(), &name(letter))?;
    }
    if fs::is_directory(&at) { Ok(at) } else { Err(Errno::ENOTDIR) }
}

fn find<'c>(actor: &'c Actor, (path, letter): &Place) -> Result<Held<'c, Actor>, Errno> {
    fs::lookup(actor, walk(actor, path)?.inode(), &name(*letter))
}

fn regular<'c>(actor: &'c Actor, at: &Place) -> Result<Held<'c, Actor>, Errno> {
    find(actor, at).and_then(
        |inode| {
            if fs::file_type(&inode) == fs::TYPE_REGULAR { Ok(inode) } else { Err(Errno::EINVAL) }
        },
    )
}

fn apply(actor: &Actor, operation: &Operation) -> Result<(), Errno> {
    let fresh = Attributes { mode: 0o644, now_ns: 1, ..Attributes::default() };
    match operation {
        Operation::Create((path, letter)) => {
            fs::create(actor, walk(actor, path)?.inode(), &name(*letter), fresh).map(drop)
        }
        Operation::Mkdir((path, letter)) => {
            fs::mkdir(actor, walk(actor, path)?.inode(), &name(*letter), fresh).map(drop)
        }
        Operation::Symlink((path, letter)) => {
            fs::symlink(actor, walk(actor, path)?.inode(), &name(*letter), b"target", fresh).map(drop)
        }
        Operation::Unlink((path, letter)) => {
            fs::unlink(actor, walk(actor, path)?.inode(), &name(*letter), 2, |_| Ok(()))
        }
        Operation::Rmdir((path, letter)) => fs::rmdir(actor, walk(actor, path)?.inode(), &name(*letter), 2, |_| Ok(())),
        Operation::Link(from, (path, letter)) => {
            let inode = find(actor, from)?;
            fs::link(actor, walk(actor, path)?.inode(), &name(*letter), inode.inode(), 3)
        }
        Operation::Rename(from, to, how) => {
            let (old_dir, new_dir) = (walk(actor, &from.0)?, walk(actor, &to.0)?);
            let (old, new) = (name(from.1), name(to.1));
            fs::rename(actor, (old_dir.inode(), &old), (new_dir.inode(), &new), replace(*how), 4, |_, _, _| Ok(()))
        }
        Operation::Write(at, offset, len, byte) => {
            let bytes = vec![*byte; *len as usize];
            assert_eq!(fs::write_bytes(actor, regular(actor, at)?.inode(), u64::from(*offset), &bytes)?, bytes.len());
            Ok(())
        }
        Operation::Truncate(at, size) => fs::truncate(actor, regular(actor, at)?.inode(), u64::from(*size)).map(drop),
        Operation::Punch(at, offset, len) => {
            let mapped = fs::punch(actor, regular(actor, at)?.inode(), u64::from(*offset), u64::from(*len));
            assert_eq!(mapped, Ok(None), "nobody else has its pages");
            Ok(())
        }
    }
}

/// The entries of a directory as `readdir` tells them.
fn list(actor: &Actor, dir: &'static InodeRecord) -> Vec<(Vec<u8>, &'static InodeRecord)> {
    let mut found = Vec::new();
    fs::readdir(actor, dir, 0, |entry, inode| {
        found.push((fs::entry_name(actor, entry, &mut [0; NAME_MAX]).to_vec(), inode));
        true
    });
    found
}

fn compare(actor: &Actor, dir: &'static InodeRecord, model: &Model, node: usize) {
    let Node::Directory(entries) = &model.0[node] else { panic!("the model has no directory here") };
    let listed = list(actor, dir);
    assert_eq!(listed.len(), entries.len());
    let directories = entries.values().filter(|&&below| model.is_directory(below)).count();
    assert_eq!(dir.links.load(Ordering::Relaxed) as usize, 2 + directories);
    for (name, inode) in listed {
        let below = entries[&(name[0] - b'a')];
        match &model.0[below] {
            Node::Directory(_) => {
                assert!(core::ptr::eq(fs::parent(actor, inode).inode(), dir));
                compare(actor, inode, model, below);
            }
            Node::File(bytes) => {
                assert_eq!(inode.size.load(Ordering::Relaxed), bytes.len() as u64);
                let mut found = vec![0; bytes.len() + 1];
                assert_eq!(fs::read_bytes(actor, inode, 0, &mut found), bytes.len());
                assert!(found[..bytes.len()] == bytes[..], "contents differ");
            }
            Node::Symlink => assert_eq!(fs::file_type(inode), fs::TYPE_SYMLINK),
        }
    }
}

fn remove_all(actor: &Actor, dir: &'static InodeRecord) {
    for (name, inode) in list(actor, dir) {
        if fs::is_directory(inode) {
            remove_all(actor, inode);
            fs::rmdir(actor, dir, &name, 9, |_| Ok(())).unwrap();
        } else {
            fs::unlink(actor, dir, &name, 9, |_| Ok(())).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(operations in prop::collection::vec(operation(), 1..80)) {
        let actor = Actor::new(POOL_LEN);
        let root = fs::make_root(&actor, 0).unwrap();
        let mut model = Model(vec![Node::Directory(BTreeMap::new())]);
        for operation in &operations {
            prop_assert_eq!(apply(&actor, operation), model.apply(operation), "{:?}", operation);
        }
        compare(&actor, root, &model, 0);
        remove_all(&actor, root);
        prop_assert_eq!(actor.frames_in_use(), 0);
        prop_assert_eq!(actor.objects_in_use(), 1, "only the root is left");
    }
}

#[test]
fn an_open_file_outlives_its_name_and_its_directory() {
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let dir = fs::mkdir(&actor, root, b"d", Attributes::default()).unwrap();
    let file = fs::create(&actor, dir.inode(), b"f", Attributes::default()).unwrap();
    fs::write_bytes(&actor, file.inode(), 0, b"still here").unwrap();
    fs::unlink(&actor, dir.inode(), b"f", 0, |_| Ok(())).unwrap();
    fs::rmdir(&actor, root, b"d", 0, |_| Ok(())).unwrap();
    let mut bytes = [0; 10];
    assert_eq!(fs::read_bytes(&actor, file.inode(), 0, &mut bytes), 10);
    assert_eq!(&bytes, b"still here");
    assert!(core::ptr::eq(fs::parent(&actor, dir.inode()).inode(), root));
    let refused = fs::create(&actor, dir.inode(), b"g", Attributes::default());
    assert_eq!(refused.err(), Some(Errno::ENOENT));
    drop((file, dir));
    assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (0, 1));
}

#[test]
fn exhausted_memory_is_an_error_and_leaks_nothing() {
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let file = fs::create(&actor, root, b"big", Attributes::default()).unwrap();
    let chunk = vec![7; 1 << 20];
    let mut at = 0;
    let end = loop {
        match fs::write_bytes(&actor, file.inode(), at, &chunk) {
            Ok(written) => at += written as u64,
            Err(errno) => break errno,
        }
    };
    assert_eq!(end, Errno::ENOSPC);
    assert!(at > 24 << 20);
    assert_eq!(fs::symlink(&actor, root, b"s", b"t", Attributes::default()).err(), Some(Errno::ENOSPC));
    fs::truncate(&actor, file.inode(), 0).unwrap();
    assert_eq!(actor.frames_in_use(), 0);
    fs::write_bytes(&actor, file.inode(), fs::FILE_SIZE_MAX - 1, b"x").unwrap();
    assert_eq!(fs::write_bytes(&actor, file.inode(), fs::FILE_SIZE_MAX, b"x"), Err(Errno::EFBIG));
    assert_eq!(fs::truncate(&actor, file.inode(), fs::FILE_SIZE_MAX + 1), Err(Errno::EFBIG));
    drop(file);
    fs::unlink(&actor, root, b"big", 0, |_| Ok(())).unwrap();
    assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (0, 1));
}

#[test]
fn cutting_pages_that_somebody_has_mapped_is_told() {
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let file = fs::create(&actor, root, b"mapped", Attributes::default()).unwrap();
    let page = PAGE_SIZE;
    fs::write_bytes(&actor, file.inode(), 0, &vec![7; 6 * PAGE_SIZE as usize]).unwrap();
    let mapped = fs::page_or_allocate(&actor, file.inode(), 4).unwrap();
    assert_eq!(fs::page_or_allocate(&actor, file.inode(), 6), Err(Errno::ENXIO));
    assert_eq!(fs::punch(&actor, file.inode(), 2 * page, page), Ok(None));
    assert_eq!(fs::truncate(&actor, file.inode(), 5 * page), Ok(None));
    assert_eq!(fs::punch(&actor, file.inode(), 3 * page + 1, 2 * page - 1), Ok(Some(4..5)));
    release_frame(&actor, mapped);
    let mapped = fs::page_or_allocate(&actor, file.inode(), 1).unwrap();
    assert_eq!(fs::truncate(&actor, file.inode(), page - 1), Ok(Some(1..u64::MAX)));
    release_frame(&actor, mapped);
}

#[test]
fn large_directories_are_looked_up_and_listed_without_long_walks() {
    const ENTRIES: u32 = 5000;
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let dir = fs::mkdir(&actor, root, b"many", Attributes::default()).unwrap();
    let file = fs::create(&actor, root, b"file", Attributes::default()).unwrap();
    let name = |number: u32| format!("name-{number}");
    for number in 0..ENTRIES {
        fs::link(&actor, dir.inode(), name(number).as_bytes(), file.inode(), 0).unwrap();
    }
    let longest = longest_chain(&actor, dir.inode());
    assert!(longest <= 16, "{longest} entries are in one bucket");
    for number in (0..ENTRIES).step_by(3) {
        fs::unlink(&actor, dir.inode(), name(number).as_bytes(), 0, |_| Ok(())).unwrap();
        let (from, to) = (name(number + 1), format!("moved-{number}"));
        let moved = number % 2 == 0 && number + 1 < ENTRIES;
        if moved {
            let dir = dir.inode();
            fs::rename(&actor, (dir, from.as_bytes()), (dir, to.as_bytes()), Replace::Refuse, 0, |_, _, _| Ok(()))
                .unwrap();
        }
    }
    let is_there = |name: &str| fs::lookup(&actor, dir.inode(), name.as_bytes()).is_ok();
    for number in 0..ENTRIES {
        let before = number.wrapping_sub(1);
        let moved = number % 3 == 1 && before % 2 == 0;
        assert_eq!(is_there(&name(number)), number % 3 != 0 && !moved, "{number}");
        assert!(!moved || is_there(&format!("moved-{before}")));
    }
    remove_all(&actor, dir.inode());
    drop((dir, file));
    remove_all(&actor, root);
    assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (0, 1));
}

/// The most entries of a directory in one bucket. (Every entry is in one: it is the length of the list from there.)
fn longest_chain(actor: &Actor, dir: &'static InodeRecord) -> usize {
    let mut lengths = BTreeMap::new();
    fs::readdir(actor, dir, 0, |entry, _| {
        let behind = actor.object::<EntryRecord>(entry.bucket_next.get());
        let length = core::iter::successors(behind, |entry| actor.object(entry.bucket_next.get())).count() + 1;
        lengths.insert(length, ());
        true
    });
    lengths.into_keys().max().unwrap_or(0)
}

#[test]
fn a_listing_goes_on_behind_an_entry_that_is_there_or_not() {
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let other = fs::mkdir(&actor, root, b"other", Attributes::default()).unwrap();
    let dir = fs::mkdir(&actor, root, b"dir", Attributes::default()).unwrap();
    for number in 0..10u8 {
        fs::create(&actor, dir.inode(), &[b'a' + number], Attributes::default()).unwrap();
    }
    let mut read = Vec::new();
    fs::readdir(&actor, dir.inode(), 0, |entry, _| {
        read.push((entry.position.get(), actor.raw(entry)));
        true
    });
    let count_after = |index: usize| {
        let ((position, last), mut count) = (read[index], 0);
        let each = |_: &'static _, _: &'static _| {
            count += 1;
            true
        };
        fs::readdir_after(&actor, dir.inode(), position + 1, last, each);
        count
    };
    assert_eq!(count_after(3), 6);
    fs::unlink(&actor, dir.inode(), b"d", 0, |_| Ok(())).unwrap();
    assert_eq!(count_after(3), 6, "the entry was removed");
    // Its memory is another entry's now: of another directory, then of the same one.
    fs::create(&actor, other.inode(), b"d", Attributes::default()).unwrap();
    assert_eq!(count_after(3), 6, "the entry is another directory's");
    fs::unlink(&actor, other.inode(), b"d", 0, |_| Ok(())).unwrap();
    fs::create(&actor, dir.inode(), b"z", Attributes::default()).unwrap();
    assert_eq!(count_after(3), 7, "the entry has another position");
}

#[test]
fn long_files_are_cut_punched_and_freed_in_pieces() {
    const WORK: u64 = 2000;
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let file = fs::create(&actor, root, b"long", Attributes::default()).unwrap();
    let inode = file.inode();
    let size = || inode.size.load(Ordering::Relaxed);
    let page = |number: u64| number << 12;
    let mut present = vec![0, 1, 5, 511, 512, 513, 1 << 18, (1 << 18) + 700, (1 << 27) + 3];
    present.extend(2000..2100);
    for &number in &present {
        fs::write_bytes(&actor, inode, page(number) + 7, b"x").unwrap();
    }
    // Holes in the middle: the last pages go first, the size stays.
    let (mut end, mut pieces) = (page(2090) + 5, 0);
    while let Some(left) = fs::punch_some(&actor, inode, page(512) + 8, end, WORK).unwrap().left {
        assert!(left < end);
        (end, pieces) = (left, pieces + 1);
    }
    assert!(pieces > 5, "{pieces}");
    assert_eq!(size(), page((1 << 27) + 3) + 8);
    present.retain(|&number| !(513..2090).contains(&number));
    for number in [0, 1, 5, 511, 512, 513, 2000, 2089, 2090, 2099, 1 << 18, (1 << 18) + 700, (1 << 27) + 3] {
        let mut byte = [0];
        fs::read_bytes(&actor, inode, page(number) + 7, &mut byte);
        assert_eq!(byte[0] == b'x', present.contains(&number), "page {number}");
    }
    // Cut: it gets shorter with each piece, to the byte that was asked for.
    let mut sizes = vec![size()];
    while fs::truncate_some(&actor, inode, page(5) + 1, WORK).unwrap().left.is_some() {
        sizes.push(size());
    }
    assert!(sizes.len() > 3 && sizes.is_sorted_by(|a, b| a > b), "{sizes:?}");
    assert_eq!(size(), page(5) + 1);
    fs::truncate(&actor, inode, page(6)).unwrap();
    let mut byte = [1];
    fs::read_bytes(&actor, inode, page(5) + 7, &mut byte);
    assert_eq!(byte, [0], "what was cut off reads as zero");
    drop(file);
    fs::unlink(&actor, root, b"long", 0, |_| Ok(())).unwrap();
    assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (0, 1));
}

#[test]
fn a_seal_forbids_what_it_is_for_and_nothing_else() {
    use motet_abi::file::{F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE};
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    let bytes = fs::create(&actor, root, b"bytes", Attributes::default()).unwrap();
    fs::write_bytes(&actor, bytes.inode(), 0, b"abcd").unwrap();
    let source = fs::page_or_allocate(&actor, bytes.inode(), 0).unwrap();
    let write = |at, len| fs::transfer(&actor, bytes.inode(), at, true, || Ok::<_, Errno>((source.addr(), len)));
    let seal = |seals: u32| bytes.inode().seals.store(F_SEAL_SEAL ^ seals, Ordering::Relaxed);
    seal(F_SEAL_GROW);
    assert_eq!((write(0, 4), write(1, 4)), (Ok(4), Err(Errno::EPERM)));
    assert_eq!(fs::truncate(&actor, bytes.inode(), 5), Err(Errno::EPERM));
    assert_eq!(fs::reserve(&actor, bytes.inode(), 1), Err(Errno::EPERM));
    assert_eq!(fs::truncate(&actor, bytes.inode(), 3), Ok(None));
    seal(F_SEAL_SHRINK);
    assert_eq!(fs::truncate(&actor, bytes.inode(), 2), Err(Errno::EPERM));
    assert_eq!((fs::truncate(&actor, bytes.inode(), 4), write(4, 4)), (Ok(None), Ok(4)));
    seal(F_SEAL_WRITE);
    assert_eq!(write(0, 1), Err(Errno::EPERM));
    assert_eq!(fs::punch(&actor, bytes.inode(), 0, 1), Err(Errno::EPERM));
    assert_eq!(fs::truncate(&actor, bytes.inode(), 9), Ok(None));
    release_frame(&actor, source);
}

#[test]
fn two_islands_use_one_tree() {
    let actor = Actor::new(POOL_LEN);
    let root = fs::make_root(&actor, 0).unwrap();
    std::thread::scope(|scope| {
        for core in 0..3u8 {
            scope.spawn(move || {
                let actor = actor.on_core(core * 16);
                let mine = fs::mkdir(&actor, root, &[b'0' + core], Attributes::default()).unwrap();
                for round in 0..2000u32 {
                    let shared = fs::create(&actor, root, b"shared", Attributes::default());
                    let file = fs::create(&actor, mine.inode(), b"f", Attributes::default()).unwrap();
                    fs::write_bytes(&actor, file.inode(), 4090, &round.to_le_bytes()).unwrap();
                    let target = [b'0' + (core + 1) % 3];
                    let _ = fs::rename(
                        &actor,
                        (mine.inode(), b"f"),
                        (root, b"shared"),
                        Replace::Allow,
                        0,
                        |_, _, _| Ok(()),
                    );
                    let _ = fs::unlink(&actor, mine.inode(), b"f", 0, |_| Ok(()));
                    let _ =
                        fs::rename(&actor, (root, b"shared"), (mine.inode(), b"f"), Replace::Exchange, 0, |_, _, _| {
                            Ok(())
                        });
                    let _ =
                        fs::rename(&actor, (root, &target), (mine.inode(), b"d"), Replace::Refuse, 0, |_, _, _| Ok(()));
                    let _ =
                        fs::rename(&actor, (mine.inode(), b"d"), (root, &target), Replace::Refuse, 0, |_, _, _| Ok(()));
                    let _ = fs::unlink(&actor, mine.inode(), b"f", 0, |_| Ok(()));
                    drop(shared);
                }
            });
        }
    });
    remove_all(&actor, root);
    assert_eq!((actor.frames_in_use(), actor.objects_in_use()), (0, 1));
}
