//! Damaged model files: an error or one clear line, and never a signal.

use std::{fs, path::Path};

use decode::{Edge, Token};
use tandem_engine::{Adapter, Compute, LoadOptions, Model};

use crate::{
    child,
    gguf::{self, Value},
};

/// A file whose metadata is not what llama.cpp expects, number by number.
fn wrong_metadata(path: &Path, number: usize) -> bool {
    let (many, huge) = (Value::Count(1_000_000), Value::Count(u32::MAX));
    let wrong: &[(&str, Value)] = &[
        ("llama.attention.head_count", Value::Count(0)),
        ("llama.attention.head_count", many.clone()),
        ("llama.attention.head_count_kv", Value::Count(0)),
        ("llama.attention.head_count_kv", Value::Count(7)),
        ("llama.attention.key_length", Value::Count(0)),
        ("llama.attention.key_length", huge.clone()),
        ("llama.attention.key_length", Value::Long(1 << 40)),
        ("llama.block_count", Value::Long(1 << 40)),
        ("llama.embedding_length", Value::Long(u64::MAX)),
        ("llama.attention.layer_norm_rms_epsilon", Value::Text("small")),
        ("llama.block_count", Value::Count(0)),
        ("llama.block_count", many.clone()),
        ("llama.block_count", huge.clone()),
        ("llama.embedding_length", Value::Count(0)),
        ("llama.embedding_length", Value::Count(33)),
        ("llama.embedding_length", huge.clone()),
        ("llama.feed_forward_length", Value::Count(0)),
        ("llama.feed_forward_length", huge.clone()),
        ("llama.context_length", Value::Count(0)),
        ("llama.context_length", huge.clone()),
        ("llama.expert_count", huge.clone()),
        ("llama.expert_used_count", many.clone()),
        ("llama.rope.dimension_count", Value::Count(0)),
        ("llama.rope.dimension_count", huge.clone()),
        ("llama.vocab_size", huge.clone()),
        ("tokenizer.ggml.eos_token_id", huge.clone()),
        ("tokenizer.ggml.bos_token_id", many),
        ("tokenizer.ggml.model", Value::Text("nonsense")),
        ("tokenizer.ggml.model", Value::Text("llama")),
        ("tokenizer.ggml.model", Value::Text("bert")),
        ("tokenizer.ggml.model", Value::Text("t5")),
        ("tokenizer.ggml.model", Value::Text("rwkv")),
        ("tokenizer.ggml.pre", Value::Text("nonsense")),
        ("tokenizer.ggml.tokens", Value::Texts(vec!["same".into(); 258])),
        ("tokenizer.ggml.tokens", Value::Texts(vec![])),
        ("tokenizer.ggml.tokens", Value::Text("none")),
        ("tokenizer.ggml.token_type", Value::Counts(vec![1; 3])),
        ("tokenizer.ggml.token_type", Value::Counts(vec![99; 258])),
        ("tokenizer.ggml.merges", Value::Texts(vec!["alone".into()])),
        ("tokenizer.ggml.merges", Value::Texts(vec![String::new()])),
        ("tokenizer.ggml.merges", Value::Count(1)),
    ];
    let Some((key, value)) = wrong.get(number) else { return false };
    let mut metadata = gguf::metadata("default");
    metadata.retain(|(name, _)| name != key);
    metadata.push((key, value.clone()));
    gguf::write(path, &metadata, &gguf::weights());
    true
}

/// A good file with a bias that the model has no place for, number by number.
fn wrong_bias(path: &Path, number: usize) -> bool {
    let Some(&length) = [0, 1, 7, 33, 4096].get(number) else { return false };
    let mut tensors = gguf::weights();
    let (name, data) = ("blk.0.attn_q.bias".to_owned(), vec![0.5; length as usize]);
    tensors.push(gguf::Tensor { name, shape: vec![length], data });
    gguf::write(path, &gguf::metadata("default"), &tensors);
    true
}

/// A LoRA that damages, cuts or widens what it is to change, number by number.
fn wrong_adapter(path: &Path, number: usize) -> bool {
    match number {
        0 => gguf::lora(path, "llama", gguf::WIDTH + 1),
        1 => gguf::lora(path, "alien", gguf::WIDTH),
        2..60 => {
            gguf::lora(path, "llama", gguf::WIDTH);
            let corpus = [fs::read(path).unwrap()];
            fs::write(path, decode::mutation::input(&corpus, number)).unwrap();
        }
        _ => return false,
    }
    true
}

