//! Axes of a study: values, ranges, zips, and all points of their product.

use std::fmt;

use serde::Deserialize;
use toml::Value;

/// Most values of an axis, and most points of a study.
pub const POINTS_MAX: usize = 100_000;

/// What a value is put into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// These keys of the machine file.
    Keys(Vec<String>),
    /// `{NAME}` in the command and in options.
    Argument,
    /// It is the machine file.
    Machine,
}

/// An axis as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisTable {
    name: Option<String>,
    key: Option<Words>,
    argument: Option<String>,
    machine: Option<Vec<Value>>,
    values: Option<Vec<Value>>,
    range: Option<RangeTable>,
    zip: Option<Vec<AxisTable>>,
}

/// One word, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeTable {
    from: Value,
    to: Value,
    step: Option<Value>,
    factor: Option<f64>,
}

/// Values that have a name in results.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The name of its column.
    pub name: String,
    /// Where its values go.
    pub target: Target,
    /// They.
    pub values: Vec<Value>,
}

/// Parts that take their next values together: one, unless it is a zip.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// They have equally many values.
    pub parts: Vec<Part>,
}

impl Axis {
    /// How many values it has.
    pub fn len(&self) -> usize {
        self.parts.first().map_or(0, |part| part.values.len())
    }
}

impl AxisTable {
    /// Checks the table.
    ///
    /// # Errors
    /// In a sentence, what is wrong with which axis.
    pub fn axis(&self) -> Result<Axis, String> {
        let Some(zip) = &self.zip else { return Ok(Axis { parts: vec![self.part()?] }) };
        let others = [self.key.is_some(), self.argument.is_some(), self.machine.is_some(), self.name.is_some()];
        if others.contains(&true) || self.values.is_some() || self.range.is_some() {
            return Err("an axis with `zip` has nothing else; each of its parts has its own key and values".into());
        }
        let parts: Vec<Part> = zip.iter().map(AxisTable::part).collect::<Result<_, _>>()?;
        if parts.len() < 2 {
            return Err("`zip` needs at least two parts".into());
        }
        let first = &parts[0];
        match parts.iter().find(|part| part.values.len() != first.values.len()) {
            None => Ok(Axis { parts }),
            Some(other) => Err(format!(
                "zip of unequal lengths: `{}` has {} values, `{}` has {}",
                first.name,
                first.values.len(),
                other.name,
                other.values.len()
            )),
        }
    }

    fn part(&self) -> Result<Part, String> {
        if self.zip.is_some() {
            return Err("a zip inside a zip: put all parts into one".into());
        }
        let (target, default) = match (&self.key, &self.argument, &self.machine) {
            (Some(key), None, None) => {
                let keys = match key {
                    Words::One(key) => vec![key.clone()],
                    Words::Several(keys) => keys.clone(),
                };
                let last = keys.first().and_then(|key| key.rsplit('.').next()).unwrap_or_default().to_owned();
                if last.is_empty() {
                    return Err("`key` names no key of the machine file".into());
                }
                (Target::Keys(keys), last)
            }
            (None, Some(argument), None) => (Target::Argument, argument.clone()),
            (None, None, Some(_)) => (Target::Machine, "machine".into()),
            (None, None, None) => {
                return Err(format!("axis{}: needs one of `key`, `argument`, `machine`, `zip`", self.called()));
            }
            _ => return Err(format!("axis{}: has more than one of `key`, `argument`, `machine`", self.called())),
        };
        let name = self.name.clone().unwrap_or(default);
        let values = self.values(&name)?;
        if values.is_empty() {
            return Err(format!("axis `{name}` has no values"));
        }
        if target != Target::Argument || name == *self.argument.as_ref().unwrap_or(&name) {
            return Ok(Part { name, target, values });
        }
        Err(format!("axis `{name}`: an argument's name is that in braces; leave `name` out"))
    }

    fn called(&self) -> String {
        self.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default()
    }

    fn values(&self, name: &str) -> Result<Vec<Value>, String> {
        match (&self.values, &self.range, &self.machine) {
            (Some(values), None, None) | (None, None, Some(values)) => Ok(values.clone()),
            (None, Some(range), None) => range.values().map_err(|why| format!("axis `{name}`: range: {why}")),
            (None, None, None) => Err(format!("axis `{name}` has no values: it needs `values` or `range`")),
            _ => Err(format!("axis `{name}` has more than one of `values`, `range` and `machine`")),
        }
    }
}

impl RangeTable {
    /// From `from` to `to`, which is the last value if a step arrives there.
    fn values(&self) -> Result<Vec<Value>, String> {
        let number = |what: &str, value: &Value| {
            let number = value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64));
            number.filter(|number| number.is_finite()).ok_or_else(|| format!("`{what}` is not a number"))
        };
        let (from, to) = (number("from", &self.from)?, number("to", &self.to)?);
        let step = self.step.as_ref().map(|step| number("step", step)).transpose()?;
        let are_whole = self.from.is_integer() && self.step.as_ref().is_none_or(Value::is_integer);
        let next: Box<dyn Fn(i32) -> f64> = match (step, self.factor) {
            (Some(step), None) if step > 0.0 => Box::new(move |index| from + step * f64::from(index)),
            (None, Some(factor)) if factor > 1.0 && from > 0.0 => Box::new(move |index| from * factor.powi(index)),
            (None, None) => Box::new(move |index| from + f64::from(index)),
            (Some(_), Some(_)) => return Err("has both `step` and `factor`".into()),
            (Some(_), None) => return Err("`step` must be more than 0".into()),
            (None, Some(_)) => return Err("`factor` must be more than 1, and `from` more than 0".into()),
        };
        // A step of 0.1 does not arrive exactly.
        let values: Vec<f64> =
            (0..=POINTS_MAX as i32).map(next).take_while(|value| *value <= to + 1e-9 * to.abs()).collect();
        if values.len() > POINTS_MAX {
            return Err(format!("more than {POINTS_MAX} values"));
        }
        let whole = |value: f64| are_whole && value.fract() == 0.0;
        Ok(values.into_iter().map(|v| if whole(v) { Value::Integer(v as i64) } else { Value::Float(v) }).collect())
    }
}

