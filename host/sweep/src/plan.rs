//! A sweep's folder: the points as files, for Snakemake, and what has become of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use motet_error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    metrics::Metrics,
    study::{Point, Study},
    versions::Versions,
};

/// What Snakemake is told, but for the points.
const SNAKEFILE: &str = include_str!("Snakefile");

/// The folder of a sweep.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Its path, which begins at the root.
    pub path: PathBuf,
}

/// What a point has measured, and where that comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// What it was given.
    pub point: Point,
    /// What it was given in words: the arguments of `motet`.
    pub arguments: Vec<String>,
    /// What it has measured.
    pub metrics: Metrics,
    /// With what.
    pub versions: Versions,
    /// When it began: seconds since 1970.
    pub began: u64,
    /// Seconds of the host that it took.
    pub host_s: f64,
}

/// What has become of a point.
#[derive(Clone, Debug)]
pub enum State {
    /// It has a result.
    Finished(Box<PointResult>),
    /// It has ended without one: why.
    Failed(String),
    /// Neither.
    Open,
}

impl Folder {
    /// Makes the folder.
    ///
    /// # Errors
    /// The host refuses.
    pub fn create(path: &Path) -> Result<Self> {
        fs::create_dir_all(path.join("points")).map_err(|error| Error::write(path, error))?;
        let path = path.canonicalize().map_err(|error| Error::read(path, error))?;
        Ok(Self { path })
    }

    /// Where a point's files are.
    pub fn point(&self, id: &str) -> PathBuf {
        self.path.join("points").join(id)
    }

    /// Writes all points; with `again`, without results of earlier ones. Files that are as they were keep their dates: Snakemake looks at them.
    ///
    /// # Errors
    /// The host refuses.
    pub fn write(&self, study: &Study, again: bool) -> Result<()> {
        for point in &study.points {
            let folder = self.point(&point.id);
            fs::create_dir_all(&folder).map_err(|error| Error::write(&folder, error))?;
            update(&folder.join("machine.toml"), point.description.as_bytes())?;
            update(&folder.join("point.json"), &json(point))?;
            let _ = fs::remove_file(folder.join("failed"));
            if again {
                let _ = fs::remove_file(folder.join("result.json"));
            }
        }
        let ids: Vec<&str> = study.points.iter().map(|point| point.id.as_str()).collect();
        // A list of words is written alike in Python and in JSON; jobs elsewhere need no other file for it.
        let rules = SNAKEFILE.replace("@POINTS@", String::from_utf8_lossy(&json(&ids)).trim_end());
        update(&self.path.join("Snakefile"), rules.as_bytes())
    }

    /// What has become of a point.
    pub fn state(&self, id: &str) -> State {
        let folder = self.point(id);
        if let Ok(result) = read(&folder.join("result.json")) {
            return State::Finished(Box::new(result));
        }
        fs::read_to_string(folder.join("failed")).map_or(State::Open, State::Failed)
    }

    /// The results of these points, those that there are.
    pub fn results(&self, points: &[Point]) -> Vec<PointResult> {
        let finished = points.iter().filter_map(|point| match self.state(&point.id) {
            State::Finished(result) => Some(*result),
            State::Failed(_) | State::Open => None,
        });
        finished.collect()
    }
}

/// Reads a file of JSON.
///
/// # Errors
/// It cannot be read, or has something else.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).map_err(|error| Error::read(path, error))?;
    let wrong = |error| Error::new(ErrorKind::Data, format!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).map_err(wrong)
}

/// Writes a file at once: nobody sees a part of it, and an interruption leaves none.
///
/// # Errors
/// The host refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path)).map_err(|error| Error::write(path, error))
}

fn update(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) { Ok(()) } else { write(path, bytes) }
}

/// A value as a file.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("it has no maps with other keys than words");
    bytes.push(b'\n');
    bytes
}
