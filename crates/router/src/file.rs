//! The router file: weights and what they are for, as safetensors.
//!
//! Every file that can be read holds weights of the right sizes and only finite numbers, so a
//! router built from one cannot fail later.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use half::f16;
use serde::Deserialize;
use thiserror::Error;

use crate::{
    atomic,
    metadata::{Calibration, FORMAT, Inputs, Metadata},
    tensors::{Malformed, Reader, Writer},
    tokens::TokenTable,
};

const KEY: &str = "tandem.router";

/// No hidden state is so wide that its router needs more; a file above this is something else.
const MAX_BYTES: u64 = 2 << 30;

const NAMES: [(&str, &str); 3] = [("w1", "b1"), ("w2", "b2"), ("w3", "b3")];

#[derive(Clone, Debug, PartialEq)]
pub struct RouterFile {
    path: PathBuf,
    metadata: Metadata,
    layers: [Layer; 3],
    tokens: Option<TokenTable>,
}

/// An affine map.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// One row for each output.
    pub weight: Vec<f16>,
    /// One number for each output.
    pub bias: Vec<f32>,
}

/// A router file that cannot be used.
#[derive(Debug, Error)]
#[error("the router {} {flaw}", path.display())]
pub struct FileError {
    pub path: PathBuf,
    pub flaw: Flaw,
}

/// What is wrong with a router file; reads on after its name.
#[derive(Debug, Error)]
pub enum Flaw {
    #[error("cannot be {action}: {why}")]
    Io { action: &'static str, why: io::Error },
    #[error(
        "is a pickle or a zip file, and pickles are never read, because loading one can run any \
         program: give a router written by `tandem router train`"
    )]
    Pickle,
    #[error(
        "is {bytes} bytes long, far more than a router: give one written by `tandem router train`"
    )]
    TooLarge { bytes: u64 },
    #[error("cannot be used: {0}")]
    Malformed(#[from] Malformed),
    #[error(
        "does not say which model it is for (no metadata {KEY:?}): give one written by `tandem \
         router train`"
    )]
    NoMetadata,
    #[error("has damaged metadata ({why}): copy it again or train it again")]
    Metadata { why: String },
    #[error(
        "is of format {found}, and this program reads formats up to {FORMAT}: update this program, \
         or train the router with it"
    )]
    Future { found: u32 },
    #[error("has {found} numbers in {tensor} where {wanted} are needed: train it again")]
    Size { tensor: &'static str, found: usize, wanted: usize },
    #[error("has a weight in {tensor} that is not a finite number: train it again")]
    NotFinite { tensor: &'static str },
    #[error("has numbers for a token {id}, which no model has: train it again")]
    TokenId { id: i32 },
    #[error("lists its tokens out of order, {before} before {behind}: train it again")]
    TokenOrder { before: i32, behind: i32 },
    #[error("reads {inputs}, and a table of tokens {found}: train it again")]
    Tokens { inputs: Inputs, found: &'static str },
    #[error(
        "was trained for {trained}, and the model here is {here}: their hidden states mean \
         different things. Train one for this model with `tandem router train`, or choose \
         --router top1, which needs no training"
    )]
    WrongModel { trained: String, here: String },
}

