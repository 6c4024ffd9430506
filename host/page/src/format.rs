//! Numbers as people read them, and text as HTML takes it.

/// Between digits and units; does not break.
const SPACE: char = '\u{202f}';

/// Text inside elements and attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(character),
            // Not allowed in a page, even as references.
            character if character.is_control() => safe.push('\u{fffd}'),
            character => safe.push(character),
        }
    }
    safe
}

/// Simulated time, with a unit that fits.
pub fn time(ps: u64) -> String {
    let (unit, name) = time_unit(ps as f64);
    format!("{}{SPACE}{name}", significant(ps as f64 / unit))
}

/// The unit for times up to `ps`: its picoseconds and its name.
pub fn time_unit(ps: f64) -> (f64, &'static str) {
    let units = [(1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns")];
    units.into_iter().find(|(unit, _)| ps >= *unit).unwrap_or((1.0, "ps"))
}

/// Four significant digits, no more than needed.
fn significant(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 1000.0 || value == 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A count, its digits in groups of three.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(SPACE);
        }
        text.push(digit);
    }
    text
}

/// A count in short, with a prefix of the international system.
pub fn short(value: f64) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.into_iter().find(|(size, _)| value >= *size) {
        Some((size, prefix)) => format!("{}{SPACE}{prefix}", trimmed(value / size)),
        None => trimmed(value),
    }
}

/// Up to three significant digits, without zeros at the end.
pub fn trimmed(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// A share, 0 to 1. What is not everything is not shown as 100 %.
pub fn percent(share: f64) -> String {
    let shown = format!("{:.2}", share * 100.0);
    let shown = if shown == "100.00" && share < 1.0 { "99.99".into() } else { shown };
    format!("{}{SPACE}%", if shown == "100.00" { "100" } else { &shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(SPACE, " ")
    }

    #[test]
    fn numbers_have_units_and_few_digits() {
        assert_eq!([0, 999, 1_500, 2_345_678].map(|ps| plain(&time(ps))), ["0 ps", "999.0 ps", "1.500 ns", "2.346 µs"]);
        assert_eq!([1_234_567_890_123, 61_500_000_000].map(|ps| plain(&time(ps))), ["1.235 s", "61.50 ms"]);
        assert_eq!([0, 999, 1000, 12_345_678].map(|value| plain(&count(value))), ["0", "999", "1 000", "12 345 678"]);
        assert_eq!([0.0, 0.5, 20.0, 1500.0, 2e6].map(|value| plain(&short(value))), ["0", "0.5", "20", "1.5 k", "2 M"]);
        assert_eq!([0.0, 0.9999999, 1.0].map(|share| plain(&percent(share))), ["0.00 %", "99.99 %", "100 %"]);
    }

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(escape("<script>'\"&\u{1b}[1m\n"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}[1m\n");
    }
}
