//! The functions of a kernel, by address.

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::run::kernel_path;
use motet_layout::{Isa, USER_END};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::project::{Project, file_error};

/// A kernel's functions, ascending.
#[derive(Debug)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Those of the kernel that `motet run` boots.
    ///
    /// # Errors
    /// It is not built, or is no executable.
    pub fn of_kernel(project: &Project, isa: Isa) -> Result<Self> {
        let path = project.target.join(kernel_path(isa));
        let bytes = std::fs::read(&path).map_err(file_error(&path))?;
        let wrong = |error: object::Error| Error::new(ErrorKind::Software, format!("{}: {error}", path.display()));
        let kernel = object::File::parse(&*bytes).map_err(wrong)?;
        let text = kernel.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let named = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name().unwrap_or("?");
            (symbol.address(), format!("{:#}", rustc_demangle::demangle(name)))
        };
        let mut functions: Vec<(u64, String)> = text.map(named).collect();
        functions.sort();
        Ok(Self(functions))
    }

    /// The function at an address.
    pub fn function_at(&self, address: u64) -> String {
        if address < USER_END && self.0.first().is_some_and(|(first, _)| *first >= USER_END) {
            return "programs and firmware".into();
        }
        let above = self.0.partition_point(|(start, _)| *start <= address);
        above.checked_sub(1).map_or("?", |index| self.0[index].1.as_str()).into()
    }
}

#[cfg(test)]
impl Symbols {
    pub fn from_functions(functions: &[(u64, &str)]) -> Self {
        Self(functions.iter().map(|&(address, name)| (address, name.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_function_that_starts_last_below_it() {
        let kernel = 1 << 63;
        let symbols = Symbols::from_functions(&[(kernel, "a"), (kernel + 16, "b")]);
        assert_eq!(symbols.function_at(kernel), "a");
        assert_eq!(symbols.function_at(kernel + 15), "a");
        assert_eq!(symbols.function_at(kernel + 16), "b");
        assert_eq!(symbols.function_at(kernel - 1), "?");
        assert_eq!(symbols.function_at(4096), "programs and firmware");
    }
}
