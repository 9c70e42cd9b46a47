//! Whether an engine's vocabulary and chat template are the edge's.
//!
//! Engines do not name their vocabulary, so it is tried: texts of many kinds must give the same ids
//! there and here, ids from all over the vocabulary the same text, and special tokens the same
//! spelling. A template is the edge's if a conversation in it gives the same ids.

use decode::{CloudError, Message, Token, Vocabulary, common_prefix};

use crate::{EdgeSide, connection::EngineConnection};

/// Texts in which vocabularies differ.
const PROBES: [&str; 8] = [
    "The quick brown fox jumps over 13 lazy dogs.",
    "def area(r):\n    return 3.14159 * r ** 2  # πr²\n",
    "中文，日本語、한국어 и кириллица",
    "🙂 👩\u{200d}🚀 e\u{301} naïve",
    "   \n\n\t x \r\n  y",
    "1234567890 0x7f 1e-9",
    "“quotes” — it's, don't; [a](b)",
    "<tag attr='v'>&amp;</tag> {{ x }} $1",
];

/// How many ids are spelled on both sides.
const SPREAD: usize = 256;

/// The conversation in which templates are compared.
pub fn probe_messages() -> Vec<Message> {
    vec![
        Message::system("You are a careful assistant."),
        Message::user("What is 2+2?"),
        Message::assistant("It is 4."),
        Message::user("And 3+3?"),
    ]
}

/// What the two sides have in common; where they differ, how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Same vocabulary: ids can travel. All below this number mean the same on both sides.
    pub vocabulary: Result<usize, String>,
    pub template: Result<(), String>,
}

pub(crate) async fn compare(
    connection: &EngineConnection,
    edge: &EdgeSide,
) -> Result<Match, CloudError> {
    if !connection.dialect.has_ids() {
        let reason = format!("{} gives no token ids", connection.dialect.engine().title());
        return Ok(Match { vocabulary: Err(reason.clone()), template: Err(reason) });
    }
    let vocabulary = vocabularies(connection, edge).await?;
    let template = match &vocabulary {
        Ok(_) => templates(connection, edge).await?,
        Err(_) => Err("the vocabularies differ".into()),
    };
    Ok(Match { vocabulary, template })
}

async fn vocabularies(
    connection: &EngineConnection,
    edge: &EdgeSide,
) -> Result<Result<usize, String>, CloudError> {
    let vocabulary = edge.vocabulary.as_ref();
    let probe = PROBES.join("\n");
    let (here, there) = (vocabulary.encode(&probe), connection.tokenize(&probe).await?);
    if here != there {
        let at = common_prefix(&here, &there);
        let behind: Vec<u8> = here[at..].iter().flat_map(|&id| vocabulary.piece(id)).collect();
        let behind: String = String::from_utf8_lossy(&behind).chars().take(16).collect();
        return Ok(Err(format!("the same text has other tokens there from {behind:?} on")));
    }
    let words = spread(vocabulary);
    let highest = words.first().map_or(0, |id| id.index() + 1);
    for ids in [words, edge.probe.clone()] {
        let (here, there) = (edge.spelled(&ids), connection.detokenize(&ids).await?);
        // Some tokenizers leave out a space at the beginning.
        if here.trim_start() != there.trim_start() {
            let at = here.chars().zip(there.chars()).take_while(|(a, b)| a == b).count();
            let excerpt = |text: &str| text.chars().skip(at).take(16).collect::<String>();
            let (here, there) = (excerpt(&here), excerpt(&there));
            return Ok(Err(format!("the same ids read {here:?} here and {there:?} there")));
        }
    }
    // What is added behind the words may be added on one side only.
    let last = (highest..vocabulary.used()).rev().map(|id| Token(id as u32));
    let last = last.map(|id| vec![id]).find(|id| !edge.spelled(id).is_empty());
    Ok(Ok(match last {
        Some(last) if connection.detokenize(&last).await? != edge.spelled(&last) => highest,
        _ => vocabulary.used(),
    }))
}

/// Ids from the whole vocabulary that are plain words: engines tidy up around punctuation.
fn spread(vocabulary: &dyn Vocabulary) -> Vec<Token> {
    let is_word = |id: &u32| {
        let piece = vocabulary.piece(Token(*id));
        let word = piece.strip_prefix(b" ").unwrap_or(&piece);
        word.len() > 2 && word.iter().all(u8::is_ascii_alphabetic)
    };
    let size = u32::try_from(vocabulary.used()).unwrap_or(u32::MAX);
    let words: Vec<_> = (0..size).filter(is_word).map(Token).collect();
    let step = (words.len() / SPREAD).max(1);
    // From the end, so that the highest is among them.
    words.into_iter().rev().step_by(step).collect()
}

async fn templates(
    connection: &EngineConnection,
    edge: &EdgeSide,
) -> Result<Result<(), String>, CloudError> {
    let there = match connection.template(&probe_messages()).await? {
        Some(templated) => connection.ids_of(templated).await?,
        None => return Ok(Err("the engine does not show its template".into())),
    };
    if there == edge.probe {
        return Ok(Ok(()));
    }
    let at = common_prefix(&there, &edge.probe);
    Ok(Err(format!(
        "a conversation is {} tokens here and {} there, the first {at} alike",
        edge.probe.len(),
        there.len()
    )))
}

#[cfg(test)]
mod tests {
    use decode::fake::FakeVocabulary;

    use super::*;

    #[test]
    fn the_spread_reaches_the_highest_word() {
        let words: Vec<String> =
            (0..1000).map(|i| format!(" w{}", "x".repeat(i % 7 + 3))).collect();
        let pieces: Vec<&str> = words.iter().map(String::as_str).chain(["!!"]).collect();
        let ids = spread(&FakeVocabulary::new(&pieces));
        assert!(ids.len() >= SPREAD && ids.len() < 2 * SPREAD, "{}", ids.len());
        assert_eq!(ids[0], Token(1 + 256 + 999));
    }
}
