//! The manifest of a preset: its file `preset.toml`.

use std::{
    fmt, fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::PresetError;

/// The latest version of the format that this program reads.
const VERSION: u32 = 1;

/// A longer file is not a manifest.
const MAX_BYTES: u64 = 1 << 16;

/// A manifest whose values have been checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format. It is checked before the rest is read, because later versions may
    /// have fields that this program does not know.
    #[serde(rename = "version")]
    _version: u32,
    /// Its folder should have the same name.
    pub name: String,
    /// One line that says what it is good for.
    pub description: String,
    /// The licence of its files.
    pub license: String,
    pub edge: ModelPart,
    /// `None` if it works with any large model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<ModelPart>,
    /// One for each kind of edge that it can be used with.
    #[serde(default, rename = "router", skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterPart>,
    /// From shares to thresholds, for routers that need no training.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TablePart>,
    #[serde(default)]
    pub defaults: Defaults,
}

/// A model that the preset is for, and its adapter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPart {
    /// The model's name, as in the catalog if it is there.
    pub model: String,
    /// The hash of its GGUF file, or of its ONNX file.
    pub sha256: String,
    /// Where it was when the preset was made, if it has no name in the catalog. Used as long as it
    /// is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterPart>,
}

/// A LoRA adapter in the folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterPart {
    pub file: String,
    pub sha256: String,
    /// 1 applies the adapter as it was trained.
    #[serde(default = "default_scale")]
    pub scale: f32,
}

fn default_scale() -> f32 {
    1.0
}

/// A router in the folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterPart {
    pub edge: EdgeKind,
    pub file: String,
    pub sha256: String,
}

/// Which threshold of a router that needs no training asks for which share of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TablePart {
    /// `top1`, `margin` or `entropy`.
    pub router: String,
    /// The fingerprint of the edge it was measured with, as `tandem router calibrate` prints it.
    pub model: String,
    /// Pairs of share and threshold, both rising.
    pub points: Vec<(f32, f32)>,
}

/// How the small model's weights are stored. A router reads hidden states, which depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeKind {
    /// The adapter is applied while the model runs. In all ONNX models it is merged in.
    Gguf,
    OnnxFp32,
    OnnxFp16,
    OnnxBf16,
    OnnxInt8,
    OnnxInt4,
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gguf => "gguf",
            Self::OnnxFp32 => "onnx-fp32",
            Self::OnnxFp16 => "onnx-fp16",
            Self::OnnxBf16 => "onnx-bf16",
            Self::OnnxInt8 => "onnx-int8",
            Self::OnnxInt4 => "onnx-int4",
        })
    }
}

/// The settings used where the user gives none; at most one of them is set.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The share of tokens from the cloud, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f32>,
    /// The score below which the cloud is asked, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
}

