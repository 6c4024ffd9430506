//! What a function takes and gives, from the debugger's sections of its object file.

use std::collections::HashMap;

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwLang, EndianSlice, LittleEndian, Unit, UnitOffset, constants,
};
use object::elf;

use super::module::{Image, Kind};
use crate::isa::TARGETS;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// A type, as far as calls must know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// Nothing.
    Void,
    /// A number without fraction, a pointer, an enumeration.
    Integer {
        /// Its size.
        bytes: u64,
        /// Whether it can be negative.
        signed: bool,
    },
    /// A number with fraction.
    Float {
        /// Its size.
        bytes: u64,
    },
    /// A structure or union.
    Aggregate {
        /// Its size.
        bytes: u64,
        /// What is in it, through all levels: offset in bytes and type.
        parts: Vec<(u64, Type)>,
    },
    /// What no call across ISAs can carry, and why.
    Impossible(String),
}

/// What a function takes and gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prototype {
    /// Its result.
    pub result: Type,
    /// Its arguments.
    pub parameters: Vec<Type>,
    /// It takes more arguments than are listed.
    pub variadic: bool,
    /// It is declared without types, so its callers pass `double` for `float`.
    pub promoted: bool,
    /// `file:line` of its definition.
    pub place: String,
}

/// The debugger's sections of one object file, ready to be read.
pub struct Debug {
    sections: HashMap<String, Vec<u8>>,
}

/// Aggregates that are larger are not looked into.
const AGGREGATE_BYTES_MAX: u64 = 16;
/// Types within types: more are a loop in a malformed file.
const DEPTH_MAX: u32 = 64;

impl Debug {
    /// The sections of `image`, which is of ISA number `isa`; none if it has none.
    pub fn of(image: &Image, isa: usize) -> Option<Self> {
        let mut sections = HashMap::new();
        for section in image.sections.iter().filter(|section| section.kind == Kind::Debug) {
            let mut bytes = section.data.clone();
            // They refer to each other and to code by relocations, as if each section began at zero.
            for relocation in &section.relocations {
                let absolute = TARGETS[isa].absolute.iter().find(|(r_type, _)| *r_type == relocation.r_type);
                let symbol = &image.symbols[relocation.symbol];
                let base = if symbol.kind == elf::STT_SECTION { 0 } else { symbol.value };
                let value = base.wrapping_add_signed(relocation.addend).to_le_bytes();
                let start = usize::try_from(relocation.offset).unwrap_or(usize::MAX);
                if let Some(&(_, width)) = absolute
                    && let Some(field) = bytes.get_mut(start..start.saturating_add(usize::from(width)))
                {
                    field.copy_from_slice(&value[..usize::from(width)]);
                }
            }
            sections.insert(section.name.clone(), bytes);
        }
        (!sections.is_empty()).then_some(Self { sections })
    }