impl RouterFile {
    /// Checks that the weights fit the metadata and each other.
    pub fn new(
        metadata: Metadata,
        layers: [Layer; 3],
        tokens: Option<TokenTable>,
    ) -> Result<Self, Flaw> {
        let inputs = metadata.inputs;
        let format = inputs.format();
        if metadata.format != format {
            let found = metadata.format;
            let why = format!("format {found} where {format} is written for {inputs}");
            return Err(Flaw::Metadata { why });
        }
        match (inputs, &tokens) {
            (Inputs::HiddenLogitsTokens, None) => {
                return Err(Flaw::Tokens { inputs, found: "is missing" });
            }
            (Inputs::Hidden | Inputs::HiddenLogits, Some(_)) => {
                return Err(Flaw::Tokens { inputs, found: "is there" });
            }
            _ => {}
        }
        let widths = widths(&metadata)?;
        for (i, (layer, (weight, bias))) in layers.iter().zip(NAMES).enumerate() {
            let size = |tensor, found, wanted| {
                if found == wanted { Ok(()) } else { Err(Flaw::Size { tensor, found, wanted }) }
            };
            size(weight, layer.weight.len(), widths[i].saturating_mul(widths[i + 1]))?;
            size(bias, layer.bias.len(), widths[i + 1])?;
            if !layer.weight.iter().all(|w| w.is_finite()) {
                return Err(Flaw::NotFinite { tensor: weight });
            }
            if !layer.bias.iter().all(|b| b.is_finite()) {
                return Err(Flaw::NotFinite { tensor: bias });
            }
        }
        let damaged = |why: &str| Flaw::Metadata { why: why.into() };
        if !metadata.calibration.valid() {
            return Err(damaged("the calibration is not sorted or outside 0..1"));
        }
        if !metadata.report.valid() {
            return Err(damaged("the report holds what is not a number"));
        }
        Ok(Self { path: PathBuf::from("(not yet written)"), metadata, layers, tokens })
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Its three affine maps; ReLU goes between them.
    pub fn layers(&self) -> &[Layer; 3] {
        &self.layers
    }

    /// What stands for the tokens that it reads.
    pub fn tokens(&self) -> Option<&TokenTable> {
        self.tokens.as_ref()
    }

    /// The same router with other thresholds.
    pub fn with_calibration(mut self, calibration: Calibration) -> Self {
        self.metadata.calibration = calibration;
        self
    }

    pub fn read(path: &Path) -> Result<Self, FileError> {
        let failed = |flaw| FileError { path: path.to_owned(), flaw };
        let io = |why| failed(Flaw::Io { action: "read", why });
        let bytes = fs::metadata(path).map_err(io)?.len();
        if bytes > MAX_BYTES {
            return Err(failed(Flaw::TooLarge { bytes }));
        }
        let file = Self::from_bytes(&fs::read(path).map_err(io)?).map_err(failed)?;
        Ok(Self { path: path.to_owned(), ..file })
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Flaw> {
        let file = match Reader::new(bytes) {
            Ok(file) => file,
            // Only now: the length that safetensors begin with may look the same.
            Err(_) if bytes.starts_with(&[0x80]) || bytes.starts_with(b"PK") => {
                return Err(Flaw::Pickle);
            }
            Err(error) => return Err(error.into()),
        };
        let metadata = parse_metadata(file.metadata(KEY).ok_or(Flaw::NoMetadata)?)?;
        let widths = widths(&metadata)?;
        let mut layers = [const { Layer { weight: vec![], bias: vec![] } }; 3];
        for (i, (layer, (weight, bias))) in layers.iter_mut().zip(NAMES).enumerate() {
            layer.weight = file.read(weight, &[widths[i + 1], widths[i]])?;
            layer.bias = file.read(bias, &[widths[i + 1]])?;
        }
        let tokens = match metadata.inputs {
            Inputs::Hidden | Inputs::HiddenLogits => None,
            Inputs::HiddenLogitsTokens => Some(TokenTable::read(&file)?),
        };
        Self::new(metadata, layers, tokens)
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let failed = |flaw| FileError { path: path.to_owned(), flaw };
        let bytes = self.bytes().map_err(failed)?;
        let io = |why| failed(Flaw::Io { action: "written", why });
        atomic::write(path, &bytes).map_err(io)
    }

    /// The file's bytes: the same router gives the same bytes.
    pub fn bytes(&self) -> Result<Vec<u8>, Flaw> {
        let damaged = |why: serde_json::Error| Flaw::Metadata { why: why.to_string() };
        let metadata = serde_json::to_string(&self.metadata).map_err(damaged)?;
        let mut file = with_layers(metadata, &self.layers, widths(&self.metadata)?);
        if let Some(tokens) = &self.tokens {
            tokens.write(&mut file);
        }
        Ok(file.bytes()?)
    }

    /// Refuses to be used with another model than the one it was trained for.
    pub fn check_model(
        &self,
        fingerprint: &str,
        name: &str,
        hidden: usize,
    ) -> Result<(), FileError> {
        if self.metadata.model == fingerprint && self.metadata.hidden == hidden {
            return Ok(());
        }
        let describe = |name: &str, fingerprint: &str, hidden: usize| {
            format!("{name} (fingerprint {fingerprint}, hidden states of {hidden})")
        };
        let Metadata { model, model_name, hidden: trained, .. } = &self.metadata;
        Err(FileError {
            path: self.path.clone(),
            flaw: Flaw::WrongModel {
                trained: describe(model_name, model, *trained),
                here: describe(name, fingerprint, hidden),
            },
        })
    }
}

fn with_layers(metadata: String, layers: &[Layer; 3], widths: [usize; 4]) -> Writer {
    let mut file = Writer::new(KEY, metadata);
    for (i, (layer, (weight, bias))) in layers.iter().zip(NAMES).enumerate() {
        file.add(weight, &[widths[i + 1], widths[i]], &layer.weight);
        file.add(bias, &[widths[i + 1]], &layer.bias);
    }
    file
}

/// How wide the inputs of each layer and the output are.
fn widths(metadata: &Metadata) -> Result<[usize; 4], Flaw> {
    let hidden = metadata.hidden;
    let widths = metadata.inputs.width(hidden).zip(hidden.checked_mul(2));
    let wrong = || Flaw::Metadata { why: format!("a hidden state of {hidden} numbers") };
    let (inputs, first) = widths.filter(|_| hidden > 0).ok_or_else(wrong)?;
    Ok([inputs, first, hidden, 1])
}

/// The format comes first: a later one may have changed everything else.
fn parse_metadata(json: &str) -> Result<Metadata, Flaw> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let damaged = |why: serde_json::Error| Flaw::Metadata { why: why.to_string() };
    let Format { format } = serde_json::from_str(json).map_err(damaged)?;
    if format > FORMAT {
        return Err(Flaw::Future { found: format });
    }
    serde_json::from_str(json).map_err(damaged)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        metadata::{Objective, Point, Report},
        tokens::{TOKEN_WIDTH, tests::table},
    };