/// All combinations of the axes' values: for each axis the number of its value. The last axis changes fastest.
///
/// # Errors
/// There are too many.
pub fn product(lengths: &[usize]) -> Result<Vec<Vec<usize>>, String> {
    let count = lengths.iter().try_fold(1usize, |count, length| count.checked_mul(*length));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(format!("more than {POINTS_MAX} points"));
    }
    Ok(lengths.iter().fold(vec![Vec::new()], |points, &length| {
        let extended = |point: &Vec<usize>| {
            let point = point.clone();
            (0..length).map(move |index| [point.as_slice(), &[index]].concat())
        };
        points.iter().flat_map(extended).collect()
    }))
}

/// A value as it stands in commands and results.
pub struct Shown<'a>(pub &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Result<Axis, String> {
        toml::from_str::<AxisTable>(text).map_err(|error| error.to_string())?.axis()
    }

    fn values(text: &str) -> Vec<String> {
        axis(text).unwrap().parts[0].values.iter().map(|value| Shown(value).to_string()).collect()
    }

    #[test]
    fn values_are_lists_or_ranges() {
        assert_eq!(values("argument = 'a'\nvalues = [1, 'x', 2.5, true]"), ["1", "x", "2.5", "true"]);
        assert_eq!(values("argument = 'a'\nrange = { from = 1, to = 3 }"), ["1", "2", "3"]);
        assert_eq!(values("argument = 'a'\nrange = { from = 1, to = 8, step = 3 }"), ["1", "4", "7"]);
        assert_eq!(values("argument = 'a'\nrange = { from = 0.1, to = 0.3, step = 0.1 }").len(), 3);
        assert_eq!(values("argument = 'a'\nrange = { from = 4, to = 64, factor = 4 }"), ["4", "16", "64"]);
        assert_eq!(values("machine = ['a.toml', 'b.toml']"), ["a.toml", "b.toml"]);
    }

    #[test]
    fn an_axis_is_called_after_its_key_or_as_it_says() {
        let key = axis("key = ['model.core.x86.l3.size', 'model.core.arm.l3.size']\nvalues = ['1MiB']").unwrap();
        assert_eq!(key.parts[0].name, "size");
        assert!(matches!(&key.parts[0].target, Target::Keys(keys) if keys.len() == 2));
        assert_eq!(axis("name = 'l3'\nkey = 'a.b'\nvalues = [1]").unwrap().parts[0].name, "l3");
    }

    #[test]
    fn parts_of_a_zip_go_together() {
        let zip =
            axis("zip = [{ key = 'a', values = [1, 2] }, { argument = 'b', range = { from = 3, to = 4 } }]").unwrap();
        assert_eq!((zip.parts.len(), zip.len()), (2, 2));
        let error = axis("zip = [{ key = 'a', values = [1, 2] }, { argument = 'b', values = [3] }]").unwrap_err();
        assert_eq!(error, "zip of unequal lengths: `a` has 2 values, `b` has 1");
    }

    #[test]
    fn what_is_no_axis_is_told_with_its_name() {
        for (text, why) in [
            ("argument = 'size'", "axis `size` has no values"),
            ("argument = 'size'\nvalues = []", "axis `size` has no values"),
            ("argument = 'size'\nrange = { from = 2, to = 1 }", "axis `size` has no values"),
            ("argument = 'size'\nvalues = [1]\nrange = { from = 1, to = 2 }", "axis `size` has more than one"),
            ("argument = 'size'\nrange = { from = 1, to = 2, step = 0 }", "axis `size`: range: `step`"),
            ("argument = 'size'\nrange = { from = 0, to = 2, factor = 2 }", "axis `size`: range: `factor`"),
            ("argument = 'size'\nrange = { from = 'x', to = 2 }", "axis `size`: range: `from` is not a number"),
            ("argument = 'size'\nrange = { from = 0, to = 1, step = 1e-9 }", "axis `size`: range: more than"),
            ("name = 'n'\nvalues = [1]", "axis `n`: needs one of `key`"),
            ("key = 'a'\nargument = 'b'\nvalues = [1]", "more than one of `key`"),
            ("key = ''\nvalues = [1]", "names no key"),
            ("zip = [{ key = 'a', values = [1] }]", "at least two"),
            ("zip = [{ zip = [] }, { key = 'a', values = [1] }]", "zip inside a zip"),
            ("name = 'a'\nzip = []", "nothing else"),
            ("argument = 'a'\nvalue = [1]", "unknown field `value`"),
        ] {
            let error = axis(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_product_has_every_combination_once() {
        assert_eq!(product(&[2, 1, 2]).unwrap(), [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]);
        assert_eq!(product(&[]).unwrap(), [Vec::<usize>::new()]);
        assert_eq!(product(&[3, 0]).unwrap(), Vec::<Vec<usize>>::new());
        assert!(product(&[1000, 1000]).is_err() && product(&[usize::MAX, 2]).is_err());
    }
}
