//! What the log does not tell.

use std::{
    io,
    sync::{Arc, Mutex},
};

use cloud::{Opening, Remote, protocol::Prompt};
use decode::{AnswerLength, Ask, Cloud, Sampling};
use tandem_server::cloud::Config;
use tracing_subscriber::fmt::MakeWriter;

use crate::common::{self, tiny};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A session's id is the right to use it: whoever reads the log must not get that.
#[tokio::test]
async fn neither_side_writes_the_whole_id_of_a_session() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // Everything here runs on this thread.
    let _listening = tracing::subscriber::set_default(subscriber);
    let home = tempfile::tempdir().unwrap();
    let options = tiny::model(&home.path().join("tiny.gguf"), 5);
    // Room for one: the second conversation evicts the first, which is opened again.
    let address = common::start(options, Config::default()).await;
    let remote = |text: &str| {
        let opening = Opening::alone(Prompt::Text(text.into()));
        Remote::new(common::settings(&address), opening).unwrap()
    };
    let sampling = Sampling::default();
    let want = AnswerLength::Tokens(1);
    let ask = || Ask { tokens: &[], text: "", want, sampling: &sampling };
    let (mut first, mut second) = (remote("ab"), remote("ba"));
    for remote in [&mut first, &mut second] {
        remote.open().await.unwrap();
        remote.next(ask()).await.unwrap();
    }
    first.next(ask()).await.unwrap();
    first.close().await;
    second.close().await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(
        text.contains("cloud session opened") && text.contains("evicted to make room"),
        "{text}"
    );
    // Ids are 32 hexadecimal digits.
    let digits = |word: &str| word.len() >= 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let told = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| digits(word));
    assert_eq!(told, None, "{text}");
}
