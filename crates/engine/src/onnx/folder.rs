//! The files of an ONNX model: its graph, its tokenizer, its chat template and its settings.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ::onnx::{
    File, Hidden, external,
    layout::{GENAI_CONFIG, USUAL_GRAPHS},
    precision::Precision,
};
use serde_json::Value as Json;

use crate::{
    error::EngineError,
    model::{LoadOptions, digest},
};

/// An ONNX model on disk.
#[derive(Clone, Debug)]
pub struct Folder {
    model: PathBuf,
}

/// The sizes of a model's caches, as far as its configuration files give them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heads {
    pub count: Option<usize>,
    pub length: Option<usize>,
}

impl Folder {
    /// The ONNX model at a path: a file, or the one in a folder. `None` if it is something else.
    pub fn find(path: &Path) -> Result<Option<Self>, EngineError> {
        if path.extension().is_some_and(|e| e == "onnx") && !path.is_dir() {
            return Ok(Some(Self { model: path.into() }));
        }
        if !path.is_dir() {
            return Ok(None);
        }
        let genai = fs::read_to_string(path.join(GENAI_CONFIG)).unwrap_or_default();
        let genai = serde_json::from_str::<Json>(&genai).unwrap_or_default();
        if let Some(name) = genai.pointer("/model/decoder/filename").and_then(Json::as_str) {
            return Ok(Some(Self { model: path.join(name) }));
        }
        let mut models = graphs(path);
        if models.is_empty() {
            // As Hugging Face lays it out: tokenizer above, graphs below.
            models = graphs(&path.join("onnx"));
        }
        let called =
            |name: &&str| models.iter().find(|m| m.file_name().is_some_and(|f| f == *name));
        let usual = USUAL_GRAPHS.iter().find_map(called);
        match (usual, &models[..]) {
            (Some(model), _) | (None, [model]) => Ok(Some(Self { model: model.clone() })),
            (None, []) => Ok(None),
            (None, several) => {
                let names: Vec<_> = several.iter().map(|m| m.display().to_string()).collect();
                let reason =
                    format!("it holds several models; give the path of one: {}", names.join(", "));
                Err(EngineError::ModelFile { path: path.into(), reason })
            }
        }
    }

    /// The file with the graph.
    pub fn model(&self) -> &Path {
        &self.model
    }

    /// How its weights are stored.
    pub fn precision(&self) -> Result<Precision, EngineError> {
        Ok(Precision::of(&File::read(&self.model)?.graph()?))
    }

    /// A file beside the model, or one folder above.
    pub(crate) fn beside(&self, name: &str) -> Option<PathBuf> {
        let folder = external::folder(&self.model);
        let above = folder.canonicalize().ok().and_then(|f| f.parent().map(Path::to_owned));
        let here = folder.join(name);
        let places = [Some(here), above.map(|above| above.join(name))];
        places.into_iter().flatten().find(|path| path.is_file())
    }

    pub(crate) fn json(&self, name: &str) -> Result<Option<Json>, EngineError> {
        let Some(path) = self.beside(name) else { return Ok(None) };
        let refuse = |reason: String| EngineError::ModelFile { path: path.clone(), reason };
        let text = fs::read_to_string(&path).map_err(|e| refuse(e.to_string()))?;
        serde_json::from_str(&text).map(Some).map_err(|e| refuse(format!("not JSON: {e}")))
    }

    /// A positive number from one of the files beside the model.
    fn number(&self, file: &str, pointer: &str) -> Option<usize> {
        let json = self.json(file).ok().flatten()?;
        json.pointer(pointer)?.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0)
    }

    /// The context the model was trained with, if its configuration gives it.
    pub(crate) fn trained_context(&self) -> Option<usize> {
        self.number(GENAI_CONFIG, "/model/context_length")
            .or_else(|| self.number("config.json", "/max_position_embeddings"))
    }

    /// The number of key heads and the size of one, for graphs that leave them open.
    pub(crate) fn heads(&self) -> Heads {
        let genai = |key: &str| self.number(GENAI_CONFIG, &format!("/model/decoder/{key}"));
        let config = |key: &str| self.number("config.json", &format!("/{key}"));
        let divided = || Some(config("hidden_size")? / config("num_attention_heads")?);
        Heads {
            count: genai("num_key_value_heads")
                .or_else(|| config("num_key_value_heads"))
                .or_else(|| config("num_attention_heads")),
            length: genai("head_size").or_else(|| config("head_dim")).or_else(divided),
        }
    }

    /// Names the model by the contents of its files and the precision of its weights, because a
    /// router trained at one precision is wrong for another.
    pub(crate) fn fingerprint(&self) -> Result<String, EngineError> {
        let file = File::read(&self.model)?;
        let graph = file.graph()?;
        let mut name = digest(&self.model)?;
        for path in external::check(&file, &graph)? {
            name += &format!("+{}", digest(&path)?);
        }
        Ok(format!("onnx-{}:{name}", Precision::of(&graph)))
    }

    /// A name for people: the file's name, or the folder's where the file is just `model.onnx`, and
    /// the precision.
    pub(crate) fn name(&self) -> String {
        let stem = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let file = stem(&self.model).unwrap_or_default();
        let usual = USUAL_GRAPHS
            .iter()
            .any(|name| Path::new(name).file_stem().is_some_and(|s| s == &*file));
        let folder = external::folder(&self.model).canonicalize().ok();
        let folder = folder.as_deref().filter(|_| usual).and_then(Path::file_name);
        let name = folder.map_or(file, |folder| folder.to_string_lossy().into_owned());
        match File::read(&self.model).and_then(|file| Ok(Precision::of(&file.graph()?))) {
            Ok(precision) => format!("{name} (onnx {precision})"),
            Err(_) => name,
        }
    }

    /// Checks that the files look like a model, without loading them.
    pub(crate) fn check(&self, options: &LoadOptions) -> Result<(), EngineError> {
        if !options.adapters.is_empty() {
            return Err(EngineError::NoAdapters { path: self.model.clone() });
        }
        let file = File::read(&self.model)?;
        let graph = file.graph()?;
        Hidden::find(&file, &graph)?;
        external::check(&file, &graph)?;
        Ok(())
    }
}

fn graphs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut graphs: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == "onnx")).collect();
    graphs.sort();
    graphs
}
