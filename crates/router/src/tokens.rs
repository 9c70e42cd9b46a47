//! Numbers that stand for tokens, which some trained routers read.

use decode::Token;
use half::f16;

use crate::{
    file::Flaw,
    tensors::{Reader, Writer},
};

/// How many numbers stand for a token.
pub const TOKEN_WIDTH: usize = 32;

const IDS: &str = "tokens";
const ROWS: &str = "table";

/// A row of numbers for each common token, and one for all others.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenTable {
    /// The common tokens, rising.
    ids: Vec<i32>,
    /// The row of all other tokens, then those of these.
    rows: Vec<f16>,
}

impl TokenTable {
    /// Checks that the ids are some, each once and in order, and that each has its row.
    pub fn new(ids: Vec<i32>, rows: Vec<f16>) -> Result<Self, Flaw> {
        let wanted = (ids.len() + 1) * TOKEN_WIDTH;
        if rows.len() != wanted {
            return Err(Flaw::Size { tensor: ROWS, found: rows.len(), wanted });
        }
        if let Some(&id) = ids.iter().find(|&&id| id < 0) {
            return Err(Flaw::TokenId { id });
        }
        if let Some((&before, &behind)) = ids.iter().zip(ids.iter().skip(1)).find(|(a, b)| a >= b) {
            return Err(Flaw::TokenOrder { before, behind });
        }
        if !rows.iter().all(|number| number.is_finite()) {
            return Err(Flaw::NotFinite { tensor: ROWS });
        }
        Ok(Self { ids, rows })
    }

    /// How many tokens have rows of their own.
    pub fn common(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn read(file: &Reader) -> Result<Self, Flaw> {
        let [count] = file.shape(IDS)?;
        let ids = file.read(IDS, &[count])?;
        Self::new(ids, file.read(ROWS, &[count.saturating_add(1), TOKEN_WIDTH])?)
    }

    pub(crate) fn write(&self, file: &mut Writer) {
        file.add(IDS, &[self.ids.len()], &self.ids);
        file.add(ROWS, &[self.ids.len() + 1, TOKEN_WIDTH], &self.rows);
    }

    /// The numbers of a token; where there is none, those of all that are not common.
    pub(crate) fn row(&self, token: Option<Token>) -> &[f16] {
        let id = token.and_then(|Token(id)| i32::try_from(id).ok());
        let place = id.and_then(|id| self.ids.binary_search(&id).ok()).map_or(0, |i| i + 1);
        self.rows.chunks_exact(TOKEN_WIDTH).nth(place).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Each row holds its place throughout.
    pub(crate) fn table(ids: &[i32]) -> TokenTable {
        let rows = (0..=ids.len()).flat_map(|row| [f16::from_f32(row as f32); TOKEN_WIDTH]);
        TokenTable::new(ids.to_vec(), rows.collect()).unwrap()
    }

    #[test]
    fn every_token_has_its_row_and_all_others_share_one() {
        let table = table(&[2, 5, 1_000_000]);
        let row = |id| table.row(id)[TOKEN_WIDTH - 1].to_f32();
        assert_eq!(table.common(), 3);
        for (id, expected) in [(2, 1.0), (5, 2.0), (1_000_000, 3.0), (0, 0.0), (3, 0.0)] {
            assert_eq!(row(Some(Token(id))), expected, "{id}");
        }
        assert_eq!((row(Some(Token(u32::MAX))), row(None)), (0.0, 0.0));
        assert_eq!(self::table(&[]).row(Some(Token(0))).len(), TOKEN_WIDTH);
    }

    #[test]
    fn ids_in_disorder_and_rows_too_few_are_refused() {
        let new = |ids: &[i32], rows: usize| {
            let number = f16::from_f32(1.0);
            TokenTable::new(ids.to_vec(), vec![number; rows * TOKEN_WIDTH]).unwrap_err().to_string()
        };
        assert!(new(&[3, 2], 3).contains("3 before 2"));
        assert!(new(&[4, 4], 3).contains("4 before 4"));
        assert!(new(&[-1, 4], 3).contains("-1"));
        assert!(new(&[1, 2], 2).contains("64 numbers in table where 96"));
        let rows = vec![f16::INFINITY; TOKEN_WIDTH];
        assert!(TokenTable::new(vec![], rows).unwrap_err().to_string().contains("table"));
    }
}
