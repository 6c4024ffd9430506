//! Results as tables: a row for each metric of each point, with where it comes from.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use motet_error::{Error, ErrorKind, Result};
use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::{Type, TypePtr},
};

use crate::plan::PointResult;

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What is in it, row by row.
    pub cells: Cells,
}

/// What is in a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Words.
    Words(Vec<String>),
    /// Numbers.
    Numbers(Vec<f64>),
    /// Whole numbers.
    Whole(Vec<i64>),
}

/// A point, and the name, value and unit of one of its metrics.
type Measured<'a> = (&'a PointResult, &'a str, f64, &'a str);

/// All results as columns. An axis whose values are all numbers is a column of numbers.
pub fn columns(results: &[PointResult], snakemake: &str) -> Vec<Column> {
    let rows: Vec<Measured<'_>> = results
        .iter()
        .flat_map(|result| {
            result.metrics.iter().map(move |(name, metric)| (result, name.as_str(), metric.value, metric.unit.as_str()))
        })
        .collect();
    let words = |name: &str, cell: &dyn Fn(&Measured<'_>) -> String| Column {
        name: name.into(),
        cells: Cells::Words(rows.iter().map(cell).collect()),
    };
    let mut columns = vec![words("point", &|row| row.0.point.id.clone())];
    let axes = results.first().map(|result| result.point.axes.as_slice()).unwrap_or_default();
    for (index, (name, _)) in axes.iter().enumerate() {
        let values: Vec<&str> = rows.iter().map(|row| row.0.point.axes[index].1.as_str()).collect();
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let as_words = || Cells::Words(values.iter().map(|value| (*value).to_owned()).collect());
        // A machine that an axis names has the same column.
        columns.push(Column { name: name.clone(), cells: numbers.map_or_else(as_words, Cells::Numbers) });
    }
    columns.push(Column {
        name: "seed".into(),
        cells: Cells::Whole(rows.iter().map(|r| r.0.point.seed as i64).collect()),
    });
    columns.push(words("metric", &|row| row.1.into()));
    columns.push(Column { name: "value".into(), cells: Cells::Numbers(rows.iter().map(|row| row.2).collect()) });
    columns.push(words("unit", &|row| row.3.into()));
    if !columns.iter().any(|column| column.name == "machine") {
        columns.push(words("machine", &|row| row.0.point.machine.clone()));
    }
    columns.push(words("machine_sha256", &|row| row.0.point.machine_sha256.clone()));
    columns.push(words("arguments", &|row| row.0.arguments.join(" ")));
    columns.push(words("commit", &|row| row.0.versions.commit.clone()));
    columns.push(words("motet", &|row| row.0.versions.motet.clone()));
    columns.push(words("qemu", &|row| row.0.versions.qemu.clone()));
    columns.push(words("snakemake", &|_| snakemake.into()));
    columns.push(words("host", &|row| row.0.versions.host.clone()));
    columns.push(Column {
        name: "began".into(),
        cells: Cells::Whole(rows.iter().map(|row| row.0.began as i64).collect()),
    });
    columns
        .push(Column { name: "host_s".into(), cells: Cells::Numbers(rows.iter().map(|row| row.0.host_s).collect()) });
    columns
}

/// The columns as CSV (RFC 4180).
pub fn csv(columns: &[Column]) -> String {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let heads = columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(",");
    let lines = (0..rows).map(|row| columns.iter().map(|column| column.cells.show(row)).collect::<Vec<_>>().join(","));
    [heads].into_iter().chain(lines).map(|line| line + "\n").collect()
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Numbers(numbers) => numbers.len(),
            Self::Whole(numbers) => numbers.len(),
        }
    }

    fn show(&self, row: usize) -> String {
        match self {
            Self::Words(words) => quoted(&words[row]),
            Self::Numbers(numbers) => numbers[row].to_string(),
            Self::Whole(numbers) => numbers[row].to_string(),
        }
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// Writes the columns as Parquet.
///
/// # Errors
/// The host refuses.
pub fn write_parquet(path: &Path, columns: &[Column]) -> Result<()> {
    let partial = path.with_extension("partial");
    let file = File::create(&partial).map_err(|error| Error::write(&partial, error))?;
    let refused =
        |error: parquet::errors::ParquetError| Error::new(ErrorKind::Io, format!("{}: {error}", path.display()));
    let write = || -> std::result::Result<(), parquet::errors::ParquetError> {
        let mut writer =
            SerializedFileWriter::new(file, schema(columns)?, Arc::new(WriterProperties::builder().build()))?;
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else { break };
            match &column.cells {
                Cells::Words(words) => {
                    let words: Vec<ByteArray> = words.iter().map(|word| word.as_str().into()).collect();
                    writer.typed::<ByteArrayType>().write_batch(&words, None, None)?;
                }
                Cells::Numbers(numbers) => {
                    writer.typed::<DoubleType>().write_batch(numbers, None, None)?;
                }
                Cells::Whole(numbers) => {
                    writer.typed::<Int64Type>().write_batch(numbers, None, None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        writer.close().map(drop)
    };
    write().map_err(refused)?;
    std::fs::rename(&partial, path).map_err(|error| Error::write(path, error))
}

fn schema(columns: &[Column]) -> std::result::Result<TypePtr, parquet::errors::ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.cells {
            Cells::Words(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Cells::Numbers(_) => (Physical::DOUBLE, None),
            Cells::Whole(_) => (Physical::INT64, None),
        };
        let builder = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::REQUIRED);
        builder.with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<std::result::Result<Vec<_>, _>>()?;
    Type::group_type_builder("results").with_fields(fields).build().map(Arc::new)
}

/// A row of a `results.csv`: by column, what is in it.
pub type Row = BTreeMap<String, String>;

/// Reads the results of a sweep's folder, or a `results.csv`; columns from `seed` on are not axes. Gives the axes and the rows.
///
/// # Errors
/// There are none, or the file has something else.
pub fn read_csv(path: &Path) -> Result<(Vec<String>, Vec<Row>)> {
    let path: PathBuf = if path.is_dir() { path.join("results.csv") } else { path.into() };
    let text = std::fs::read_to_string(&path).map_err(|error| Error::read(&path, error))?;
    let mut records = records(&text).into_iter();
    let heads = records.next().unwrap_or_default();
    let wrong = || Error::new(ErrorKind::Data, format!("{}: is not a results.csv of motet sweep", path.display()));
    let seed = heads.iter().position(|head| head == "seed").ok_or_else(wrong)?;
    if seed == 0 || !["metric", "value", "unit"].iter().all(|name| heads.iter().any(|head| head == name)) {
        return Err(wrong());
    }
    let axes = heads[1..seed].to_vec();
    let rows: Vec<Row> = records.map(|record| heads.iter().cloned().zip(record).collect()).collect();
    if rows.iter().any(|row: &Row| row.len() != heads.len()) { Err(wrong()) } else { Ok((axes, rows)) }
}

/// The records of a text of CSV.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                cell.push('"');
                rest.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => record.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            '\r' if !is_quoted => {}
            other => cell.push(other),
        }
    }
    records
}

