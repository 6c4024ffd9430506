//! Types by name, as far as their memory goes: to see which of them differ between instruction sets, and which functions and variables lead to one that does.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
};

use gimli::{AttributeValue, UnitOffset, constants};

use super::prototype::{Debug, Entry, Reader};
use crate::isa::PerIsa;

/// Types within types without a name: more are a loop in a malformed file.
const DEPTH_MAX: u32 = 32;

/// A type, a function or a variable. Types that have a name are named in it, and have shapes of their own.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Its kind and size, or the type that it stands for.
    pub whole: String,
    /// What is in it, in order: members with their places and types, arguments, values.
    pub members: Vec<Member>,
    /// Names of types that it leads to, also by pointers, each with what does.
    leads_to: Vec<(String, String)>,
    /// Where it is defined.
    pub file: String,
    /// The line of it; 0: not known.
    pub line: u64,
    /// Of a function: its only argument and its result are pointers, as those of a function for `motet_call_on`.
    pub takes_one_address: bool,
}

/// A part of a [`Shape`].
#[derive(Clone, Debug)]
pub struct Member {
    /// Name, place and type.
    pub text: String,
    /// Where it is declared; 0: not known.
    pub line: u64,
}

impl Shape {
    /// Whether it is the same in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        let texts = |shape: &Self| shape.members.iter().map(|member| member.text.clone()).collect::<Vec<_>>();
        self.whole == other.whole && texts(self) == texts(other)
    }
}

/// Shapes by name: `limb`, `struct mpi`, `function low`, `variable table`.
pub type Shapes = BTreeMap<String, Shape>;

/// The name of a function in [`Shapes`].
pub fn function(symbol: &str) -> String {
    format!("function {symbol}")
}

/// The name, in [`Shapes`], of what a function of this symbol sees through pointers in variables of its own.
pub fn inside(symbol: &str) -> String {
    format!("inside of {symbol}")
}

/// The name of a variable in [`Shapes`].
pub fn variable(symbol: &str) -> String {
    format!("variable {symbol}")
}

/// The names that have several shapes among the ISAs that have them.
pub fn differing(shapes: &PerIsa<Shapes>) -> Vec<String> {
    let names: HashSet<&String> = shapes.iter().flat_map(BTreeMap::keys).collect();
    let differs = |name: &&&String| {
        let mut all = shapes.iter().filter_map(|shapes| shapes.get(**name));
        all.next().is_some_and(|first| !all.all(|other| first.is_same(other)))
    };
    let mut names: Vec<String> = names.iter().filter(differs).map(|name| (*name).clone()).collect();
    names.sort_unstable();
    names
}

/// The shortest way from a function or a variable to one of the `wanted` names: that name, and what leads to it from one to the next.
pub fn way<'w>(
    shapes: &Shapes,
    from: &str,
    wanted: impl Fn(&str) -> Option<&'w str>,
) -> Option<(&'w str, Vec<String>)> {
    let mut known = HashSet::from([from.to_owned()]);
    let mut next = VecDeque::from([(from.to_owned(), Vec::new())]);
    while let Some((name, way)) = next.pop_front() {
        if let Some(found) = wanted(&name) {
            return Some((found, way));
        }
        let leads_to = shapes.get(&name).map_or(&[][..], |shape| &shape.leads_to);
        for (by, to) in leads_to.iter().filter(|(_, to)| known.insert(to.clone())) {
            let step = if by.is_empty() { to.clone() } else { format!("{by}: {to}") };
            next.push_back((to.clone(), [way.clone(), vec![step]].concat()));
        }
    }
    None
}

impl Debug {
    /// The shapes of all types with names, and of all functions and variables that are defined.
    ///
    /// # Errors
    /// The sections are malformed.
    pub fn shapes(&self) -> gimli::Result<Shapes> {
        let mut shapes = Shapes::new();
        self.each_unit(|reader| {
            let root = reader.unit.header.root_offset();
            let mut unit = Unit { reader, names: HashMap::new(), open: RefCell::default(), shapes: &mut shapes };
            unit.name_all(root, "")?;
            unit.shape_all(root)
        })?;
        Ok(shapes)
    }
}