    /// The prototype of the function whose symbol is `name`; none if no source with types defines it.
    ///
    /// # Errors
    /// The sections are malformed.
    pub fn prototype(&self, name: &str) -> gimli::Result<Option<Prototype>> {
        let mut found = None;
        self.each_unit(|reader| {
            let mut entries = reader.unit.entries();
            while let Some(entry) = entries.next_dfs()?.filter(|_| found.is_none()) {
                if entry.tag() == constants::DW_TAG_subprogram && reader.is_definition_of(entry, name)? {
                    found = Some(reader.prototype(entry)?);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Calls `look` for each unit of the file.
    pub(super) fn each_unit(&self, mut look: impl FnMut(&Reader<'_, '_>) -> gimli::Result<()>) -> gimli::Result<()> {
        let section = |id: gimli::SectionId| self.sections.get(id.name()).map_or(&[][..], Vec::as_slice);
        let dwarf = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(EndianSlice::new(section(id), LittleEndian)))?;
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            look(&Reader { dwarf: &dwarf, unit: &unit })?;
        }
        Ok(())
    }
}

/// Reads the entries of a unit.
pub(super) struct Reader<'r, 'a> {
    dwarf: &'r gimli::Dwarf<Slice<'a>>,
    /// The unit.
    pub unit: &'r Unit<Slice<'a>>,
}

impl<'a> Reader<'_, 'a> {
    fn is_definition_of(&self, entry: &Entry<'a>, name: &str) -> gimli::Result<bool> {
        if entry.has_attr(constants::DW_AT_declaration) {
            return Ok(false);
        }
        Ok(self.symbol(entry)? == name)
    }

    /// An attribute of an entry, or of the declaration that it completes.
    pub fn attribute(
        &self,
        entry: &Entry<'a>,
        name: constants::DwAt,
    ) -> gimli::Result<Option<AttributeValue<Slice<'a>>>> {
        if let Some(value) = entry.attr_value(name) {
            return Ok(Some(value));
        }
        match entry.attr_value(constants::DW_AT_specification) {
            Some(AttributeValue::UnitRef(declaration)) => Ok(self.unit.entry(declaration)?.attr_value(name)),
            Some(_) | None => Ok(None),
        }
    }

    fn prototype(&self, entry: &Entry<'a>) -> gimli::Result<Prototype> {
        let mut parameters = Vec::new();
        let mut unspecified = false;
        for child in self.children(entry.offset())? {
            match child.tag() {
                constants::DW_TAG_formal_parameter => parameters.push(self.type_of(&child, 0)?),
                constants::DW_TAG_unspecified_parameters => unspecified = true,
                _ => {}
            }
        }
        let untyped = self.is_c()? && self.attribute(entry, constants::DW_AT_prototyped)?.is_none();
        Ok(Prototype {
            result: self.type_of(entry, 0)?,
            parameters,
            variadic: unspecified && !untyped,
            promoted: untyped,
            place: self.place(entry)?,
        })
    }

    fn is_c(&self) -> gimli::Result<bool> {
        let language = self.unit.entry(self.unit.header.root_offset())?.attr_value(constants::DW_AT_language);
        const C: [DwLang; 5] = [
            constants::DW_LANG_C,
            constants::DW_LANG_C89,
            constants::DW_LANG_C99,
            constants::DW_LANG_C11,
            constants::DW_LANG_C17,
        ];
        Ok(matches!(language, Some(AttributeValue::Language(language)) if C.contains(&language)))
    }

    /// The name by which a linker knows a function or a variable.
    pub fn symbol(&self, entry: &Entry<'a>) -> gimli::Result<String> {
        for attribute in [constants::DW_AT_linkage_name, constants::DW_AT_name] {
            if let Some(value) = self.attribute(entry, attribute)? {
                return Ok(self.dwarf.attr_string(self.unit, value)?.to_string_lossy().into_owned());
            }
        }
        Ok(String::new())
    }

    fn place(&self, entry: &Entry<'a>) -> gimli::Result<String> {
        let (file, line) = self.file_and_line(entry)?;
        Ok(if file.is_empty() { format!("line {line}") } else { format!("{file}:{line}") })
    }

    /// Where an entry is declared; an empty name or 0 if that is not known.
    pub fn file_and_line(&self, entry: &Entry<'a>) -> gimli::Result<(String, u64)> {
        let number = |name| entry.attr(name).and_then(|attribute| attribute.udata_value());
        let line = number(constants::DW_AT_decl_line).unwrap_or(0);
        let file = match entry.attr_value(constants::DW_AT_decl_file) {
            Some(AttributeValue::FileIndex(index)) => index,
            Some(_) | None => 1,
        };
        let header = self.unit.line_program.as_ref().map(|program| program.header());
        let Some((header, file)) = header.and_then(|header| Some((header, header.file(file)?))) else {
            return Ok((String::new(), line));
        };
        let name = self.dwarf.attr_string(self.unit, file.path_name())?.to_string_lossy();
        let folder = match file.directory(header) {
            Some(folder) if file.directory_index() != 0 && !name.starts_with('/') => {
                format!("{}/", self.dwarf.attr_string(self.unit, folder)?.to_string_lossy())
            }
            Some(_) | None => String::new(),
        };
        Ok((format!("{folder}{name}"), line))
    }

    /// What is right below an entry.
    pub fn children(&self, parent: UnitOffset) -> gimli::Result<Vec<Entry<'a>>> {
        let mut tree = self.unit.entries_tree(Some(parent))?;
        let mut children = tree.root()?.children();
        let mut found = Vec::new();
        while let Some(child) = children.next()? {
            found.push(child.entry().clone());
        }
        Ok(found)
    }