/// A mean, and how far from it the mean of all possible runs is at most, with a confidence of 95 %; of one value, 0.
pub fn mean(values: &[f64]) -> (f64, f64) {
    use statrs::distribution::{ContinuousCDF, StudentsT};
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let t = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::INFINITY, |students| students.inverse_cdf(0.975));
    (mean, t * (variance / count).sqrt())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::{metrics::Metric, study::Point, versions::Versions};

    /// A result with one metric.
    pub fn result(axes: &[(&str, &str)], seed: u64, value: f64) -> PointResult {
        let axes = axes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let point = Point {
            id: format!("id{seed}"),
            axes,
            seed,
            machine: "m.toml".into(),
            description: String::new(),
            machine_sha256: "ab".into(),
            command: "echo \"a, b\"".into(),
            options: Vec::new(),
            timeout_s: 1,
            metrics: Vec::new(),
        };
        let metrics = [("time".to_owned(), Metric { value, unit: "us".into() })].into();
        let versions = Versions { commit: "c0ffee".into(), ..Versions::default() };
        PointResult {
            point,
            arguments: vec!["run".into(), "a, \"b\"".into()],
            metrics,
            versions,
            began: 1,
            host_s: 0.5,
        }
    }

    #[test]
    fn a_table_has_a_row_for_each_metric_and_is_read_again() {
        let results =
            [result(&[("size", "1"), ("policy", "x")], 1, 2.5), result(&[("size", "2"), ("policy", "x")], 1, 3.5)];
        let columns = columns(&results, "9");
        assert_eq!(columns[1].cells, Cells::Numbers(vec![1.0, 2.0]));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("results.csv"), csv(&columns)).unwrap();
        let (axes, rows) = read_csv(folder.path()).unwrap();
        assert_eq!((axes.join(" ").as_str(), rows.len()), ("size policy", 2));
        assert_eq!((rows[1]["value"].as_str(), rows[1]["commit"].as_str()), ("3.5", "c0ffee"));
        assert_eq!(rows[0]["arguments"], "run a, \"b\"");
        for wrong in ["", "a,b\n1,2\n", "point,seed,metric,value,unit\n1,2\n"] {
            std::fs::write(folder.path().join("results.csv"), wrong).unwrap();
            assert!(read_csv(folder.path()).unwrap_err().message.contains("results.csv"));
        }
    }

    #[test]
    fn parquet_has_the_same() {
        use parquet::{
            file::reader::{FileReader, SerializedFileReader},
            record::RowAccessor,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.parquet");
        let columns = columns(&[result(&[("size", "1")], 7, 2.5), result(&[("size", "2")], 8, 3.5)], "9");
        write_parquet(&path, &columns).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(std::result::Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].len(), columns.len());
        assert_eq!((rows[1].get_double(1).unwrap(), rows[1].get_long(2).unwrap()), (2.0, 8));
        assert_eq!((rows[1].get_string(3).unwrap().as_str(), rows[1].get_double(4).unwrap()), ("time", 3.5));
        assert_eq!(reader.metadata().file_metadata().schema_descr().column(4).name(), "value");
        // Without results there is a table, too.
        write_parquet(&path, &super::columns(&[], "9")).unwrap();
    }

    #[test]
    fn errors_are_those_of_student() {
        assert_eq!(mean(&[3.0]), (3.0, 0.0));
        let (middle, error) = mean(&[1.0, 2.0, 3.0]);
        // t = 4.303 with two degrees of freedom; s = 1.
        assert!((middle - 2.0).abs() < 1e-12 && (error - 4.302_65 / 3f64.sqrt()).abs() < 1e-4, "{error}");
    }
}
