//! Every dialect reads every answer, whatever became of it on the way. What must hold then is here once: for
//! the test beside it and for the fuzz target `dialects`.

use std::time::Duration;

use decode::{Times, Token};
use serde_json::Value;

use super::{Dialect, LlamaServer, OpenAi, Sglang, Vllm};
use crate::protocol::{Health, NextResponse, OpenResponse, ScoreResponse};

/// Reads an answer in every dialect. Says how many of them took it and how many refused it.
pub fn read(bytes: &[u8]) -> (usize, usize) {
    // Tandem's own cloud answers with the protocol's types.
    if let Ok(answer) = serde_json::from_slice::<NextResponse>(bytes) {
        let took = Duration::from_secs(1);
        let Times { cloud_queue, cloud_prefill, cloud_decode, network, .. } =
            crate::tandem::read(answer, took).times;
        let parts = [cloud_queue, cloud_prefill, cloud_decode, network];
        assert!(parts.iter().all(|part| *part <= took), "{parts:?}");
    }
    let _ = serde_json::from_slice::<OpenResponse>(bytes);
    let _ = serde_json::from_slice::<ScoreResponse>(bytes);
    let _ = serde_json::from_slice::<Health>(bytes);
    let Ok(reply) = serde_json::from_slice::<Value>(bytes) else { return (0, 0) };
    let dialects: [&dyn Dialect; 6] = [
        &LlamaServer,
        &Sglang { streaming: false },
        &Sglang { streaming: true },
        &Vllm { model: None, generate: true },
        &Vllm { model: None, generate: false },
        &OpenAi { model: "m".into() },
    ];
    let given: Vec<Token> = (0..6).map(Token).collect();
    let (mut taken, mut refused) = (0, 0);
    for dialect in dialects {
        match dialect.answer(&reply) {
            Ok(answer) => {
                taken += 1;
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
    (taken, refused)
}

#[cfg(test)]
mod tests {
    use decode::mutation;

    /// Answers as the engines give them, one a line.
    const ANSWERS: &str = include_str!("answers.jsonl");

    #[test]
    fn damaged_answers_are_read_or_refused() {
        let corpus: Vec<Vec<u8>> = ANSWERS.lines().map(|line| line.as_bytes().to_vec()).collect();
        let (mut taken, mut refused) = (0, 0);
        mutation::each(&corpus, 20_000, |bytes| {
            let (some, others) = super::read(bytes);
            taken += some;
            refused += others;
        });
        assert!(taken > 1000 && refused > 1000, "{taken} read, {refused} refused");
    }
}