    /// The type that an entry (a function, an argument, a member, another type) refers to.
    fn type_of(&self, entry: &Entry<'a>, depth: u32) -> gimli::Result<Type> {
        match self.attribute(entry, constants::DW_AT_type)? {
            None => Ok(Type::Void),
            Some(AttributeValue::UnitRef(offset)) if depth < DEPTH_MAX => {
                self.parsed(&self.unit.entry(offset)?, depth + 1)
            }
            Some(_) => Ok(Type::Impossible("a type of another file".into())),
        }
    }

    fn parsed(&self, entry: &Entry<'a>, depth: u32) -> gimli::Result<Type> {
        let number = |name| entry.attr(name).and_then(|attribute| attribute.udata_value());
        let bytes = number(constants::DW_AT_byte_size).unwrap_or(0);
        if number(constants::DW_AT_alignment).is_some_and(|align| align > 8) {
            return Ok(Type::Impossible("a type that is aligned to more than 8 bytes".into()));
        }
        Ok(match entry.tag() {
            constants::DW_TAG_base_type => self.base(entry, bytes)?,
            constants::DW_TAG_pointer_type if self.points_to_va_list(entry)? => {
                Type::Impossible("a va_list, which each instruction set lays out differently".into())
            }
            constants::DW_TAG_pointer_type
            | constants::DW_TAG_reference_type
            | constants::DW_TAG_rvalue_reference_type => Type::Integer { bytes: 8, signed: false },
            constants::DW_TAG_enumeration_type => match self.type_of(entry, depth)? {
                Type::Void => Type::Integer { bytes, signed: false },
                base @ (Type::Integer { .. } | Type::Float { .. } | Type::Aggregate { .. } | Type::Impossible(_)) => {
                    base
                }
            },
            constants::DW_TAG_typedef
            | constants::DW_TAG_const_type
            | constants::DW_TAG_volatile_type
            | constants::DW_TAG_restrict_type
            | constants::DW_TAG_atomic_type => self.type_of(entry, depth)?,
            constants::DW_TAG_structure_type | constants::DW_TAG_class_type | constants::DW_TAG_union_type => {
                self.aggregate(entry, bytes, depth)?
            }
            constants::DW_TAG_array_type => self.array(entry, depth)?,
            tag => Type::Impossible(format!("a type of the kind {tag}")),
        })
    }

    /// Whether a pointer is what a `va_list` becomes as an argument, or points to one.
    fn points_to_va_list(&self, pointer: &Entry<'a>) -> gimli::Result<bool> {
        let mut target = pointer.clone();
        for _ in 0..DEPTH_MAX {
            let Some(AttributeValue::UnitRef(offset)) = target.attr_value(constants::DW_AT_type) else { break };
            target = self.unit.entry(offset)?;
            match target.tag() {
                constants::DW_TAG_typedef
                | constants::DW_TAG_const_type
                | constants::DW_TAG_volatile_type
                | constants::DW_TAG_array_type => {}
                constants::DW_TAG_structure_type => {
                    // System V ABI, 3.5.7; clang's name of it.
                    return Ok(self.name(&target)? == "__va_list_tag");
                }
                _ => break,
            }
        }
        Ok(false)
    }

    /// The name in the source; empty if it has none.
    pub fn name(&self, entry: &Entry<'a>) -> gimli::Result<String> {
        Ok(match entry.attr_value(constants::DW_AT_name) {
            Some(name) => self.dwarf.attr_string(self.unit, name)?.to_string_lossy().into_owned(),
            None => String::new(),
        })
    }

    fn base(&self, entry: &Entry<'a>, bytes: u64) -> gimli::Result<Type> {
        let name = self.name(entry)?;
        let encoding = match entry.attr_value(constants::DW_AT_encoding) {
            Some(AttributeValue::Encoding(encoding)) => encoding,
            Some(_) | None => constants::DwAte(0),
        };
        Ok(match encoding {
            _ if name.contains("_BitInt") => Type::Impossible(name),
            constants::DW_ATE_boolean
            | constants::DW_ATE_unsigned
            | constants::DW_ATE_unsigned_char
            | constants::DW_ATE_UTF
                if matches!(bytes, 1 | 2 | 4 | 8) =>
            {
                Type::Integer { bytes, signed: false }
            }
            constants::DW_ATE_signed | constants::DW_ATE_signed_char if matches!(bytes, 1 | 2 | 4 | 8) => {
                Type::Integer { bytes, signed: true }
            }
            constants::DW_ATE_float if matches!(bytes, 4 | 8) => Type::Float { bytes },
            _ => Type::Impossible(name),
        })
    }

