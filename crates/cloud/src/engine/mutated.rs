//! Every dialect reads every answer, whatever became of it on the way.

use decode::{Token, mutation};
use serde_json::Value;

use super::{Dialect, LlamaServer, OpenAi, Sglang, Vllm};

/// Answers as the engines give them, one a line.
const ANSWERS: &str = include_str!("answers.jsonl");

#[test]
fn damaged_answers_are_read_or_refused() {
    let corpus: Vec<Vec<u8>> = ANSWERS.lines().map(|line| line.as_bytes().to_vec()).collect();
    let dialects: [&dyn Dialect; 6] = [
        &LlamaServer,
        &Sglang { streaming: false },
        &Sglang { streaming: true },
        &Vllm { model: None, generate: true },
        &Vllm { model: None, generate: false },
        &OpenAi { model: "m".into() },
    ];
    let given: Vec<Token> = (0..6).map(Token).collect();
    let (mut read, mut refused) = (0, 0);
    mutation::each(&corpus, 20_000, |bytes| {
        let Ok(reply) = serde_json::from_slice::<Value>(bytes) else { return };
        for dialect in dialects {
            match dialect.answer(&reply) {
                Ok(answer) => {
                    read += 1;
                    let tokens = answer.ids.as_ref().map_or(0, Vec::len);
                    assert!(tokens <= bytes.len(), "more tokens than bytes");
                    if let Some(ids) = &answer.ids {
                        assert!(answer.logprobs.len() <= ids.len().max(answer.usage.decoded));
                    }
                }
                Err(_) => refused += 1,
            }
            let _ = dialect.answers(&reply);
            let _ = (dialect.tokens(&reply), dialect.text(&reply), dialect.templated(&reply));
            for from in [0, 3, 6, 7] {
                if let Ok(scores) = dialect.scores(&reply, &given, from) {
                    // One for every token that was to be judged, and no other.
                    assert_eq!(scores.len(), given.len().saturating_sub(from));
                }
            }
        }
    });
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused");
}
