//! When two numbers are the same: 18.00 and $18, 1/2 and `\frac{1}{2}` and 0.5.

use std::fmt;

use super::cue::balanced;

/// A number as it is compared: without currency, thousands marks, per cent, units and trailing
/// zeros, as a decimal where it ends and as a fraction in lowest terms where it does not. What is
/// no number is returned without LaTeX's ways to write the same, and without spaces where these do
/// not keep numbers apart.
pub fn normal_number(text: &str) -> String {
    let mut text = clean(text);
    loop {
        if let Some(value) = Value::whole(&text) {
            return value.to_string();
        }
        let joined: String = text.split_whitespace().collect();
        if joined == text || is_number(&joined) {
            return text;
        }
        text = clean(&joined);
    }
}

/// Whether a text is a number, and units at most.
pub fn is_number(text: &str) -> bool {
    Value::whole(&clean(text)).is_some()
}

/// A space that may stand between thousands; others stand between numbers.
const THIN: &str = "\u{2009}";

/// Without what does not change the value. What is clean stays as it is.
pub fn clean(text: &str) -> String {
    let mut text = text.to_owned();
    loop {
        let cleaner = clean_once(&text);
        if cleaner == text {
            return text;
        }
        text = cleaner;
    }
}

fn clean_once(text: &str) -> String {
    let mut text = text.trim().to_owned();
    for (written, means) in [
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\cfrac", "\\frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("{,}", ","),
        ("\\!", ""),
        ("\\,", THIN),
        ("\\;", THIN),
        ("\\ ", THIN),
        ("~", THIN),
        ("^\\circ", ""),
        ("^{\\circ}", ""),
        ("°", ""),
        ("\\(", ""),
        ("\\)", ""),
        ("\\[", ""),
        ("\\]", ""),
        ("\\$", ""),
        ("\\%", ""),
        ("**", ""),
        ("\\approx", "="),
    ] {
        text = text.replace(written, means);
    }
    for command in ["\\text", "\\textbf", "\\mathrm", "\\mathbf", "\\mbox"] {
        text = unwrap(&text, &format!("{command}{{"));
    }
    let mapped = text.chars().filter_map(|c| match c {
        '$' | '€' | '£' | '¥' | '₹' | '%' | '"' | '“' | '”' => None,
        '\u{a0}' | '\u{202f}' => THIN.chars().next(),
        '\t' | '\n' => Some(' '),
        '−' | '–' => Some('-'),
        '≈' => Some('='),
        c => Some(c),
    });
    let text: String = mapped.collect();
    let value = text.rsplit_once('=').map_or(text.as_str(), |(_, value)| value);
    let value = value.trim().trim_end_matches(['.', ',', ';', ':', '!']).trim();
    const ABOUT: [&str; 6] = ["about", "approximately", "around", "roughly", "exactly", "only"];
    let about = ABOUT.iter().find_map(|about| value.strip_prefix(about));
    about.unwrap_or(value).trim_start().to_owned()
}

/// What a command's braces hold, in the place of the command.
fn unwrap(text: &str, command: &str) -> String {
    let mut whole = String::new();
    let mut left = text;
    while let Some((before, behind)) = left.split_once(command) {
        let inside = balanced(behind).unwrap_or(behind);
        whole.extend([before, " ", inside, " "]);
        left = behind[inside.len()..].trim_start_matches('}');
    }
    whole.push_str(left);
    whole
}

/// An exact fraction, in lowest terms, its sign above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    above: i128,
    below: i128,
}

impl Value {
    fn new(above: i128, below: i128) -> Option<Self> {
        let divisor = i128::try_from(gcd(above.unsigned_abs(), below.unsigned_abs())).ok()?;
        let sign = below.signum();
        let part = |part: i128| part.checked_div(divisor)?.checked_mul(sign);
        (below != 0).then_some(())?;
        Some(Self { above: part(above)?, below: part(below)? })
    }

    /// A cleaned text that is a number, and units at most.
    fn whole(text: &str) -> Option<Self> {
        let (value, rest) = Self::read(text)?;
        is_unit(rest).then_some(value)
    }

