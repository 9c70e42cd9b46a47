//! Text from bytes, and what they look like if they are none.

use thiserror::Error;

/// What bytes look like that are no UTF-8.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NotText {
    #[error("the file looks like UTF-16")]
    Utf16,
    #[error("the file looks like UTF-32")]
    Utf32,
    #[error("not UTF-8; the file looks like Latin-1 (ISO 8859-1)")]
    Latin1,
    /// One byte a character, with letters where Latin-1 has none.
    #[error("not UTF-8; the file looks like Windows-1252 or another encoding of one byte a letter")]
    OneByte,
    #[error("the file ends in the middle of a character; it was cut off")]
    CutOff,
    #[error("the file is compressed (gzip, zip or zstd); unpack it")]
    Compressed,
    #[error("the file holds zero bytes, so it is not text")]
    Binary,
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZIP: &[u8] = b"PK\x03\x04";
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The text, without a byte order mark; else what it looks like, and the line where that shows.
pub fn text(bytes: Vec<u8>) -> Result<String, (NotText, usize)> {
    if [GZIP, ZIP, ZSTD].iter().any(|magic| bytes.starts_with(magic)) {
        return Err((NotText::Compressed, 1));
    }
    if let Some(wide) = wide(&bytes) {
        return Err((wide, 1));
    }
    let line = |at: usize| 1 + bytes.iter().take(at).filter(|&&byte| byte == b'\n').count();
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        return Err((NotText::Binary, line(at)));
    }
    if let Err(e) = std::str::from_utf8(&bytes) {
        let looks = match e.error_len() {
            None => NotText::CutOff,
            Some(_) if bytes.iter().any(|byte| (0x80..0xa0).contains(byte)) => NotText::OneByte,
            Some(_) => NotText::Latin1,
        };
        return Err((looks, line(e.valid_up_to())));
    }
    let text = String::from_utf8(bytes).map_err(|_| (NotText::Binary, 1))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// UTF-16 and UTF-32, with or without a mark: JSON begins with two ASCII characters, each with zero
/// bytes beside it.
fn wide(bytes: &[u8]) -> Option<NotText> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(NotText::Utf32),
        [0, 0, 0, b, ..] | [b, 0, 0, 0, ..] if *b != 0 => Some(NotText::Utf32),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(NotText::Utf16),
        [0, a, 0, b, ..] | [a, 0, b, 0, ..] if *a != 0 && *b != 0 => Some(NotText::Utf16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, to: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(to).collect()
    }

    #[test]
    fn utf8_is_text_with_or_without_a_mark() {
        assert_eq!(text("{é}".into()), Ok("{é}".into()));
        assert_eq!(text("\u{feff}{é}".into()), Ok("{é}".into()));
        assert_eq!(text(vec![]), Ok(String::new()));
    }

    #[test]
    fn what_is_not_is_named() {
        let row = "{\"prompt\": \"é\"}\n";
        let two = format!("{row}{row}");
        let latin: Vec<u8> = two.chars().skip(16).map(|c| c as u8).collect();
        let latin = [row.as_bytes(), &latin].concat();
        for (bytes, looks) in [
            (utf16(&format!("\u{feff}{row}"), u16::to_le_bytes), (NotText::Utf16, 1)),
            (utf16(&format!("\u{feff}{row}"), u16::to_be_bytes), (NotText::Utf16, 1)),
            (utf16(row, u16::to_le_bytes), (NotText::Utf16, 1)),
            (utf16(row, u16::to_be_bytes), (NotText::Utf16, 1)),
            (row.chars().flat_map(|c| (c as u32).to_le_bytes()).collect(), (NotText::Utf32, 1)),
            (latin, (NotText::Latin1, 2)),
            (b"{}\n{}\n\x93quoted\x94".to_vec(), (NotText::OneByte, 3)),
            ("{}\né".as_bytes()[..4].to_vec(), (NotText::CutOff, 2)),
            (b"{}\n{\0}".to_vec(), (NotText::Binary, 2)),
            (b"\x1f\x8b\x08\x00".to_vec(), (NotText::Compressed, 1)),
        ] {
            assert_eq!(text(bytes), Err(looks));
        }
    }
}