struct Unit<'r, 'd, 'a> {
    reader: &'r Reader<'d, 'a>,
    /// Of types.
    names: HashMap<UnitOffset, String>,
    /// Types without names, as those of a function, that are being described: each within the one before.
    open: RefCell<Vec<UnitOffset>>,
    shapes: &'r mut Shapes,
}

impl<'a> Unit<'_, '_, 'a> {
    /// Names the types in a scope, and in those within it.
    fn name_all(&mut self, scope: UnitOffset, prefix: &str) -> gimli::Result<()> {
        for entry in self.reader.children(scope)? {
            let name = self.reader.name(&entry)?;
            let whole = format!("{prefix}{name}");
            let within = if name.is_empty() { prefix.to_owned() } else { format!("{whole}::") };
            if let Some(kind) = kind(&entry)
                && !name.is_empty()
            {
                self.names.insert(entry.offset(), format!("{kind}{whole}"));
            }
            if is_scope(&entry) {
                self.name_all(entry.offset(), &within)?;
            }
        }
        Ok(())
    }

    /// Adds the shapes of what is in a scope, and in those within it.
    fn shape_all(&mut self, scope: UnitOffset) -> gimli::Result<()> {
        for entry in self.reader.children(scope)? {
            let is_defined = !entry.has_attr(constants::DW_AT_declaration);
            let name = match entry.tag() {
                constants::DW_TAG_subprogram if is_defined => Some(function(&self.reader.symbol(&entry)?)),
                constants::DW_TAG_variable if is_defined => Some(variable(&self.reader.symbol(&entry)?)),
                _ => self.names.get(&entry.offset()).filter(|_| is_defined).cloned(),
            };
            if entry.tag() == constants::DW_TAG_subprogram && is_defined {
                let mut seen = Vec::new();
                self.seen_inside(&entry, &mut seen, 0)?;
                // The compiler may describe it several times.
                self.shapes.entry(inside(&self.reader.symbol(&entry)?)).or_default().leads_to.extend(seen);
            }
            if let Some(name) = name {
                let shape = self.shape(&entry)?;
                self.shapes.entry(name).or_insert(shape);
            }
            if is_scope(&entry) {
                self.shape_all(entry.offset())?;
            }
        }
        Ok(())
    }

