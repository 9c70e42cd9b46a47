//! The session protocol with the real small model, every test over HTTP and in the same process.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant};

use cloud::{
    Opening, Remote, Settings,
    protocol::{
        Amount, FinishReason, NextRequest, NextResponse, OpenRequest, Piece, Prompt, ScoreRequest,
        id_bytes, prefix_hash,
    },
};
use decode::{Ask, Cloud, CloudError, Exchange, Fingerprint, Message, Sampling, Token, Vocabulary};
use engine::{Grammar, LoadOptions};
use tokio::time::timeout;

use crate::common::{
    self, SURE,
    peer::{Peer, Refused, Transport},
    small,
};

/// No answer to this ends within a few tokens.
const LONG: &str = "Tell me a very long story.";

/// Runs each test over both transports.
macro_rules! both {
    ($($test:ident),* $(,)?) => {
        mod http {
            $(#[tokio::test] async fn $test() { super::$test(super::Transport::Http).await; })*
        }
        mod in_process {
            $(#[tokio::test] async fn $test() { super::$test(super::Transport::InProcess).await; })*
        }
    };
}

both!(
    ids_one_at_a_time_are_ids_at_once,
    a_replayed_question_gets_the_same_answer_and_costs_nothing,
    a_lower_position_truncates_and_a_wrong_one_is_refused,
    words_come_whole_and_look_ahead_does_not_stay,
    score_judges_every_token_and_leaves_no_trace,
    the_least_recently_used_session_is_evicted_and_told_so,
    memory_that_is_full_evicts_too,
    a_context_that_fills_up_in_an_answer_ends_it_with_length,
    a_session_ends_when_it_is_closed_or_taken_over,
    what_makes_no_sense_is_refused_and_the_session_lives,
    a_caller_that_goes_away_stops_the_work,
    a_client_survives_eviction_and_loss_of_step,
    a_follow_up_takes_over_the_cache,
    a_client_reads_every_refusal,
    a_deadline_ends_an_ask_and_frees_the_session,
    a_grammar_holds_what_a_session_answers,
);

fn two_sessions() -> LoadOptions {
    LoadOptions { sequences: 2, cells: 2048, ..small() }
}

fn messages(question: &str) -> Prompt {
    Prompt::Messages(vec![Message::user(question)])
}

fn opening(prompt: Prompt) -> OpenRequest {
    OpenRequest { prompt, vocabulary: None, from: None, edge: None, grammar: None }
}

/// Opens a session without an edge's vocabulary: ids travel.
async fn open(peer: &Peer, question: &str) -> String {
    let opened = peer.open(opening(messages(question))).await.unwrap();
    assert_eq!(opened.exchange, Exchange::Ids);
    opened.session
}

/// Opens a session for an edge with another vocabulary: text travels.
async fn open_text(peer: &Peer, text: &str) -> String {
    let vocabulary = Some(Fingerprint("another".into()));
    let open = OpenRequest { vocabulary, ..opening(Prompt::Text(text.into())) };
    let opened = peer.open(open).await.unwrap();
    assert_eq!(opened.exchange, Exchange::Text);
    opened.session
}

fn ids(sequence: u64, before: &[Token], append: &[Token], tokens: usize) -> NextRequest {
    NextRequest {
        sequence,
        position: before.len(),
        hash: prefix_hash(id_bytes(before)),
        append: Piece::Ids(append.to_vec()),
        want: Amount::Tokens(tokens),
        sampling: Sampling::default(),
        edge: None,
    }
}

fn text(sequence: u64, before: &str, append: &str) -> NextRequest {
    NextRequest {
        position: before.len(),
        hash: prefix_hash(before),
        append: Piece::Text(append.into()),
        want: Amount::Word(true),
        ..ids(sequence, &[], &[], 1)
    }
}

fn answered(answer: &NextResponse) -> Vec<Token> {
    answer.tokens.iter().map(|t| t.id.unwrap()).collect()
}

fn joined(answer: &NextResponse) -> String {
    answer.tokens.iter().map(|t| t.text.as_str()).collect()
}

fn refused(answer: Result<NextResponse, Refused>) -> Refused {
    answer.unwrap_err()
}

async fn ids_one_at_a_time_are_ids_at_once(transport: Transport) {
    let peer = Peer::new(transport, two_sessions()).await;
    let id = open(&peer, LONG).await;
    let whole = answered(&peer.next(&id, ids(1, &[], &[], 8)).await.unwrap());
    assert_eq!(whole.len(), 8);

    // The same parts are read: the prompt, and then a token at a time.
    let id = open(&peer, LONG).await;
    let mut single = vec![];
    for sequence in 1..=8 {
        // What the cloud itself wrote need not be sent back.
        let answer = peer.next(&id, ids(sequence, &single, &[], 1)).await.unwrap();
        if sequence > 1 {
            assert_eq!(answer.cost.prefilled, 1, "{answer:?}");
        }
        single.extend(answered(&answer));
    }
    assert_eq!(single, whole);
}

async fn a_replayed_question_gets_the_same_answer_and_costs_nothing(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let id = open(&peer, LONG).await;
    let first = peer.next(&id, ids(7, &[], &[], 3)).await.unwrap();
    let again = peer.next(&id, ids(7, &[], &[], 3)).await.unwrap();
    // Times and counts too: nothing was computed.
    let json = |answer: &NextResponse| serde_json::to_value(answer).unwrap();
    assert_eq!(json(&first), json(&again));
    // An older one is no longer known.
    let stale = refused(peer.next(&id, ids(6, &[], &[], 3)).await);
    assert!(stale.is(409, "conflict"), "{stale:?}");
    assert_eq!(stale.have.unwrap().position, 3);
}

async fn a_lower_position_truncates_and_a_wrong_one_is_refused(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let id = open(&peer, LONG).await;
    let first = answered(&peer.next(&id, ids(1, &[], &[], 4)).await.unwrap());
    // Back to the second token, and on from there: the same tokens come again.
    let again = peer.next(&id, ids(2, &first[..2], &[], 2)).await.unwrap();
    assert_eq!(answered(&again), first[2..]);
    assert_eq!(again.cost.prefilled, 1, "{again:?}");

    let high = [&first[..], &[Token(1), Token(2)]].concat();
    for wrong in [ids(3, &high, &[], 1), ids(4, &[Token(1), Token(2)], &[], 1)] {
        let refusal = refused(peer.next(&id, wrong).await);
        assert!(refusal.is(409, "conflict"), "{refusal:?}");
        let have = refusal.have.unwrap();
        assert_eq!((have.position, have.hash), (4, prefix_hash(id_bytes(&first))));
    }
    // And nothing was lost.
    peer.next(&id, ids(5, &first, &[], 1)).await.unwrap();
}

async fn words_come_whole_and_look_ahead_does_not_stay(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let id = open_text(&peer, "The capital of Italy is Rome. The capital of France is").await;
    let answer = peer.next(&id, text(1, "", "")).await.unwrap();
    assert!(answer.tokens[0].logprob.unwrap().exp() > SURE, "{answer:?}");
    let word = joined(&answer);
    let letters = word.strip_prefix(' ').unwrap_or_else(|| panic!("{word:?}"));
    assert!(letters.len() > 2 && letters.chars().all(char::is_alphabetic), "{word:?}");
    // The word is in the cloud's context, its look-ahead is not: only what is new is read.
    let answer = peer.next(&id, text(2, &word, ". The capital of Spain is")).await.unwrap();
    assert!(answer.cost.prefilled <= 6 + 2, "{answer:?}");
    // A position inside the word is a place like any other.
    peer.next(&id, text(3, &word[..3], "tterdam")).await.unwrap();
    peer.next(&id, text(4, &format!("{}tt", &word[..3]), "")).await.unwrap();
}

async fn score_judges_every_token_and_leaves_no_trace(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let id = open_text(&peer, "The capital of Italy is Rome. The capital of France is").await;
    let score = |continuation| {
        let NextRequest { position, hash, append, .. } = text(0, "", "");
        ScoreRequest { position, hash, append, continuation }
    };
    let continuation = " Paris, as everybody banana";
    let scores = peer.score(&id, score(Piece::Text(continuation.into()))).await.unwrap();
    let tokens = scores.tokens;
    assert_eq!(tokens.iter().map(|t| t.given.text.as_str()).collect::<String>(), continuation);
    // So begun, there is no doubt what comes.
    assert!(tokens[0].greedy.logprob.unwrap().exp() > SURE, "{tokens:?}");
    assert_eq!(tokens[0].greedy.text, " Paris");
    assert_eq!(tokens[0].given.logprob, tokens[0].greedy.logprob);
    assert!(tokens.last().unwrap().given.logprob.unwrap() < -8.0, "{tokens:?}");
    let answer = peer.next(&id, text(1, "", "")).await.unwrap();
    assert_eq!(joined(&answer), " Paris");
    assert_eq!(answer.cost.prefilled, 1, "the context was cached: {answer:?}");
    // Ids where text travels, and nothing at all, are refused.
    for wrong in [Piece::Ids(vec![Token(1)]), Piece::Text(String::new())] {
        let refusal = peer.score(&id, score(wrong)).await.unwrap_err();
        assert!(refusal.is(400, "invalid_request"), "{refusal:?}");
    }
}

async fn the_least_recently_used_session_is_evicted_and_told_so(transport: Transport) {
    let peer = Peer::new(transport, two_sessions()).await;
    let (a, b) = (open(&peer, "One?").await, open(&peer, "Two?").await);
    peer.next(&a, ids(1, &[], &[], 1)).await.unwrap();
    let c = open(&peer, "Three?").await;
    let gone = refused(peer.next(&b, ids(1, &[], &[], 1)).await);
    assert!(gone.is(410, "evicted"), "{gone:?}");
    peer.next(&a, ids(2, &[], &[], 1)).await.unwrap();
    peer.next(&c, ids(1, &[], &[], 1)).await.unwrap();
    let unknown = refused(peer.next("0123", ids(1, &[], &[], 1)).await);
    assert!(unknown.is(404, "unknown_session"), "{unknown:?}");
}

async fn memory_that_is_full_evicts_too(transport: Transport) {
    let options = LoadOptions { sequences: 4, cells: 256, context: 256, ..small() };
    let peer = Peer::new(transport, options).await;
    let long = "word ".repeat(140);
    let (a, b) = (open(&peer, &long).await, open(&peer, &long).await);
    peer.next(&a, ids(1, &[], &[], 1)).await.unwrap();
    peer.next(&b, ids(1, &[], &[], 1)).await.unwrap();
    let gone = refused(peer.next(&a, ids(2, &[], &[], 1)).await);
    assert!(gone.is(410, "evicted"), "{gone:?}");
    // A conversation that fits nowhere is said so.
    let full = peer.open(opening(Prompt::Text("word ".repeat(400)))).await.unwrap_err();
    assert!(full.is(400, "context_full"), "{full:?}");
    let full = refused(peer.next(&b, ids(2, &[], &[Token(100); 200], 1)).await);
    assert!(full.is(400, "context_full"), "{full:?}");
}

async fn a_context_that_fills_up_in_an_answer_ends_it_with_length(transport: Transport) {
    let options = LoadOptions { cells: 256, context: 256, ..small() };
    let peer = Peer::new(transport, options).await;
    let prompt = Prompt::Text("one two three ".repeat(75));
    let id = peer.open(opening(prompt)).await.unwrap().session;
    let answer = peer.next(&id, ids(1, &[], &[], 200)).await.unwrap();
    assert_eq!(answer.finish_reason, Some(FinishReason::Length));
}

async fn a_session_ends_when_it_is_closed_or_taken_over(transport: Transport) {
    let peer = Peer::new(transport, two_sessions()).await;
    let health = peer.health().await;
    assert_eq!((health.loaded, health.sessions), (false, 0));
    let first = open(&peer, LONG).await;
    let answer = peer.next(&first, ids(1, &[], &[], 1)).await.unwrap();
    let read = answer.cost.prefilled;
    // The same beginning again, from the first one's cache.
    let from = Some(first.clone());
    let second = peer.open(OpenRequest { from, ..opening(messages(LONG)) }).await.unwrap();
    assert_ne!(second.session, first);
    let answer = peer.next(&second.session, ids(1, &[], &[], 1)).await.unwrap();
    assert!(answer.cost.prefilled < read, "{answer:?}");
    let gone = refused(peer.next(&first, ids(2, &[], &[], 1)).await);
    assert!(gone.is(404, "unknown_session"), "{gone:?}");
    let health = peer.health().await;
    assert_eq!((health.loaded, health.sessions), (true, 1));

    peer.close(&second.session).await.unwrap();
    let gone = peer.close(&second.session).await.unwrap_err();
    assert!(gone.is(404, "unknown_session"), "{gone:?}");
    assert_eq!(peer.health().await.sessions, 0);
}

async fn what_makes_no_sense_is_refused_and_the_session_lives(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    for prompt in [
        Prompt::Text(String::new()),
        Prompt::Messages(vec![]),
        Prompt::Tokens(vec![Token(99_999_999)]),
    ] {
        let refusal = peer.open(opening(prompt)).await.unwrap_err();
        assert!(refusal.is(400, "invalid_request") && refusal.message.len() > 10, "{refusal:?}");
    }
    let id = open(&peer, "Hello?").await;
    let good = ids(1, &[], &[], 1);
    for wrong in [
        NextRequest { want: Amount::Tokens(0), ..good.clone() },
        NextRequest { want: Amount::Tokens(1_000_000), ..good.clone() },
        NextRequest { want: Amount::Word(true), ..good.clone() },
        NextRequest { append: Piece::Text("hi".into()), ..good.clone() },
        NextRequest { append: Piece::Ids(vec![Token(4_000_000_000)]), ..good.clone() },
        NextRequest { sampling: Sampling { temperature: -1.0, ..good.sampling }, ..good.clone() },
    ] {
        let refusal = refused(peer.next(&id, wrong).await);
        assert!(refusal.is(400, "invalid_request") && refusal.message.len() > 10, "{refusal:?}");
    }
    peer.next(&id, good).await.unwrap();
}

async fn a_caller_that_goes_away_stops_the_work(transport: Transport) {
    let peer = Peer::new(transport, two_sessions()).await;
    let (a, b) = (open(&peer, LONG).await, open(&peer, LONG).await);
    peer.next(&a, ids(1, &[], &[], 1)).await.unwrap();
    let call = peer.next(&a, ids(2, &[], &[], 256));
    assert!(timeout(Duration::from_millis(50), call).await.is_err());
    // The session is free long before the answer could have been written.
    let started = Instant::now();
    peer.next(&a, ids(3, &[], &[], 1)).await.unwrap();
    let freed = started.elapsed();
    let started = Instant::now();
    let whole = peer.next(&b, ids(1, &[], &[], 256)).await.unwrap();
    // How long that takes is this machine's own measure.
    let each = started.elapsed() / whole.tokens.len() as u32;
    assert!(freed < each * 100, "{freed:?}, and {each:?} a token");
}

async fn a_client_survives_eviction_and_loss_of_step(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let sampling = Sampling::default();
    let ask = |tokens| Ask {
        tokens,
        text: "",
        want: decode::AnswerLength::Tokens(1),
        sampling: &sampling,
    };
    // An answer that is begun so has one way to go on, whether it is read at once or in parts.
    let mut mine = peer.remote("Count to twenty.");
    mine.open().await.unwrap();
    let begun = common::edge().await.vocabulary().encode("1, 2, 3, 4, 5, 6, 7, 8, 9");
    let first = mine.next(ask(&begun)).await.unwrap();
    let first = [&begun[..], &[first.tokens[0].id.unwrap()]].concat();
    let second = mine.next(ask(&first)).await.unwrap();
    assert!(second.tokens[0].logprob.unwrap().exp() > SURE, "{second:?}");
    let second = second.tokens[0].id;
    // One sequence only: another session takes it.
    let mut other = peer.remote("Something else?");
    other.open().await.unwrap();
    let again = mine.next(ask(&first)).await.unwrap();
    assert_eq!(again.tokens[0].id, second);
    assert!(again.usage.prefilled > Some(20), "the whole context was read again");
    // Something was accepted that the cloud never wrote.
    let astray = [&first[..], &[Token(100), Token(200)]].concat();
    assert!(mine.next(ask(&astray)).await.is_ok());
    let back = mine.next(ask(&first)).await.unwrap();
    assert_eq!(back.tokens[0].id, second);
    assert!(back.usage.prefilled <= Some(2), "{:?}", back.usage);
}

async fn a_follow_up_takes_over_the_cache(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let sampling = Sampling::default();
    let want = decode::AnswerLength::Tokens(4);
    let ask = Ask { tokens: &[], text: "", want, sampling: &sampling };
    let long = format!("{} What is the capital of France?", "Please think well. ".repeat(20));
    let mut client = peer.remote(&long);
    client.open().await.unwrap();
    let first = client.next(ask).await.unwrap();
    assert!(first.usage.prefilled > Some(80));
    // What the cloud was given is told; what left the device depends on where it is.
    let sent = client.take_sent();
    assert!(sent.text.contains("What is the capital of France?"), "{}", sent.text);
    match transport {
        Transport::Http => assert!(sent.bytes > sent.text.len(), "{}", sent.bytes),
        Transport::InProcess => assert_eq!(sent.bytes, 0),
    }
    let mut messages = common::messages(&long);
    messages.push(Message::assistant(first.text()));
    messages.push(Message::user("And of Italy?"));
    client.reopen(Opening::alone(Prompt::Messages(messages)));
    client.open().await.unwrap();
    let second = client.next(ask).await.unwrap();
    assert!(second.usage.prefilled < Some(30), "{:?}", second.usage);
    assert_eq!(peer.health().await.sessions, 1);
    client.close().await;
    assert_eq!(peer.health().await.sessions, 0);
}

async fn a_client_reads_every_refusal(transport: Transport) {
    let options = LoadOptions { cells: 256, context: 256, ..small() };
    let peer = Peer::new(transport, options).await;
    let open = async |prompt| {
        let mut client = Remote::new(peer.settings(), Opening::alone(prompt)).unwrap();
        client.open().await.map(|_| client)
    };
    let refused = |message: &str| {
        let (message, retry_after) = (message.to_owned(), None);
        CloudError::Refused { status: 400, message, retry_after }
    };
    let error = open(Prompt::Messages(vec![])).await.unwrap_err();
    assert_eq!(error, refused("the prompt is empty"));
    let error = open(Prompt::Text("word ".repeat(400))).await.unwrap_err();
    assert_eq!(error, CloudError::ContextFull);
    let mut client = open(Prompt::Text("word".into())).await.unwrap();
    let sampling = Sampling::default();
    let ask = |tokens, want| Ask { tokens, text: "", want, sampling: &sampling };
    let error = client.next(ask(&[], decode::AnswerLength::Tokens(0))).await.unwrap_err();
    assert_eq!(error, refused("tokens must be from 1 to 256"));
    let error =
        client.next(ask(&[Token(100); 300], decode::AnswerLength::Tokens(1))).await.unwrap_err();
    assert_eq!(error, CloudError::ContextFull);
    assert_eq!(
        client.next(ask(&[], decode::AnswerLength::Tokens(1))).await.unwrap().tokens.len(),
        1
    );
}

async fn a_deadline_ends_an_ask_and_frees_the_session(transport: Transport) {
    let peer = Peer::new(transport, small()).await;
    let opening = Opening::alone(messages(LONG));
    // Opening keeps to the deadline too, and the first one loads the model.
    Remote::new(peer.settings(), opening.clone()).unwrap().open().await.unwrap();
    let deadline = Duration::from_millis(300);
    let settings = Settings { deadline, ..peer.settings() };
    let mut hasty = Remote::new(settings, opening).unwrap();
    hasty.open().await.unwrap();
    let sampling = Sampling::default();
    let want = decode::AnswerLength::Tokens(256);
    let ask = Ask { tokens: &[], text: "", want, sampling: &sampling };
    let started = Instant::now();
    let error = hasty.next(ask).await.unwrap_err();
    assert!(matches!(error, CloudError::TimedOut { after, .. } if after == deadline), "{error}");
    let waited = started.elapsed();
    // The only sequence is free for somebody else: a session that is at work cannot be evicted.
    let started = Instant::now();
    let mut other = peer.remote("Two?");
    other.open().await.unwrap();
    other.next(Ask { want: decode::AnswerLength::Tokens(1), ..ask }).await.unwrap();
    let freed = started.elapsed();
    let started = Instant::now();
    let whole = other.next(ask).await.unwrap();
    let each = started.elapsed() / whole.tokens.len() as u32;
    assert!(waited + freed < deadline + each * 150, "{waited:?} {freed:?}, {each:?} a token");
}

async fn a_grammar_holds_what_a_session_answers(transport: Transport) {
    let peer = Peer::new(transport, two_sessions()).await;
    let held = |form: &str| {
        let grammar = Some(Grammar::Regex(form.into()));
        OpenRequest { grammar, ..opening(messages(LONG)) }
    };
    let id = peer.open(held("[0-9]{3}")).await.unwrap().session;
    let answer = peer.next(&id, ids(1, &[], &[], 8)).await.unwrap();
    let number = joined(&answer);
    assert!(number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()), "{number:?}");
    assert!(matches!(answer.finish_reason, Some(FinishReason::Stop)), "{answer:?}");
    // Without one it tells its story.
    let id = open(&peer, LONG).await;
    let story = peer.next(&id, ids(1, &[], &[], 8)).await.unwrap();
    assert!(story.tokens.len() == 8 && joined(&story).contains(char::is_alphabetic), "{story:?}");
    // Words are held to it too, where text travels.
    let open = OpenRequest {
        vocabulary: Some(Fingerprint("another".into())),
        prompt: Prompt::Text("The capital of France is".into()),
        ..held(" (zebra|quagga)\\.")
    };
    let id = peer.open(open).await.unwrap().session;
    let word = joined(&peer.next(&id, text(1, "", "")).await.unwrap());
    assert!([" zebra", " quagga"].contains(&word.as_str()), "{word:?}");
    // What does not fit the form, or a form that is none, is the edge's to refuse: it is answered.
    for (form, before) in [("[0-9]{3}", answered(&story)), ("(", vec![])] {
        let id = peer.open(held(form)).await.unwrap().session;
        let answer = peer.next(&id, ids(1, &[], &before, 2)).await.unwrap();
        assert_eq!(answer.tokens.len(), 2, "{form}: {answer:?}");
    }
}