impl Manifest {
    /// A manifest for a folder with this name. The name's letters that none may have become `-`.
    pub fn new(name: &str, description: String, license: String, edge: ModelPart) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        let name = name.trim_start_matches('.');
        let name = if name.is_empty() { "preset".to_owned() } else { name.to_owned() };
        let defaults = Defaults::default();
        Self {
            _version: VERSION,
            name,
            description,
            license,
            edge,
            cloud: None,
            routers: vec![],
            tables: vec![],
            defaults,
        }
    }

    /// The text of the file, once its values are checked. The error is the end of a sentence that
    /// begins with the file's name.
    pub fn to_toml(&self) -> Result<String, String> {
        self.check()?;
        toml::to_string(self).map_err(|error| format!("cannot be written: {error}"))
    }

    /// Reads a manifest and checks its values.
    pub fn read(path: &Path) -> Result<Self, PresetError> {
        let unreadable = |source| PresetError::Unreadable { path: path.into(), source };
        let refused = |reason: String| PresetError::Manifest { path: path.into(), reason };
        let found = fs::metadata(path).map_err(unreadable)?;
        if !found.is_file() {
            return Err(PresetError::NotAFile { path: path.into() });
        }
        let mut text = String::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(refused(format!(
                "is longer than {MAX_BYTES} bytes, so it is not a manifest"
            )));
        }
        Self::parse(&text).map_err(refused)
    }

    /// Reads a manifest's text and checks its values. The errors are ends of sentences that begin with
    /// the file's name.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = toml::from_str(text).map_err(|e| one_line(text, &e))?;
        if version > VERSION {
            return Err(format!(
                "has version {version}, and this program reads versions up to {VERSION}: update \
                 this program"
            ));
        }
        let manifest: Self = toml::from_str(text).map_err(|e| one_line(text, &e))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.name.is_empty() || self.name.starts_with('.') || !self.name.chars().all(plain) {
            return Err(format!(
                "has the name {:?}: use letters, digits, '.', '_' and '-' only",
                self.name
            ));
        }
        if self.description.trim().is_empty() || self.description.contains(char::is_control) {
            return Err("needs a description of one line".into());
        }
        for side in [Some(&self.edge), self.cloud.as_ref()].into_iter().flatten() {
            if side.sha256.len() != 64 || !side.sha256.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(format!("has a sha256 of {} that is not 64 hex digits", side.model));
            }
            let odd = |part: &&AdapterPart| !(-100.0..=100.0).contains(&part.scale);
            if let Some(adapter) = side.adapter.as_ref().filter(odd) {
                return Err(format!(
                    "has a scale of {} that is not from -100 to 100",
                    adapter.file
                ));
            }
        }
        if let Some((file, _)) = self.files().find(|(file, _)| !is_plain_name(file)) {
            return Err(format!(
                "names the file {file:?}: put it into the preset's own folder and name it without one"
            ));
        }
        if self.files().next().is_none() {
            return Err("names neither an adapter nor a router".into());
        }
        for (i, part) in self.routers.iter().enumerate() {
            if self.routers.iter().take(i).any(|before| before.edge == part.edge) {
                return Err(format!("names two routers for {} edges", part.edge));
            }
        }
        for TablePart { router, points, .. } in &self.tables {
            let valid = |(share, threshold): &(f32, f32)| {
                (0.0..=1.0).contains(share) && (0.0..=1.0).contains(threshold)
            };
            let rising = points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
            if points.is_empty() || !rising || !points.iter().all(valid) {
                return Err(format!(
                    "has a table for {router} whose shares and thresholds do not rise from 0 to 1"
                ));
            }
        }
        let Defaults { budget, threshold } = self.defaults;
        if budget.is_some() && threshold.is_some() {
            return Err("has a default budget and a default threshold: one is enough".into());
        }
        if [budget, threshold].into_iter().flatten().any(|v| !(0.0..=1.0).contains(&v)) {
            return Err("has a default that is not from 0 to 1".into());
        }
        Ok(())
    }

    /// Every file it names, with its hash.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        let sides = [Some(&self.edge), self.cloud.as_ref()].into_iter().flatten();
        let adapters = sides.filter_map(|side| side.adapter.as_ref());
        let adapters = adapters.map(|part| (&*part.file, &*part.sha256));
        adapters.chain(self.routers.iter().map(|part| (&*part.file, &*part.sha256)))
    }

    /// The router for a kind of edge.
    pub fn router(&self, kind: EdgeKind) -> Option<&RouterPart> {
        self.routers.iter().find(|part| part.edge == kind)
    }
}

fn is_plain_name(file: &str) -> bool {
    let mut components = Path::new(file).components();
    let one = matches!(components.next(), Some(Component::Normal(_)));
    one && components.next().is_none() && !file.contains(['/', '\\']) && !file.starts_with('.')
}