    pub(crate) fn metadata(hidden: usize, inputs: Inputs) -> Metadata {
        let points = vec![Point { share: 0.1, threshold: 0.4 }];
        let report = Report {
            samples: 9,
            examples: 3,
            held_out: 2,
            loss: 0.5,
            auc: 0.75,
            average_precision: 0.5,
            ece: 0.01,
        };
        Metadata {
            format: inputs.format(),
            hidden,
            inputs,
            model: "0123456789abcdef".into(),
            model_name: "small-1b".into(),
            objective: Objective::Citer,
            data: "feed".into(),
            ids: false,
            calibration: Calibration::new(points),
            report,
        }
    }

    pub(crate) fn router(hidden: usize, inputs: Inputs) -> RouterFile {
        let widths = [inputs.width(hidden).unwrap(), 2 * hidden, hidden, 1];
        let number = |i: usize| ((i * 37 + 11) % 101) as f32 / 101.0 - 0.5;
        let layers = [0, 1, 2].map(|l| Layer {
            weight: (0..widths[l] * widths[l + 1]).map(|i| f16::from_f32(number(i))).collect(),
            bias: (0..widths[l + 1]).map(number).collect(),
        });
        let tokens = (inputs == Inputs::HiddenLogitsTokens).then(|| table(&[1, 4, 9]));
        RouterFile::new(metadata(hidden, inputs), layers, tokens).unwrap()
    }

    /// A file with this metadata and the tensors of a small router.
    fn with_metadata(json: &str) -> Vec<u8> {
        with_layers(json.into(), &router(2, Inputs::Hidden).layers, [2, 4, 2, 1]).bytes().unwrap()
    }

    /// A file with these tokens and so many rows for them; without any, without their tensors.
    fn with_tokens(ids: &[i32], rows: usize) -> Vec<u8> {
        let file = router(2, Inputs::HiddenLogitsTokens);
        let json = serde_json::to_string(&file.metadata).unwrap();
        let mut file = with_layers(json, &file.layers, widths(&file.metadata).unwrap());
        if rows > 0 {
            let numbers = vec![f16::from_f32(0.5); rows * TOKEN_WIDTH];
            file.add("tokens", &[ids.len()], ids);
            file.add("table", &[rows, TOKEN_WIDTH], &numbers);
        }
        file.bytes().unwrap()
    }

