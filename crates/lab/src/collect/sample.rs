//! What collecting keeps of one position, and files of many.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use half::f16;
use thiserror::Error;

use decode::Score;
use router::{
    FEATURES, Malformed, Mlp, Seen, atomic,
    tensors::{Reader, Writer},
};

/// One position at which the edge proposed a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub hidden: Vec<f16>,
    /// The shape of its distribution; see [`features`](mod@router::features).
    pub features: [f32; FEATURES],
    /// Whether keeping its token was right.
    pub label: Label,
    pub label_source: LabelSource,
    /// The edge's log-probability of the reference's token; NaN when unknown.
    pub edge_logprob: f32,
    /// The cloud's log-probability of the reference's next word or token; NaN when unknown.
    pub cloud_logprob: f32,
    /// Whether the cloud's greedy continuation is the edge's own token; `None` when unknown.
    pub agrees: Option<bool>,
    /// Which example it is from: examples, not positions, are split for training.
    pub example: u32,
    pub position: u32,
}

impl Sample {
    /// The score by a router that reads no tokens: samples do not hold any.
    pub fn score(&self, router: &Mlp) -> Score {
        let hidden: Vec<f32> = self.hidden.iter().map(|x| x.to_f32()).collect();
        router.score_state(&hidden, || Seen { features: self.features, ..Seen::default() })
    }
}

/// What the router should have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Keeping the edge's token is right.
    Trust,
    /// The cloud should have been asked.
    Ask,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelSource {
    /// The edge's greedy token is the reference's.
    Edge,
    /// Only the cloud's is.
    Cloud,
    /// Neither is; unknown until rolled out.
    Neither,
    /// The edge's is not, and rolling its token out told whether it does harm.
    RollOut,
    /// On the way of a joint decode.
    Joint,
    /// Live use: whether the cloud agrees, and nothing else, is known.
    Traffic,
    /// The two part, and how likely the cloud finds the edge's token told whether it does harm.
    Likelihood,
}

/// A shard that cannot be read or written; every message names the file.
#[derive(Debug, Error)]
pub enum SampleError {
    #[error("cannot {action} the samples {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the samples {} cannot be used: {why}", path.display())]
    Malformed { path: PathBuf, why: Malformed },
    #[error(
        "the samples {} are of format {found}, and this program reads {FORMAT}: \
         collect them again with this program", path.display()
    )]
    Format { path: PathBuf, found: String },
    #[error(
        "the samples {} are damaged: {field} {value} means nothing; delete the file and collect \
         again", path.display()
    )]
    Code { path: PathBuf, field: &'static str, value: u8 },
    #[error(
        "cannot write the samples {}: a hidden state has {found} numbers where the model's has \
         {wanted}: keep the samples of different models apart", path.display()
    )]
    HiddenSize { path: PathBuf, wanted: usize, found: usize },
}

const KEY: &str = "tandem.samples";
const FORMAT: &str = "1";

const LABELS: [Label; 3] = [Label::Trust, Label::Ask, Label::Unknown];
const LABEL_SOURCES: [LabelSource; 7] = [
    LabelSource::Edge,
    LabelSource::Cloud,
    LabelSource::Neither,
    LabelSource::RollOut,
    LabelSource::Joint,
    LabelSource::Traffic,
    LabelSource::Likelihood,
];
const AGREES: [Option<bool>; 3] = [Some(false), Some(true), None];

/// The place in one of the lists above, which is what the file holds.
fn code<T: PartialEq>(codes: &[T], value: &T) -> u8 {
    codes.iter().position(|code| code == value).map_or(u8::MAX, |place| place as u8)
}

