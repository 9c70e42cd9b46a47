//! llama.cpp's grammars, GBNF, in llguidance's variant of Lark.
//!
//! Both describe the same languages; names, quotes and classes of characters are written otherwise. A
//! class with its repetition becomes one regular expression, which is what it would be in Lark.

use std::{iter::Peekable, str::Chars};

use super::GrammarError;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Define,
    /// Already as Lark writes it.
    Part(String),
    /// A regular expression without its slashes.
    Class(String),
    /// `*`, `+`, `?` or `{m,n}`.
    Repeat(String),
}

/// Whether a grammar is written in GBNF: a line begins with a name and `::=`.
pub fn is_gbnf(text: &str) -> bool {
    let defines = |line: &str| {
        let name = line.split_once("::=").map(|(name, _)| name.trim());
        name.is_some_and(|name| name.chars().all(is_name))
    };
    text.lines().any(defines)
}

pub fn to_lark(text: &str) -> Result<String, GrammarError> {
    let tokens = tokens(text)?;
    let mut lark = String::new();
    let mut i = 0;
    while i < tokens.len() {
        match (&tokens[i], tokens.get(i + 1)) {
            (Token::Name(name), Some(Token::Define)) => {
                lark += &format!("\n{}:", rule(name));
                i += 2;
                continue;
            }
            _ if lark.is_empty() => {
                return Err(GrammarError("it does not begin with a rule, as in root ::= …".into()));
            }
            (Token::Name(name), _) => lark += &format!(" {}", rule(name)),
            (Token::Define, _) => return Err(GrammarError("there is no name before ::=".into())),
            (Token::Part(part), _) => lark += &format!(" {part}"),
            (Token::Class(class), Some(Token::Repeat(repeat))) => {
                lark += &format!(" /{class}{repeat}/");
                i += 1;
            }
            (Token::Class(class), _) => lark += &format!(" /{class}/"),
            (Token::Repeat(repeat), _) => lark += repeat,
        }
        i += 1;
    }
    Ok(lark)
}

/// A rule's name: `root` is where Lark has `start`, and dashes are not allowed there.
fn rule(name: &str) -> String {
    match name {
        "root" => "start".into(),
        // No name of Lark's may begin with a digit, or be all capitals, which would be a terminal.
        name => format!("r_{}", name.replace('-', "_").to_lowercase()),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, GrammarError> {
    let mut tokens = vec![];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            _ if c.is_whitespace() => continue,
            '#' => {
                chars.by_ref().find(|c| *c == '\n');
                continue;
            }
            ':' => {
                if chars.next() != Some(':') || chars.next() != Some('=') {
                    return Err(GrammarError("a colon must be part of ::=".into()));
                }
                Token::Define
            }
            '"' => Token::Part(serde_json::Value::String(literal(&mut chars)?).to_string()),
            '[' => Token::Class(class(&mut chars)?),
            '.' => Token::Class("(.|\\n)".into()),
            '|' | '(' | ')' => Token::Part(c.into()),
            '*' | '+' | '?' => Token::Repeat(c.into()),
            '{' => {
                let inner: String = chars.by_ref().take_while(|c| *c != '}').collect();
                Token::Repeat(format!("{{{}}}", inner.trim()))
            }
            _ if is_name(c) => {
                let mut name = String::from(c);
                while let Some(c) = chars.next_if(|c| is_name(*c)) {
                    name.push(c);
                }
                Token::Name(name)
            }
            _ => return Err(GrammarError(format!("{c:?} means nothing here"))),
        };
        tokens.push(token);
    }
    Ok(tokens)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// The text between quotes.
fn literal(chars: &mut Peekable<Chars<'_>>) -> Result<String, GrammarError> {
    let mut text = String::new();
    loop {
        match chars.next() {
            Some('"') => return Ok(text),
            Some('\\') => text.push(escaped(chars)?),
            Some(c) => text.push(c),
            None => return Err(GrammarError("a quote is not closed".into())),
        }
    }
}

/// A class of characters as a regular expression, with every special sign escaped.
fn class(chars: &mut Peekable<Chars<'_>>) -> Result<String, GrammarError> {
    let mut class = String::from("[");
    if chars.next_if_eq(&'^').is_some() {
        class.push('^');
    }
    loop {
        let c = match chars.next() {
            Some(']') => {
                class.push(']');
                return Ok(class);
            }
            Some('\\') => escaped(chars)?,
            // Between two characters it is a range.
            Some('-') if !class.ends_with(['[', '^']) && chars.peek() != Some(&']') => {
                class.push('-');
                continue;
            }
            Some(c) => c,
            None => return Err(GrammarError("a class of characters is not closed".into())),
        };
        match c.is_ascii_alphanumeric() {
            true => class.push(c),
            false => class += &format!("\\x{{{:X}}}", u32::from(c)),
        }
    }
}

/// What stands behind a backslash.
fn escaped(chars: &mut Peekable<Chars<'_>>) -> Result<char, GrammarError> {
    let wrong = || GrammarError("a backslash is followed by nothing it could mean".into());
    let c = chars.next().ok_or_else(wrong)?;
    let digits = match c {
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Ok(other),
    };
    let code: String = chars.by_ref().take(digits).collect();
    u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_quotes_and_classes_are_translated() {
        let gbnf = "# a list\nroot ::= \"[\" item (\",\" item)* \"]\"\nitem-x ::= [a-z]+ |\n  \
            [^\"\\\\\\x7F]{2,3} # rest\nitem ::= item-x \"\\n\"?";
        assert_eq!(
            to_lark(gbnf).unwrap(),
            "\nstart: \"[\" r_item ( \",\" r_item )* \"]\"\nr_item_x: /[a-z]+/ | \
             /[^\\x{22}\\x{5C}\\x{7F}]{2,3}/\nr_item: r_item_x \"\\n\"?"
        );
    }

    #[test]
    fn what_is_not_gbnf_is_refused() {
        for wrong in
            ["\"a\" ::= b", "::=", "root ::= \"a", "root ::= [a", "root ::= %", "root ::= \"\\u12"]
        {
            assert!(to_lark(wrong).is_err(), "{wrong}");
        }
    }
}