    /// What pointers in a function's own variables lead to.
    fn seen_inside(&self, scope: &Entry<'a>, seen: &mut Vec<(String, String)>, depth: u32) -> gimli::Result<()> {
        for entry in self.reader.children(scope.offset())? {
            match entry.tag() {
                constants::DW_TAG_lexical_block if depth < DEPTH_MAX => self.seen_inside(&entry, seen, depth + 1)?,
                constants::DW_TAG_variable if self.is_pointer(&entry)? => {
                    let by = format!("its variable {}", self.reader.name(&entry)?);
                    self.target(&entry, &mut seen.by(&by), 0)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a variable, or a function's result, is one.
    fn is_pointer(&self, entry: &Entry<'a>) -> gimli::Result<bool> {
        let mut of = self.reader.attribute(entry, constants::DW_AT_type)?;
        for _ in 0..DEPTH_MAX {
            let Some(AttributeValue::UnitRef(offset)) = of else { break };
            let entry = self.reader.unit.entry(offset)?;
            match entry.tag() {
                constants::DW_TAG_pointer_type
                | constants::DW_TAG_reference_type
                | constants::DW_TAG_rvalue_reference_type => return Ok(true),
                constants::DW_TAG_typedef
                | constants::DW_TAG_const_type
                | constants::DW_TAG_volatile_type
                | constants::DW_TAG_restrict_type
                | constants::DW_TAG_atomic_type => {
                    of = self.reader.attribute(&entry, constants::DW_AT_type)?;
                }
                _ => break,
            }
        }
        Ok(false)
    }

    /// Whether the source does not have it, as `this`.
    fn is_artificial(&self, parameter: &Entry<'a>) -> gimli::Result<bool> {
        Ok(self.reader.attribute(parameter, constants::DW_AT_artificial)?.is_some())
    }

    fn shape(&self, entry: &Entry<'a>) -> gimli::Result<Shape> {
        let mut shape = Shape::default();
        (shape.file, shape.line) = self.reader.file_and_line(entry)?;
        let leads = &mut shape.leads_to;
        match entry.tag() {
            constants::DW_TAG_subprogram => {
                shape.whole = format!("a function that gives {}", self.target(entry, &mut leads.by("its result"), 0)?);
                let is_parameter = |child: &Entry<'a>| child.tag() == constants::DW_TAG_formal_parameter;
                let children = self.reader.children(entry.offset())?;
                let parameters: Vec<Entry<'a>> = children.into_iter().filter(is_parameter).collect();
                shape.takes_one_address = match &parameters[..] {
                    [only] => self.is_pointer(entry)? && self.is_pointer(only)? && !self.is_artificial(only)?,
                    _ => false,
                };
                for (index, parameter) in parameters.into_iter().enumerate() {
                    let by = format!("argument {}", index + 1);
                    let text = format!("{by}: {}", self.target(&parameter, &mut leads.by(&by), 0)?);
                    shape.members.push(Member { text, line: 0 });
                }
            }
            constants::DW_TAG_typedef | constants::DW_TAG_variable => {
                shape.whole = self.target(entry, &mut leads.by(""), 0)?;
            }
            _ => (shape.whole, shape.members) = self.contents(entry, leads, 0)?,
        }
        Ok(shape)
    }

    /// What is in a structure, a union or an enumeration.
    fn contents(
        &self,
        entry: &Entry<'a>,
        leads: &mut Vec<(String, String)>,
        depth: u32,
    ) -> gimli::Result<(String, Vec<Member>)> {
        let kind = kind(entry).unwrap_or_default();
        let whole = format!("{kind}of {} bytes", number(entry, constants::DW_AT_byte_size).unwrap_or(0));
        let mut members = Vec::new();
        for child in self.reader.children(entry.offset())? {
            let line = number(&child, constants::DW_AT_decl_line).unwrap_or(0);
            let name = self.reader.name(&child)?;
            let is_in_memory =
                !child.has_attr(constants::DW_AT_external) && !child.has_attr(constants::DW_AT_declaration);
            let text = match child.tag() {
                constants::DW_TAG_member | constants::DW_TAG_inheritance if is_in_memory => {
                    let of = self.target(&child, &mut leads.by(&name), depth)?;
                    format!("{name} at {}: {of}", place(&child))
                }
                constants::DW_TAG_enumerator => {
                    let value = child.attr(constants::DW_AT_const_value);
                    let value = value.and_then(|value| value.sdata_value()).unwrap_or(0);
                    format!("{name} = {value}")
                }
                _ => continue,
            };
            members.push(Member { text, line });
        }
        Ok((whole, members))
    }

    /// The type that an entry refers to, in words; types that it names are noted in `leads`.
    fn target(&self, entry: &Entry<'a>, leads: &mut Leads<'_>, depth: u32) -> gimli::Result<String> {
        match self.reader.attribute(entry, constants::DW_AT_type)? {
            Some(AttributeValue::UnitRef(offset)) if depth < DEPTH_MAX => {
                self.words(&self.reader.unit.entry(offset)?, leads, depth + 1)
            }
            None => Ok("void".into()),
            Some(_) => Ok("a type of another file".into()),
        }
    }

    fn words(&self, entry: &Entry<'a>, leads: &mut Leads<'_>, depth: u32) -> gimli::Result<String> {
        if let Some(name) = self.names.get(&entry.offset()) {
            leads.all.push((leads.by.to_owned(), name.clone()));
            return Ok(name.clone());
        }
        Ok(match entry.tag() {
            constants::DW_TAG_base_type => self.base(entry)?,
            constants::DW_TAG_pointer_type
            | constants::DW_TAG_reference_type
            | constants::DW_TAG_rvalue_reference_type => format!("a pointer to {}", self.target(entry, leads, depth)?),
            constants::DW_TAG_array_type => {
                let mut text = self.target(entry, leads, depth)?;
                for range in self.reader.children(entry.offset())? {
                    let count = number(&range, constants::DW_AT_count);
                    let last = number(&range, constants::DW_AT_upper_bound);
                    let count = count.or(last.map(|last| last.wrapping_add(1))).unwrap_or(0);
                    text += &format!("[{count}]");
                }
                text
            }
            constants::DW_TAG_subroutine_type => {
                let result = self.target(entry, leads, depth)?;
                let mut parameters = Vec::new();
                for child in self.reader.children(entry.offset())? {
                    parameters.push(self.target(&child, leads, depth)?);
                }
                format!("a function of ({}) that gives {result}", parameters.join(", "))
            }
            constants::DW_TAG_const_type
            | constants::DW_TAG_volatile_type
            | constants::DW_TAG_restrict_type
            | constants::DW_TAG_atomic_type
            | constants::DW_TAG_typedef => self.target(entry, leads, depth)?,
            // It has pointers to itself.
            _ if self.open.borrow().contains(&entry.offset()) => self.reader.name(entry)?,
            _ if kind(entry).is_some() && depth < DEPTH_MAX => {
                self.open.borrow_mut().push(entry.offset());
                let contents = self.contents(entry, leads.all, depth);
                self.open.borrow_mut().pop();
                let (whole, members) = contents?;
                let members: Vec<String> = members.into_iter().map(|member| member.text).collect();
                format!("{whole} {{ {} }}", members.join("; "))
            }
            _ => self.reader.name(entry)?,
        })
    }

    fn base(&self, entry: &Entry<'a>) -> gimli::Result<String> {
        let kind = match entry.attr_value(constants::DW_AT_encoding) {
            Some(AttributeValue::Encoding(constants::DW_ATE_boolean)) => "a boolean".to_owned(),
            Some(AttributeValue::Encoding(constants::DW_ATE_float)) => "a floating-point number".to_owned(),
            Some(AttributeValue::Encoding(constants::DW_ATE_signed | constants::DW_ATE_signed_char)) => {
                "a signed integer".to_owned()
            }
            Some(AttributeValue::Encoding(
                constants::DW_ATE_unsigned | constants::DW_ATE_unsigned_char | constants::DW_ATE_UTF,
            )) => "an unsigned integer".to_owned(),
            Some(_) | None => self.reader.name(entry)?,
        };
        Ok(format!("{kind} of {} bytes", number(entry, constants::DW_AT_byte_size).unwrap_or(0)))
    }
}

/// Where it is noted what leads to which types: by one member, argument or result.
struct Leads<'l> {
    all: &'l mut Vec<(String, String)>,
    by: &'l str,
}

trait By {
    fn by<'l>(&'l mut self, by: &'l str) -> Leads<'l>;
}

impl By for Vec<(String, String)> {
    fn by<'l>(&'l mut self, by: &'l str) -> Leads<'l> {
        Leads { all: self, by }
    }
}

/// What stands before a type's name; none for what is no type that can have one of its own.
fn kind(entry: &Entry<'_>) -> Option<&'static str> {
    Some(match entry.tag() {
        constants::DW_TAG_typedef => "",
        constants::DW_TAG_structure_type => "struct ",
        constants::DW_TAG_class_type => "class ",
        constants::DW_TAG_union_type => "union ",
        constants::DW_TAG_enumeration_type => "enum ",
        _ => return None,
    })
}

/// Whether other types, and functions, may be in it.
fn is_scope(entry: &Entry<'_>) -> bool {
    matches!(
        entry.tag(),
        constants::DW_TAG_namespace
            | constants::DW_TAG_structure_type
            | constants::DW_TAG_class_type
            | constants::DW_TAG_union_type
    )
}

/// A member's place: bytes, or bits where it has no bytes of its own.
fn place(member: &Entry<'_>) -> String {
    let bytes = number(member, constants::DW_AT_data_member_location).unwrap_or(0);
    match (number(member, constants::DW_AT_data_bit_offset), number(member, constants::DW_AT_bit_size)) {
        (Some(first), Some(bits)) => format!("bit {first} ({bits} bits)"),
        _ => bytes.to_string(),
    }
}

fn number(entry: &Entry<'_>, name: constants::DwAt) -> Option<u64> {
    entry.attr(name).and_then(|attribute| attribute.udata_value())
}
