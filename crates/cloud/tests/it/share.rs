//! An edge that would share its states, and engines that take none.
#![allow(clippy::unwrap_used, clippy::panic)]

use decode::{AnswerLength, Ask, Cloud, Exchange, Reading, Sampling, Step, Token};
use tandem_cloud::protocol::EdgeModel;

use crate::common::{Dialect, Fake};

#[tokio::test]
async fn no_engine_but_ours_is_sent_a_state() {
    let step = Step {
        position: 1,
        logits: vec![0.0; 64],
        hidden: vec![1.0; 64],
        proposed: Token(5),
        reading: Reading::default(),
    };
    let offer = EdgeModel { name: "small".into(), fingerprint: "f".into(), hidden: 64 };
    for dialect in Dialect::ALL {
        let fake = Fake::start(dialect, 3).await;
        let mut answers = vec![];
        for shares in [false, true] {
            let mut remote = fake.remote(fake.settings());
            if shares {
                remote.share(offer.clone());
            }
            let want = match remote.open().await.unwrap().exchange {
                Exchange::Ids => AnswerLength::Tokens(1),
                Exchange::Text => AnswerLength::Word,
            };
            remote.record_step(&step);
            let sampling = Sampling::default();
            let ask = Ask { tokens: &[], text: "", want, sampling: &sampling };
            let answer = remote.next(ask).await.unwrap();
            let sent = remote.take_sent();
            assert!(!sent.text.contains("hidden state"), "{dialect:?}: {}", sent.text);
            answers.push((answer.text(), sent.bytes));
            remote.close().await;
        }
        // A session's name may differ by a digit; a state would take hundreds of bytes.
        let [(plain, few), (shared, as_few)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(plain, shared, "{dialect:?}");
        assert!(few.abs_diff(*as_few) < 8, "{dialect:?}: {few} {as_few}");
    }
}
