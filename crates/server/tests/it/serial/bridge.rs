//! Crossing vocabularies with the real pair.
#![allow(clippy::unwrap_used, clippy::panic)]

use decode::{
    Limits, Message, OnCloudError, Routing, Sampling, Session, SessionInput, Source, Threshold,
    Token, Vocabulary, boundary,
};
use engine::Model;
use router::RouterKind;

use crate::common::{self, Large, SURE, chance, edge, remote};

const TEXTS: &[&str] = &[
    "The capital of France is Paris. It's big, isn't it?",
    "Therefore, the answer is (A) apple (B).",
    "In 1995 there were 3.14 million, i.e. 42% of them!",
    "你好，世界！今天天气很好。",
    "混合 mixed 文字 text，一起 together.",
    "Emoji 😀 and families 👩‍👩‍👧 and flags 🇫🇷🇩🇪.",
    "Combining: cafe\u{301} nai\u{308}ve, precomposed: café naïve.",
    "def f(x):\n    if x > 1:\n        return x * 2\n    return f(x + 1)\n",
    "- one\n- two\n\nAnd \"quoted\" text -- with dashes...",
    "Hindi हिन्दी and Russian по-русски, Ελληνικά.",
];

/// Byte offsets where a word may be asked for.
fn boundaries(text: &str) -> Vec<usize> {
    (0..=text.len()).filter(|&i| text.is_char_boundary(i) && boundary::boundary(text, i)).collect()
}

/// Inside a run of ideographs no tokenizer makes a cut; there the rules say "every character".
fn is_between_ideographs(text: &str, at: usize) -> bool {
    let wide =
        |c: char| ('\u{2e80}'..='\u{9fff}').contains(&c) || c == '，' || c == '！' || c == '。';
    text[..at].chars().next_back().is_some_and(wide) || text[at..].chars().next().is_some_and(wide)
}

fn split_agrees(model: &Model, text: &str, at: usize) -> bool {
    let encode = |t: &str| model.vocabulary().encode(t);
    [encode(&text[..at]), encode(&text[at..])].concat() == encode(text)
}

#[tokio::test]
async fn boundaries_are_boundaries_for_both_tokenizers() {
    let small = edge().await;
    let large = Large::get().await.model;
    assert_ne!(small.vocabulary().fingerprint(), large.vocabulary().fingerprint());
    let mut cuts = 0;
    for text in TEXTS {
        for at in boundaries(text) {
            if is_between_ideographs(text, at) {
                continue;
            }
            // Behind a line's end GPT-2's rules join what follows; the edge has its own tokens
            // there already, so only the cloud has to agree.
            let line = text[..at].ends_with('\n');
            assert!(split_agrees(&large, text, at), "cloud: {:?} | {:?}", &text[..at], &text[at..]);
            let ok = line || split_agrees(&small, text, at);
            assert!(ok, "edge: {:?} | {:?}", &text[..at], &text[at..]);
            cuts += 1;
        }
    }
    assert!(cuts > 120, "{cuts}");
}

#[tokio::test]
async fn every_text_survives_the_way_to_the_edge_word_by_word() {
    let small = edge().await;
    let vocabulary = small.vocabulary();
    for text in TEXTS {
        let (mut start, mut tokens) = (0, vec![]);
        while start < text.len() {
            let end = boundary::word_end(&text[..start], &text[start..])
                .map_or(text.len(), |e| start + e);
            tokens.extend(vocabulary.encode(&text[start..end]));
            start = end;
        }
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| vocabulary.piece(t)).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), *text);
    }
}

struct Run {
    text: String,
    spans: Vec<(Source, String, usize)>,
    prompt_reads: usize,
    excess: i64,
}