    #[test]
    fn comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.router");
        for inputs in [Inputs::Hidden, Inputs::HiddenLogits, Inputs::HiddenLogitsTokens] {
            let file = router(6, inputs);
            file.write(&path).unwrap();
            let read = RouterFile::read(&path).unwrap();
            assert_eq!((read.metadata(), read.layers()), (file.metadata(), file.layers()));
            assert_eq!(read.tokens(), file.tokens());
            assert_eq!(read.bytes().unwrap(), fs::read(&path).unwrap());
        }
    }

    #[test]
    fn other_thresholds_are_kept() {
        let points = vec![Point { share: 0.5, threshold: 0.9 }];
        let file = router(2, Inputs::Hidden).with_calibration(Calibration::new(points));
        assert_ne!(file.metadata().calibration, router(2, Inputs::Hidden).metadata().calibration);
        let read = RouterFile::from_bytes(&file.bytes().unwrap()).unwrap();
        assert_eq!(read.metadata().calibration, file.metadata().calibration);
    }

    #[test]
    fn another_model_is_refused_by_name() {
        let file = router(4, Inputs::Hidden);
        assert!(file.check_model("0123456789abcdef", "whatever", 4).is_ok());
        for (print, hidden) in [("ffff", 4), ("0123456789abcdef", 8)] {
            let error = file.check_model(print, "other-3b", hidden).unwrap_err().to_string();
            for part in ["small-1b", "other-3b", "tandem router train", "--router top1"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn what_is_no_router_is_told_apart() {
        let json = |change: fn(&mut serde_json::Value)| {
            let mut json = serde_json::to_value(metadata(2, Inputs::Hidden)).unwrap();
            change(&mut json);
            with_metadata(&json.to_string())
        };
        let mut nan = router(2, Inputs::Hidden);
        nan.layers[1].weight[3] = f16::NAN;
        let mut infinite = router(2, Inputs::Hidden);
        infinite.layers[2].bias[0] = f32::INFINITY;
        let mut old = router(2, Inputs::HiddenLogitsTokens);
        old.metadata.format = 1;
        let foreign = Writer::new("format", "pt".into()).bytes().unwrap();
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (b"\x80\x04\x95pickled".into(), "pickle"),
            (b"PK\x03\x04zipped".into(), "pickle"),
            (vec![], "safetensors"),
            (b"GGUF and then some more".into(), "safetensors"),
            (foreign, "which model"),
            (with_metadata("{}"), "metadata"),
            (with_metadata("{\"format\": 7, \"new\": true}"), "up to 2"),
            (json(|json| json["format"] = 0.into()), "format 0"),
            (json(|json| json["hidden"] = 3.into()), "w1"),
            (json(|json| json["hidden"] = 0.into()), "hidden state of 0"),
            (json(|json| json["hidden"] = u64::MAX.into()), "metadata"),
            (json(|json| json["inputs"] = "hidden+logits".into()), "w1"),
            (json(|json| json["inputs"] = "hidden+logits+tokens".into()), "w1"),
            (old.bytes().unwrap(), "format 1 where 2"),
            (with_tokens(&[], 0), "no tensor tokens"),
            (with_tokens(&[1, 2], 2), "table"),
            (with_tokens(&[2, 1], 3), "2 before 1"),
            (with_tokens(&[-5, 1], 3), "token -5"),
            (json(|json| json["objective"] = "dpo".into()), "dpo"),
            (json(|json| json["calibration"]["points"][0]["share"] = 2.into()), "calibration"),
            (nan.bytes().unwrap(), "w2"),
            (infinite.bytes().unwrap(), "b3"),
        ];
        for (bytes, says) in cases {
            let error = RouterFile::from_bytes(&bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let absent = RouterFile::read(&folder.path().join("absent.router")).unwrap_err();
        assert!(absent.to_string().contains("absent.router"), "{absent}");
    }

    #[test]
    fn tokens_are_there_exactly_where_they_are_read() {
        for (inputs, tokens, says) in [
            (Inputs::HiddenLogits, Some(table(&[1])), "is there"),
            (Inputs::HiddenLogitsTokens, None, "is missing"),
        ] {
            let layers = router(2, inputs).layers;
            let error = RouterFile::new(metadata(2, inputs), layers, tokens).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let bytes = router(3, Inputs::HiddenLogitsTokens).bytes().unwrap();
        for end in 0..bytes.len() {
            assert!(RouterFile::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        for place in 0..bytes.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut flipped = bytes.clone();
                flipped[place] ^= flip;
                if let Ok(file) = RouterFile::from_bytes(&flipped) {
                    // What is still a router must also work as one.
                    let _ = crate::Mlp::new(&file);
                }
            }
        }
    }
}
