//! What the compiler is asked of a source besides its objects: the pins in it, which of its types differ between ISAs, and which variables are never
//! written.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{Driver, Source, UNOPTIMISED, add_source, stdin};
use crate::{
    constants, dependencies,
    differing::{self, Differing},
    error::{Error, Result, read},
    isa::{self, ISAS, PerIsa},
    link,
    mentions::{self, Mention},
};

impl Driver {
    /// All pins in a source that compiles, if it includes `motet.h`, of which it depends as `dependencies` says.
    pub(super) fn mentions(&self, source: &Source, input: Option<&Path>, dependencies: &Path) -> Result<Vec<Mention>> {
        let includes = std::fs::read_to_string(dependencies).unwrap_or_default();
        if !includes.contains("motet.h") {
            return Ok(Vec::new());
        }
        let mut command = self.compiler((self.arguments.primary + 1) % ISAS.len(), self.cxx || source.is_cpp());
        // Not optimised: declarations that nothing needs afterwards are still there.
        command.arg("-w").args(UNOPTIMISED).args(["-o", "-"]);
        add_source(&mut command, source);
        let output = command.stdin(stdin(input)?).output().map_err(|error| Error::read(&self.tools.program, error))?;
        let code = String::from_utf8_lossy(&output.stdout);
        let mentions = mentions::of_code(&code);
        match mentions::of_constructor(&code, &mentions) {
            Some(mention) => Err(mentions::refused_constructor(&mention.place, &mention.function)),
            None => Ok(mentions),
        }
    }

    /// The types of a source that differ between ISAs. Only a source that asks for an architecture, itself or by a header that is not the toolchain's, can have
    /// some: the others are not compiled once more.
    pub(super) fn differing_types(
        &self,
        source: &Source,
        input: Option<&Path>,
        headers_of: &PerIsa<PathBuf>,
    ) -> Result<Differing> {
        if source.is_assembly() {
            return Ok(Differing::default());
        }
        let text_of = |path: &Path| std::fs::read(path).ok().map(|text| String::from_utf8_lossy(&text).into_owned());
        let lists = headers_of.iter().map(|file| std::fs::read(file).unwrap_or_default());
        let files: BTreeSet<PathBuf> = lists.flat_map(|list| dependencies::files(&list)).collect();
        let own = files.iter().filter(|file| !file.starts_with(&self.tools.folder)).map(PathBuf::as_path);
        let asks = |file: &Path| text_of(file).is_some_and(|text| differing::asks_for_architecture(&text));
        if !own.chain(input).any(asks) {
            return Ok(Differing::default());
        }
        let quick = self.once_more(source, input, &[&differing::FLAGS[..], &differing::QUICK].concat())?;
        let whole = || self.once_more(source, input, &differing::FLAGS);
        let Some(objects) = quick.map_or_else(whole, |objects| Ok(Some(objects)))? else {
            return Ok(Differing::default());
        };
        let name = source.path.display().to_string();
        Ok(differing::of_shapes(&link::shapes(&name, &objects)?, &|file| text_of(Path::new(file))))
    }

    /// Of a source's own variables, those that no ISA's code writes.
    pub(super) fn never_written(
        &self,
        source: &Source,
        input: Option<&Path>,
        mut variables: Vec<String>,
    ) -> Result<Vec<String>> {
        if variables.is_empty() {
            return Ok(variables);
        }
        let Some(objects) = self.once_more(source, input, &constants::FLAGS)? else { return Ok(Vec::new()) };
        variables.retain(|variable| objects.iter().all(|object| !constants::is_written(object, variable)));
        Ok(variables)
    }

    /// Compiles a source for all ISAs with other options, behind the user's. `None`: it does not compile so.
    fn once_more(&self, source: &Source, input: Option<&Path>, options: &[&str]) -> Result<Option<PerIsa<Vec<u8>>>> {
        let objects = isa::at_once(|isa| {
            let object = self.temporary.path().join(format!("once-more.{}.o", ISAS[isa].name()));
            let mut command = self.compiler(isa, self.cxx || source.is_cpp());
            command.args(options).arg("-c").arg("-o").arg(&object);
            add_source(&mut command, source);
            let output =
                command.stdin(stdin(input)?).output().map_err(|error| Error::read(&self.tools.program, error))?;
            output.status.success().then(|| read(&object)).transpose()
        })?;
        let [Some(first), Some(second), Some(third)] = objects else { return Ok(None) };
        Ok(Some([first, second, third]))
    }
}