/// A good file, cut off or with bytes of its header overwritten, number by number.
fn damaged(path: &Path, number: usize) -> bool {
    gguf::model(path, "default");
    let mut bytes = fs::read(path).unwrap();
    match number {
        0..16 => bytes.truncate(bytes.len() * number / 16),
        16..80 => {
            // The header is the first six kilobytes.
            for i in 0..3 {
                let draw = decode::sampling::hash(number as u64, i);
                let at = 4 + (draw >> 16) as usize % 6000.min(bytes.len() - 4);
                bytes[at] = [0, 0xff, 0x7f, 0x80, draw as u8][(draw >> 8) as usize % 5];
            }
        }
        _ => return false,
    }
    fs::write(path, bytes).unwrap();
    true
}

/// Loads the file as an adapter of a good model, and reads with that.
fn use_adapter(path: &Path) -> String {
    let model = path.with_file_name("good.gguf");
    gguf::model(&model, "default");
    let adapters = vec![Adapter { path: path.to_owned(), scale: 1.0 }];
    use_options(LoadOptions { adapters, ..LoadOptions::new(&model, 64, 1) })
}

fn use_model(path: &Path) -> String {
    use_options(LoadOptions::new(path, 64, 1))
}

/// Loads a model and reads a few tokens with it, whatever comes of that.
fn use_options(options: LoadOptions) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let compute = Compute::start().unwrap();
    let outcome = runtime.block_on(async {
        let model = Model::load(&compute, options).await?;
        let tokens = model.vocabulary().raw_prompt("ab 7\n")?;
        let ids: Vec<_> = tokens.into_iter().filter(|t| *t < Token(200)).take(8).collect();
        let mut sequence = model.open().await?;
        let read = if ids.is_empty() { vec![Token(1)] } else { ids };
        sequence.read(&read, true).await?;
        Ok::<_, tandem_engine::EngineError>(sequence.held().len())
    });
    assert!(!compute.has_failed(), "the compute thread panicked");
    match outcome {
        Ok(tokens) => format!("read {tokens} tokens"),
        Err(error) => format!("refused: {error}"),
    }
}

fn each_alone(test: &str, make: fn(&Path, usize) -> bool, try_out: fn(&Path) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    if let Some(first) = child::argument() {
        let first: usize = first.parse().unwrap();
        for number in (first..).take_while(|&number| make(&path, number)) {
            eprintln!("number {number}");
            eprintln!("{}", try_out(&path));
        }
        return;
    }
    // A child goes on until a file ends it; the next goes on behind that file.
    let (mut next, mut ended) = (0, 0);
    loop {
        let output = child::run(test, &next.to_string());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            break;
        }
        let reached = errors.lines().rev().find_map(|line| line.strip_prefix("number "));
        let reached: usize = reached.unwrap_or_else(|| panic!("{errors}")).parse().unwrap();
        let tail: Vec<_> =
            errors.lines().skip_while(|l| *l != format!("number {reached}")).collect();
        assert_eq!(output.status.code(), Some(1), "{}: {tail:#?}", output.status);
        let said = tail.iter().filter(|line| line.starts_with("error: llama.cpp cannot go on"));
        assert_eq!(said.count(), 1, "{tail:#?}");
        (next, ended) = (reached + 1, ended + 1);
    }
    println!("{ended} files ended the process with a line");
}

#[test]
fn wrong_metadata_is_refused_or_ends_with_a_line() {
    each_alone("damage::wrong_metadata_is_refused_or_ends_with_a_line", wrong_metadata, use_model);
}

#[test]
fn damaged_files_are_refused_or_end_with_a_line() {
    each_alone("damage::damaged_files_are_refused_or_end_with_a_line", damaged, use_model);
}

#[test]
fn a_bias_of_another_length_is_refused() {
    each_alone("damage::a_bias_of_another_length_is_refused", wrong_bias, use_model);
}

#[test]
fn damaged_adapters_are_refused_or_end_with_a_line() {
    each_alone(
        "damage::damaged_adapters_are_refused_or_end_with_a_line",
        wrong_adapter,
        use_adapter,
    );
}