/// An answer as far as it is begun, carried on.
async fn joint(
    (question, begun): (&str, &str),
    router: RouterKind,
    tau: f32,
    max_tokens: usize,
) -> Run {
    let small = edge().await;
    let Large { model, cloud: address } = Large::get().await;
    let cloud_vocabulary = model.vocabulary();
    let mut sequence = small.open().await.unwrap();
    let prompt = small.vocabulary().prompt(&common::messages(question)).unwrap();
    let cloud = remote(&address, Some(&small), question);
    let routing = Routing {
        router: router.build(3),
        policy: Threshold::new(tau).unwrap().into(),
        cloud,
        on_error: OnCloudError::Keep,
    };
    let written = small.vocabulary().encode(begun);
    let limits = Limits { max_tokens: written.len() + max_tokens, stops: vec![] };
    let plan =
        SessionInput { prompt: prompt.clone(), written, sampling: Sampling::default(), limits };
    let mut session = Session::new(&mut sequence, Some(routing), plan).unwrap();
    let mut streamed = begun.to_owned();
    let mut spans = vec![];
    let (mut excess, mut since) = (i64::MIN, None::<usize>);
    while let Some(span) = session.next().await.unwrap() {
        let Some(first) = span.tokens.first() else { continue };
        if let Some(usage) = first.cloud {
            // Tokens the cloud needs for what was accepted since the last ask.
            if let Some(since) = since {
                let new = cloud_vocabulary.encode(&streamed[since..]).len();
                excess = excess.max(usage.prefilled.unwrap() as i64 - new as i64);
            }
            since = Some(streamed.len());
        }
        streamed += &span.text();
        spans.push((first.source, span.text(), span.tokens.len()));
    }
    let error = session.cloud_error().cloned();
    assert_eq!(error, None);
    let transcript = session.transcript();
    assert_eq!(streamed, transcript.text());
    let read: Vec<Token> = [prompt.as_slice(), transcript.tokens()].concat();
    let text = transcript.text()[begun.len()..].to_owned();
    drop(session);
    // The edge has read what was accepted, and nothing else.
    assert!(read.starts_with(sequence.tokens()));
    Run { text, spans, prompt_reads: sequence.tokens().len(), excess }
}

#[tokio::test]
async fn words_cross_whole_and_only_what_is_new_is_prefilled() {
    let run = joint(("Explain how rain forms.", ""), RouterKind::Top1, 0.6, 48).await;
    let words: Vec<_> = run.spans.iter().filter(|s| s.0 == Source::Cloud).collect();
    assert!(words.len() >= 3, "{:?}", run.spans);
    let mut text = String::new();
    for (source, span, _) in &run.spans {
        if *source == Source::Cloud {
            assert!(boundary::eligible(&text, span.as_bytes()), "{text:?} {span:?}");
        }
        text += span;
    }
    assert!(run.excess <= 2, "{}", run.excess);
    assert!(run.prompt_reads > 0);
}

#[tokio::test]
async fn a_chinese_answer_crosses() {
    let answer = ("请用中文回答：天空为什么是蓝色的？", "天空是蓝色的，是因为太阳光");
    let is_chinese = |c: &char| ('\u{4e00}'..='\u{9fff}').contains(c);
    let begins_so = |_, piece: &[u8]| {
        str::from_utf8(piece).is_ok_and(|p| p.chars().next().as_ref().is_some_and(is_chinese))
    };
    let sure = chance(&Large::get().await.model, answer.0, answer.1, begins_so).await;
    assert!(sure > SURE, "{sure}");
    let run = joint(answer, RouterKind::Always, 0.5, 30).await;
    let chinese = run.text.chars().filter(is_chinese).count();
    assert!(chinese > 8, "{}", run.text);
    // The limit may cut the last character, which differs from CPU to CPU; no other may be broken.
    let text = run.text.trim_end_matches(char::REPLACEMENT_CHARACTER);
    assert!(!text.contains(char::REPLACEMENT_CHARACTER), "{}", run.text);
}

#[tokio::test]
async fn code_keeps_its_indentation() {
    let question = "Write a Python function that returns the larger of two numbers, with if and else. Only code.";
    let answer = (question, "```python\ndef larger(a, b):\n    if a > b:\n");
    let indents = |_, piece: &[u8]| !piece.is_empty() && piece.iter().all(|byte| *byte == b' ');
    let sure = chance(&Large::get().await.model, answer.0, answer.1, indents).await;
    assert!(sure > SURE, "{sure}");
    let run = joint(answer, RouterKind::Always, 0.5, 30).await;
    assert!(run.text.starts_with("        return a\n    "), "{:?}", run.text);
}

#[tokio::test]
async fn the_clouds_end_of_text_ends_the_text() {
    let answer = ("Say only the word: yes", "yes");
    let large = Large::get().await.model;
    let ends = |token, _: &[u8]| large.vocabulary().is_end(token);
    let sure = chance(&large, answer.0, answer.1, ends).await;
    assert!(sure > SURE, "{sure}");
    let run = joint(answer, RouterKind::Always, 0.5, 60).await;
    assert!(run.text.len() < 20, "{}", run.text);
}

#[tokio::test]
async fn a_conversation_of_many_scripts_reaches_both_sides_unchanged() {
    let small = edge().await;
    let large = Large::get().await.model;
    let messages: Vec<_> = TEXTS.iter().map(|t| Message::user(*t)).collect();
    for model in [&small, &large] {
        let tokens = model.vocabulary().prompt(&messages).unwrap();
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| model.vocabulary().piece(t)).collect();
        let text = String::from_utf8(bytes).unwrap();
        for expected in TEXTS {
            assert!(text.contains(expected), "{expected:?}");
        }
    }
}
