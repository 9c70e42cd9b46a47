//! Protocol-buffer messages as bytes.
//!
//! Files are changed at this level, so that everything that is not changed, or not known, stays the
//! same byte for byte. Reading borrows from the file, so a wrong length allocates nothing.

use crate::error::WireError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    /// A string, a message, or packed numbers.
    Bytes(&'a [u8]),
    Fixed32(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
    /// All bytes of the field, with its tag.
    pub whole: &'a [u8],
}

impl<'a> Field<'a> {
    /// The bytes of a string or message.
    pub fn bytes(&self) -> Result<&'a [u8], WireError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Kind { number: self.number }),
        }
    }

    pub fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Text { number: self.number })
    }

    pub fn int(&self) -> Result<i64, WireError> {
        match self.value {
            Value::Varint(value) => Ok(value.cast_signed()),
            _ => Err(WireError::Kind { number: self.number }),
        }
    }

    /// Appends an integer, or a packed list of them. Fails if there are more than `most` then.
    pub fn ints(&self, into: &mut Vec<i64>, most: usize) -> Result<(), WireError> {
        let mut push = |value| {
            if into.len() >= most {
                return Err(WireError::TooMany { number: self.number, most });
            }
            into.push(value);
            Ok(())
        };
        let Value::Bytes(mut packed) = self.value else { return push(self.int()?) };
        while !packed.is_empty() {
            push(varint(&mut packed)?.cast_signed())?;
        }
        Ok(())
    }
}

/// The fields of a message, in order.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<Field<'a>, WireError> {
        let start = self.rest;
        let tag = varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).map_err(|_| WireError::Tag { tag })?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(WireError::Tag { tag }),
        };
        if number == 0 {
            return Err(WireError::Tag { tag });
        }
        Ok(Field { number, value, whole: &start[..start.len() - self.rest.len()] })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Truncated)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            // After a broken field it is unknown where the next one begins.
            self.rest = &[];
        }
        Some(field)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(WireError::Truncated)?;
        *bytes = rest;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(WireError::Varint)
}

#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn int(mut self, number: u32, value: i64) -> Self {
        put_varint(&mut self.0, u64::from(number) << 3);
        put_varint(&mut self.0, value.cast_unsigned());
        self
    }

    #[must_use]
    pub fn float(mut self, number: u32, value: f32) -> Self {
        put_varint(&mut self.0, u64::from(number) << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    #[must_use]
    pub fn bytes(mut self, number: u32, value: &[u8]) -> Self {
        self.0.extend(prefix(number, value.len()));
        self.0.extend(value);
        self
    }

    #[must_use]
    pub fn text(self, number: u32, value: &str) -> Self {
        self.bytes(number, value.as_bytes())
    }

    #[must_use]
    pub fn message(self, number: u32, value: &Self) -> Self {
        self.bytes(number, &value.0)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The tag and length in front of a string or message.
pub fn prefix(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![];
    put_varint(&mut bytes, u64::from(number) << 3 | 2);
    put_varint(&mut bytes, length as u64);
    bytes
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Message::new().int(1, -1).int(2, 300);
        let bytes = Message::new().text(3, "x").message(4, &inner).float(5, 0.5).into_bytes();
        let all: Vec<_> = fields(&bytes).map(Result::unwrap).collect();
        assert_eq!(all[0].text().unwrap(), "x");
        let inner: Vec<_> = fields(all[1].bytes().unwrap()).map(|f| f.unwrap().int()).collect();
        assert_eq!(inner, [Ok(-1), Ok(300)]);
        assert_eq!(all[2].value, Value::Fixed32(0.5f32.to_bits()));
        assert_eq!(all.iter().flat_map(|f| f.whole).copied().collect::<Vec<_>>(), bytes);
    }

    #[test]
    fn broken_bytes_are_errors_and_lengths_that_lie_cost_nothing() {
        let cases: [(&[u8], WireError); 5] = [
            (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f, 1], WireError::Truncated),
            (&[0x08], WireError::Truncated),
            (
                &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                WireError::Varint,
            ),
            (&[0x0b], WireError::Tag { tag: 0x0b }),
            (&[0x00, 0x00], WireError::Tag { tag: 0 }),
        ];
        for (bytes, expected) in cases {
            let error = fields(bytes).find_map(Result::err);
            assert_eq!(error, Some(expected));
        }
    }

    #[test]
    fn packed_and_single_numbers_are_bounded() {
        let bytes = Message::new().bytes(1, &[1, 2, 3]).int(1, 4).into_bytes();
        let mut ints = vec![];
        for field in fields(&bytes) {
            field.unwrap().ints(&mut ints, 8).unwrap();
        }
        assert_eq!(ints, [1, 2, 3, 4]);
        let field = fields(&bytes).next().unwrap().unwrap();
        assert!(field.ints(&mut vec![], 2).is_err());
    }
}