    /// The number a cleaned text begins with, and what follows it.
    pub fn read(text: &str) -> Option<(Self, &str)> {
        let (negative, rest) = sign(text);
        let (mut value, mut rest) = Self::fraction(rest).or_else(|| Self::decimal(rest))?;
        let spaced = rest.trim_start();
        if let Some((part, behind)) = Self::fraction(spaced)
            && value.below == 1
        {
            // One and a half.
            value = value.plus(part)?;
            rest = behind;
        } else if let Some((below, behind)) = rest.strip_prefix('/').and_then(Self::decimal) {
            value = value.over(below)?;
            rest = behind;
        } else if let Some((above, behind)) = Self::decimal(spaced)
            && value.below == 1
            && spaced.len() < rest.len()
            && let Some((below, behind)) = behind.strip_prefix('/').and_then(Self::decimal)
        {
            value = value.plus(above.over(below)?)?;
            rest = behind;
        }
        let (times, rest) = multiplier(rest);
        let above = value.above.checked_mul(times)?;
        Some((Self::new(if negative { -above } else { above }, value.below)?, rest))
    }

    /// `\frac{1}{2}`, `\frac12`.
    fn fraction(text: &str) -> Option<(Self, &str)> {
        let rest = text.strip_prefix("\\frac")?;
        let (above, rest) = argument(rest)?;
        let (below, rest) = argument(rest)?;
        let (above, below) = (Self::all(above)?, Self::all(below)?);
        Some((above.over(below)?, rest))
    }

    fn all(text: &str) -> Option<Self> {
        let (negative, rest) = sign(text.trim());
        let (value, rest) = Self::decimal(rest)?;
        let above = if negative { -value.above } else { value.above };
        rest.trim().is_empty().then_some(Self { above, ..value })
    }

    /// Digits, with thousands marks and a decimal point.
    fn decimal(text: &str) -> Option<(Self, &str)> {
        let (mut digits, mut rest) = split_digits(text);
        let mut whole = digits.to_owned();
        while (1..=3).contains(&digits.len())
            && let Some((group, behind)) = rest.strip_prefix([',', '\u{2009}']).map(split_digits)
            && group.len() == 3
        {
            whole.push_str(group);
            (digits, rest) = (group, behind);
        }
        let point = rest.strip_prefix('.').map(split_digits).filter(|(part, _)| !part.is_empty());
        let (part, rest) = point.unwrap_or(("", rest));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let part = part.trim_end_matches('0');
        let below = 10i128.checked_pow(u32::try_from(part.len()).ok()?)?;
        Some((Self::new(format!("0{whole}{part}").parse().ok()?, below)?, rest))
    }

    fn over(self, other: Self) -> Option<Self> {
        let above = self.above.checked_mul(other.below)?;
        Self::new(above, self.below.checked_mul(other.above)?)
    }

    fn plus(self, other: Self) -> Option<Self> {
        let left = self.above.checked_mul(other.below)?;
        let right = other.above.checked_mul(self.below)?;
        Self::new(left.checked_add(right)?, self.below.checked_mul(other.below)?)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { above, below } = *self;
        // It ends as a decimal if tens can be made of what is below.
        let tens = (0..=18).map(|places| (places, 10i128.pow(places)));
        let ends = tens.into_iter().find(|(_, tens)| tens % below == 0);
        let scale =
            |(places, tens): (u32, i128)| Some((places, tens, above.checked_mul(tens / below)?));
        match ends.and_then(scale) {
            Some((0, ..)) => write!(f, "{above}"),
            Some((places, tens, scaled)) => {
                let (scaled, tens) = (scaled.unsigned_abs(), tens.unsigned_abs());
                let (whole, part) = (scaled / tens, scaled % tens);
                let sign = if above < 0 { "-" } else { "" };
                write!(f, "{sign}{whole}.{part:0places$}", places = places as usize)
            }
            None => write!(f, "{above}/{below}"),
        }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text.strip_prefix('+').unwrap_or(text).trim_start()),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// What a command is given: braces, or a single digit.
fn argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    match text.strip_prefix('{') {
        Some(inside) => {
            let inside = balanced(inside)?;
            Some((inside, &text[inside.len() + 2..]))
        }
        None => text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.split_at(1)),
    }
}