/// Writes a file of samples, all with hidden states of this length. None at all is a valid file.
pub fn write_shard(path: &Path, hidden_len: usize, samples: &[Sample]) -> Result<(), SampleError> {
    if let Some(other) = samples.iter().find(|sample| sample.hidden.len() != hidden_len) {
        let (path, found) = (path.to_owned(), other.hidden.len());
        return Err(SampleError::HiddenSize { path, wanted: hidden_len, found });
    }
    let n = samples.len();
    let mut hidden = Vec::with_capacity(n * hidden_len);
    samples.iter().for_each(|sample| hidden.extend_from_slice(&sample.hidden));
    let features: Vec<f32> = samples.iter().flat_map(|sample| sample.features).collect();

    let mut file = Writer::new(KEY, FORMAT.into());
    file.add("hidden", &[n, hidden_len], &hidden);
    file.add("features", &[n, FEATURES], &features);
    file.add("label", &[n], &column(samples, |s| code(&LABELS, &s.label)));
    file.add("found", &[n], &column(samples, |s| code(&LABEL_SOURCES, &s.label_source)));
    file.add("agrees", &[n], &column(samples, |s| code(&AGREES, &s.agrees)));
    file.add("edge_logprob", &[n], &column(samples, |s| s.edge_logprob));
    file.add("cloud_logprob", &[n], &column(samples, |s| s.cloud_logprob));
    file.add("example", &[n], &column(samples, |s| s.example));
    file.add("position", &[n], &column(samples, |s| s.position));
    let bytes =
        file.bytes().map_err(|why| SampleError::Malformed { path: path.to_owned(), why })?;
    atomic::write(path, &bytes).map_err(|source| io_error("write", path, source))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> SampleError {
    SampleError::Io { action, path: path.to_owned(), source }
}

fn column<T>(samples: &[Sample], field: impl Fn(&Sample) -> T) -> Vec<T> {
    samples.iter().map(field).collect()
}

pub fn read_shard(path: &Path) -> Result<Vec<Sample>, SampleError> {
    parse(path, &fs::read(path).map_err(|source| io_error("read", path, source))?)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Sample>, SampleError> {
    let malformed = |why| SampleError::Malformed { path: path.to_owned(), why };
    let file = Reader::new(bytes).map_err(malformed)?;
    let found = file.metadata(KEY).unwrap_or("(none)");
    if found != FORMAT {
        return Err(SampleError::Format { path: path.to_owned(), found: found.into() });
    }
    let [n, hidden_len] = file.shape("hidden").map_err(malformed)?;
    let hidden: Vec<f16> = file.read("hidden", &[n, hidden_len]).map_err(malformed)?;
    let features: Vec<f32> = file.read("features", &[n, FEATURES]).map_err(malformed)?;
    let label: Vec<u8> = file.read("label", &[n]).map_err(malformed)?;
    let found: Vec<u8> = file.read("found", &[n]).map_err(malformed)?;
    let agrees: Vec<u8> = file.read("agrees", &[n]).map_err(malformed)?;
    let edge_logprob: Vec<f32> = file.read("edge_logprob", &[n]).map_err(malformed)?;
    let cloud_logprob: Vec<f32> = file.read("cloud_logprob", &[n]).map_err(malformed)?;
    let example: Vec<u32> = file.read("example", &[n]).map_err(malformed)?;
    let position: Vec<u32> = file.read("position", &[n]).map_err(malformed)?;

    let unknown = |(field, value)| SampleError::Code { path: path.to_owned(), field, value };
    let (features, _) = features.as_chunks::<FEATURES>();
    let sample = |i: usize| {
        Ok(Sample {
            hidden: hidden[i * hidden_len..(i + 1) * hidden_len].to_vec(),
            features: features[i],
            label: decode(&LABELS, "label", label[i]).map_err(unknown)?,
            label_source: decode(&LABEL_SOURCES, "found", found[i]).map_err(unknown)?,
            agrees: decode(&AGREES, "agrees", agrees[i]).map_err(unknown)?,
            edge_logprob: edge_logprob[i],
            cloud_logprob: cloud_logprob[i],
            example: example[i],
            position: position[i],
        })
    };
    (0..n).map(sample).collect()
}

fn decode<T: Copy>(codes: &[T], field: &'static str, value: u8) -> Result<T, (&'static str, u8)> {
    codes.get(usize::from(value)).copied().ok_or((field, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(i: u32) -> Sample {
        Sample {
            hidden: (0..5).map(|d| f16::from_f32((i * 5 + d) as f32 / 7.0)).collect(),
            features: [i as f32 / 10.0; FEATURES],
            label: LABELS[i as usize % 3],
            label_source: LABEL_SOURCES[i as usize % 7],
            edge_logprob: -(i as f32),
            cloud_logprob: -2.0,
            agrees: AGREES[(i as usize / 2) % 3],
            example: i / 4,
            position: i % 4,
        }
    }

    #[test]
    fn a_shard_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.safetensors");
        for n in [0, 1, 40] {
            let samples: Vec<Sample> = (0..n).map(sample).collect();
            write_shard(&path, 5, &samples).unwrap();
            assert_eq!(read_shard(&path).unwrap(), samples);
        }
        let unknown = Sample { cloud_logprob: f32::NAN, ..sample(1) };
        write_shard(&path, 5, &[unknown]).unwrap();
        assert!(read_shard(&path).unwrap()[0].cloud_logprob.is_nan());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_or_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some-shard");
        let errors = [
            write_shard(&path, 6, &[sample(0)]).unwrap_err(),
            write_shard(&folder.path().join("absent/some-shard"), 5, &[]).unwrap_err(),
            read_shard(&path).unwrap_err(),
            parse(&path, b"").unwrap_err(),
            parse(&path, b"not a tensor in sight").unwrap_err(),
            parse(&path, &Writer::new(KEY, "2".into()).bytes().unwrap()).unwrap_err(),
            parse(&path, &Writer::new(KEY, FORMAT.into()).bytes().unwrap()).unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("some-shard"), "{error}");
        }
    }

    #[test]
    fn shards_with_other_headers_are_errors_or_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        write_shard(&path, 5, &(0..3).map(sample).collect::<Vec<_>>()).unwrap();
        let corpus = [fs::read(&path).unwrap()];
        decode::mutation::each(&corpus, 20_000, |bytes| {
            if let Ok(samples) = parse(&path, bytes) {
                assert!(samples.len() <= bytes.len());
            }
        });
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shard");
        write_shard(&path, 5, &(0..3).map(sample).collect::<Vec<_>>()).unwrap();
        let bytes = fs::read(&path).unwrap();
        for end in 0..bytes.len() {
            assert!(parse(&path, &bytes[..end]).is_err(), "{end}");
        }
        for place in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[place] ^= flip;
                // A changed number may still be a number; nothing may panic.
                let _ = parse(&path, &flipped);
            }
        }
        let mut label = bytes.clone();
        let last = label.len() - 1;
        label[last] = 9;
        assert!(matches!(parse(&path, &label), Err(SampleError::Code { .. })));
    }
}
