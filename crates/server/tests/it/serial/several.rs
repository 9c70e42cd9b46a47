//! Several clouds with real models and real engines.

use std::sync::Arc;

use cloud::{CloudGroup, Clouds, Endpoint, Opening, Settings, protocol::Prompt};
use decode::{AnswerLength, Ask, Cloud, CloudError, Exchange, Sampling};
use models::Role;

use crate::{
    common::{edge, edge_side, large, llama_server::LlamaServer, messages, model_file, small},
    several::{CloudProxy, LinkState},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn llama_server_takes_over_from_tandem_cloud_and_another_model_does_not() {
    let ours = CloudProxy::to(small()).await;
    let engine = LlamaServer::start(&model_file(Role::Edge));
    let (address, key) = (engine.url().parse().unwrap(), Some("sesame".parse().unwrap()));
    let theirs = Endpoint { address, key, authority: None };
    let other = CloudProxy::to(large()).await;
    let clouds = [ours.endpoint.clone(), theirs, other.endpoint.clone()];
    let group = Arc::new(CloudGroup::new(clouds.map(Settings::new).to_vec()));
    group.prove(0).await.unwrap();
    // Two builds of llama.cpp with one file.
    group.prove(1).await.unwrap();
    let refused = group.prove(2).await.unwrap_err();
    println!("{refused}");
    assert!(matches!(refused, CloudError::AnotherModel { .. }), "{refused}");
    let messages = messages("Tell me a long story about the sea.");
    let edge = Some(edge_side(&edge().await, &messages));
    let opening =
        Opening { prompt: Prompt::Messages(messages), edge, rendered: None, grammar: None };
    let mut clouds = Clouds::new(group, opening).unwrap();
    assert_eq!(clouds.open().await.unwrap().exchange, Exchange::Ids);
    let (mut tokens, mut text, mut by) = (vec![], String::new(), vec![]);
    let (want, sampling) = (AnswerLength::Tokens(1), Sampling::default());
    for number in 0..16 {
        if number == 8 {
            ours.set(LinkState::Cut);
        }
        let ask = Ask { tokens: &tokens, text: &text, want, sampling: &sampling };
        let answer = clouds.next(ask).await.unwrap();
        by.extend(answer.usage.answered_by);
        text += &answer.text();
        tokens.extend(answer.tokens.iter().filter_map(|token| token.id));
    }
    println!("{text:?} by {by:?}");
    assert_eq!(by, [[1; 8], [2; 8]].concat());
}
