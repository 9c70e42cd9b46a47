//! Drafts that stand where the cloud finds them likely enough: the same text as of a rule that is applied
//! position by position.
#![allow(clippy::unwrap_used)]

use tandem_decode::{
    CloudError, Exchange, Limits, Sampling, SessionError, SessionInput, Source, Token, Verify,
    Vocabulary,
    fake::{FakeCloud, FakeEdge, FakeModel},
    sampling::{argmax, logprob},
};

const PIECES: &[&str] = &[" the", " cat", " sat", ".", " on", " a", " mat"];
const LONGEST: usize = 60;

fn models(seed: u64) -> (FakeModel, FakeModel) {
    (FakeModel::new(seed * 2 + 1, PIECES), FakeModel::new(seed * 2 + 2, PIECES))
}

fn input(prompt: Vec<Token>) -> SessionInput {
    let limits = Limits { max_tokens: LONGEST, stops: vec![] };
    SessionInput { prompt, written: vec![], sampling: Sampling::default(), limits }
}

fn oracle(seed: u64, exchange: Exchange, ratio: f32) -> Result<Vec<(Token, Source)>, SessionError> {
    let (small, large) = models(seed);
    let prompt = small.vocabulary.encode(" the cat");
    let cloud = FakeCloud::new(large, prompt.clone(), exchange);
    let verify = Verify::new(FakeEdge::new(small, 200), cloud, input(prompt))?;
    let mut verify = verify.accepting(ratio);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        while verify.next().await?.is_some() {}
        Ok::<_, SessionError>(())
    })?;
    let accepted = verify.transcript().shown();
    Ok(accepted.iter().map(|token| (token.id.unwrap(), token.source)).collect())
}

/// The rule itself.
fn expected(seed: u64, ratio: f32) -> Vec<(Token, Source)> {
    let (small, large) = models(seed);
    let mut context = small.vocabulary.encode(" the cat");
    let mut text = vec![];
    while text.len() < LONGEST {
        let proposed = argmax(&small.logits(&context)).unwrap();
        let logits = large.logits(&context);
        let own = argmax(&logits).unwrap();
        let likely = logprob(&logits, proposed) - logprob(&logits, own) >= ratio.ln();
        let (token, source) = if likely { (proposed, Source::Edge) } else { (own, Source::Cloud) };
        if small.vocabulary.is_end(token) {
            break;
        }
        text.push((token, source));
        context.push(token);
    }
    text
}

#[test]
fn it_takes_the_clouds_token_where_the_proposal_is_unlikely() {
    let mut shares = vec![];
    for ratio in [0.05, 0.15, 0.3, 0.6, 1.0] {
        let (mut asked, mut all) = (0, 0);
        for seed in 0..60 {
            let text = oracle(seed, Exchange::Ids, ratio).unwrap();
            assert_eq!(text, expected(seed, ratio), "{seed} {ratio}");
            asked += text.iter().filter(|(_, source)| *source == Source::Cloud).count();
            all += text.len();
        }
        shares.push(asked as f64 / all as f64);
    }
    assert!(shares.is_sorted(), "the stricter, the more: {shares:?}");
    assert!(shares[0] > 0.05 && shares[0] < shares[4] - 0.2, "{shares:?}");
}

#[test]
fn it_refuses_a_cloud_that_cannot_tell() {
    let refused = oracle(1, Exchange::Text, 0.3).unwrap_err();
    assert!(
        matches!(refused, SessionError::Cloud(CloudError::Unsupported { .. })),
        "another vocabulary: {refused}"
    );
    // Where nothing but the cloud's own choice stands, likelihoods are not needed.
    assert!(oracle(1, Exchange::Text, 1.0).is_ok());
}