fn multiplier(rest: &str) -> (i128, &str) {
    let spaced = rest.trim_start();
    for (word, times) in [
        ("hundred", 100),
        ("thousand", 1_000),
        ("million", 1_000_000),
        ("billion", 1_000_000_000),
        ("trillion", 1_000_000_000_000),
    ] {
        if let Some(behind) = spaced.strip_prefix(word)
            && !behind.starts_with(char::is_alphanumeric)
        {
            return (times, behind);
        }
    }
    (1, rest)
}

/// Units that may be short, or stand right behind a number. Any other single letter is a variable.
const UNITS: [&str; 24] = [
    "m", "cm", "mm", "km", "g", "kg", "mg", "l", "L", "ml", "mL", "s", "h", "hr", "hrs", "min",
    "in", "ft", "lb", "lbs", "oz", "mph", "am", "pm",
];
/// Words that go on with the sum.
const SUMS: [&str; 10] =
    ["or", "and", "to", "pi", "plus", "minus", "times", "mod", "sqrt", "choose"];

/// Whether what follows a number only says of what.
fn is_unit(rest: &str) -> bool {
    let unit = rest.trim();
    let end = unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len());
    let (first, behind) = unit.split_at(end);
    let powers = ["^2", "^3", "^{2}", "^{3}", "²", "³"];
    let behind = powers.iter().fold(behind.to_owned(), |text, power| text.replace(power, ""));
    let words =
        behind.chars().all(|c| c.is_alphabetic() || c.is_whitespace() || "/.-'()".contains(c));
    let long = rest.starts_with(char::is_whitespace)
        && first.chars().count() > 1
        && !SUMS.contains(&first);
    unit.is_empty() || words && (long || UNITS.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_reads_the_same() {
        for (same, means) in [
            (&["18", "18.00", "$18", "\\$18.00", "18 dollars", "+18", "018", "18."][..], "18"),
            (&["0.5", "1/2", ".5", "\\frac{1}{2}", "\\dfrac12", "2/4", "0.50"], "0.5"),
            (
                &["2,317", "2317", "2{,}317", "2\\,317", "2\u{a0}317.0", "$2,317.00", "2,\\!317"],
                "2317",
            ),
            (&["-3", "−3", "- 3", "-$3", "$-3", "-3.0", "-6/2"], "-3"),
            (&["1.5", "1 1/2", "1\\frac{1}{2}", "3/2", "\\frac{3}{2}"], "1.5"),
            (&["-1.5", "-1\\frac{1}{2}", "-\\frac{3}{2}", "\\frac{-3}{2}"], "-1.5"),
            (&["1/3", "\\frac{2}{6}", "\\tfrac13"], "1/3"),
            (&["42", "42 apples", "42\\text{ apples}", "\\text{42 apples}", "x = 42"], "42"),
            (&["90", "90^\\circ", "90°", "90^{\\circ}", "90 degrees", "90%", "90\\%"], "90"),
            (&["5", "5 cm", "5cm", "5 cm^2", "5 km/h", "about 5", "5 m", "\\(5\\)"], "5"),
            (&["2500000", "2.5 million", "$2.5 million dollars", "2,500,000"], "2500000"),
            (&["0", "0.00", ".0", "-0"], "0"),
        ] {
            for text in same {
                assert_eq!(normal_number(text), means, "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_number_stays() {
        for (text, means) in [
            ("5x", "5x"),
            ("5 x + 2", "5x+2"),
            ("2\\sqrt{3}", "2\\sqrt{3}"),
            ("3 or 4", "3or4"),
            ("(1, 2)", "(1,2)"),
            ("1, 2", "1,2"),
            ("3 4", "3 4"),
            (".5\n1", ".5 1"),
            ("* *5 x", "5x"),
            ("2\\pi", "2\\pi"),
            ("\\left( 1 \\right)", "(1)"),
            ("1/0", "1/0"),
            ("\\frac{x}{2}", "\\frac{x}{2}"),
            ("", ""),
            ("Monday", "Monday"),
            (
                "1234567890123456789012345678901234567890",
                "1234567890123456789012345678901234567890",
            ),
        ] {
            assert_eq!(normal_number(text), means, "{text}");
        }
    }
}