/// The parser's error in one line. Its own message draws the place over several lines.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("is not valid in line {line}: {message}")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const HASH: &str =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn text() -> String {
        format!(
            "version = 1\nname = 'mine'\ndescription = 'Poems'\nlicense = 'MIT'\n\
             [edge]\nmodel = 'small'\nsha256 = '{HASH}'\n\
             adapter = {{ file = 'edge.gguf', sha256 = '{HASH}', scale = 0.5 }}\n\
             [[router]]\nedge = 'onnx-int8'\nfile = 'r.safetensors'\nsha256 = '{HASH}'\n\
             [defaults]\nbudget = 0.07\n"
        )
    }

    #[test]
    fn a_whole_manifest() {
        let manifest = Manifest::parse(&text()).unwrap();
        assert_eq!(manifest.edge.adapter.as_ref().unwrap().scale, 0.5);
        assert!(manifest.router(EdgeKind::Gguf).is_none());
        assert_eq!(manifest.router(EdgeKind::OnnxInt8).unwrap().file, "r.safetensors");
        let files: Vec<_> = manifest.files().map(|(file, _)| file).collect();
        assert_eq!(files, ["edge.gguf", "r.safetensors"]);
        assert_eq!(manifest.defaults.budget, Some(0.07));
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let path = Some("/models/small model.gguf".into());
        let edge = ModelPart { model: "small".into(), sha256: HASH.into(), path, adapter: None };
        let mut manifest = Manifest::new("my preset", "Poems".into(), "MIT".into(), edge);
        let (edge, file, sha256) = (EdgeKind::OnnxInt4, "r.safetensors".into(), HASH.into());
        manifest.routers.push(RouterPart { edge, file, sha256 });
        manifest.defaults.budget = Some(0.07);
        let again = Manifest::parse(&manifest.to_toml().unwrap()).unwrap();
        assert_eq!((again.name.as_str(), again.defaults.budget), ("my-preset", Some(0.07)));
        assert_eq!(again.edge.path, manifest.edge.path);
        assert!(again.cloud.is_none() && again.router(EdgeKind::OnnxInt4).is_some());
        manifest.routers.clear();
        assert!(manifest.to_toml().unwrap_err().contains("neither"));
    }

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for part in ["gguf", "onnx-fp32", "onnx-fp16", "onnx-bf16", "onnx-int8", "onnx-int4"] {
            let manifest = Manifest::parse(&text().replace("onnx-int8", part)).unwrap();
            assert_eq!(manifest.routers[0].edge.to_string(), part);
        }
    }

    #[test]
    fn flaws_are_named_in_one_line() {
        for (from, to, says) in [
            ("license", "licence", "line 4: unknown field `licence`"),
            ("version = 1", "version = 2", "version 2"),
            ("version = 1", "", "missing field `version`"),
            ("'mine'", "'../mine'", "\"../mine\""),
            ("'mine'", "''", "name"),
            ("'Poems'", "\"two\\nlines\"", "one line"),
            (HASH, "0011", "64 hex digits"),
            ("0.5", "nan", "edge.gguf"),
            ("edge.gguf", "../edge.gguf", "\"../edge.gguf\""),
            ("edge.gguf", "/tmp/edge.gguf", "\"/tmp/edge.gguf\""),
            ("edge.gguf", "sub/edge.gguf", "without one"),
            ("edge.gguf", "", "without one"),
            ("onnx-int8", "tflite", "unknown variant `tflite`"),
            ("budget = 0.07", "budget = 7", "from 0 to 1"),
            ("budget = 0.07", "budget = 0.1\nthreshold = 0.2", "one is enough"),
            (
                "[defaults]",
                "[[router]]\nedge = 'onnx-int8'\nfile = 'x'\nsha256 = ''\n[defaults]",
                "two routers for onnx-int8",
            ),
            (
                "[defaults]",
                "[[table]]\nrouter = 'top1'\nmodel = 'm'\npoints = [[0.1, 0.5], [0.2, 0.4]]\n[defaults]",
                "do not rise",
            ),
            ("[edge]", "[edge", "line 5"),
        ] {
            let error = Manifest::parse(&text().replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{to}: {error}");
        }
    }
}