    fn aggregate(&self, entry: &Entry<'a>, bytes: u64, depth: u32) -> gimli::Result<Type> {
        if let Some(AttributeValue::CallingConvention(constants::DW_CC_pass_by_reference)) =
            entry.attr_value(constants::DW_AT_calling_convention)
        {
            return Ok(Type::Impossible("a class with a constructor or destructor, by value".into()));
        }
        // Its contents may be in another file: how it is passed is not known.
        if entry.has_attr(constants::DW_AT_declaration) {
            let name = self.name(entry)?;
            return Ok(Type::Impossible(format!(
                "{name}, which the debugger's sections of this file only declare, by value"
            )));
        }
        let mut parts = Vec::new();
        if bytes > AGGREGATE_BYTES_MAX {
            return Ok(Type::Aggregate { bytes, parts });
        }
        for member in self.children(entry.offset())? {
            let is_part = matches!(member.tag(), constants::DW_TAG_member | constants::DW_TAG_inheritance);
            if !is_part || member.has_attr(constants::DW_AT_external) || member.has_attr(constants::DW_AT_declaration) {
                continue;
            }
            let number = |name| member.attr(name).and_then(|attribute| attribute.udata_value());
            if number(constants::DW_AT_alignment).is_some_and(|align| align > 8) {
                return Ok(Type::Impossible("a member that is aligned to more than 8 bytes".into()));
            }
            let bits = number(constants::DW_AT_data_bit_offset);
            let offset =
                bits.map_or_else(|| number(constants::DW_AT_data_member_location).unwrap_or(0), |bits| bits / 8);
            match self.type_of(&member, depth)? {
                Type::Impossible(why) => return Ok(Type::Impossible(why)),
                Type::Aggregate { parts: inner, .. } => {
                    parts.extend(inner.into_iter().map(|(at, part)| (offset + at, part)));
                }
                // Bits of an integer lie in bytes, wherever they begin.
                _ if member.has_attr(constants::DW_AT_bit_size) => {
                    parts.push((offset, Type::Integer { bytes: 1, signed: false }));
                }
                part @ (Type::Void | Type::Integer { .. } | Type::Float { .. }) => parts.push((offset, part)),
            }
        }
        let has_float = parts.iter().any(|(_, part)| matches!(part, Type::Float { .. }));
        if entry.tag() == constants::DW_TAG_union_type && has_float {
            return Ok(Type::Impossible("a union with a floating-point member".into()));
        }
        Ok(Type::Aggregate { bytes, parts })
    }

    /// An array, which can only be in an aggregate.
    fn array(&self, entry: &Entry<'a>, depth: u32) -> gimli::Result<Type> {
        if entry.has_attr(constants::DW_AT_GNU_vector) {
            return Ok(Type::Impossible("a vector".into()));
        }
        let mut count: u64 = 1;
        for range in self.children(entry.offset())? {
            let number = |name| range.attr(name).and_then(|attribute| attribute.udata_value());
            let bound = || number(constants::DW_AT_upper_bound).map(|bound| bound.saturating_add(1));
            count = count.saturating_mul(number(constants::DW_AT_count).or_else(bound).unwrap_or(0));
        }
        let element = self.type_of(entry, depth)?;
        let size = match &element {
            Type::Integer { bytes, .. } | Type::Float { bytes } | Type::Aggregate { bytes, .. } => *bytes,
            Type::Void => 0,
            Type::Impossible(_) => return Ok(element),
        };
        let mut parts = Vec::new();
        for index in 0..count.min(AGGREGATE_BYTES_MAX) {
            if let Type::Aggregate { parts: inner, .. } = &element {
                parts.extend(inner.iter().map(|(at, part)| (index * size + at, part.clone())));
            } else {
                parts.push((index * size, element.clone()));
            }
        }
        Ok(Type::Aggregate { bytes: size.saturating_mul(count), parts })
    }
}
