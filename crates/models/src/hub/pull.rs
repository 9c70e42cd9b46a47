//! A model of the hub, fetched whole. Its files get their names in the cache together, at the end.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, PathBuf},
};

use onnx::layout::GENAI_CONFIG;
use serde_json::Value;

use crate::{
    home::Home,
    hub::{
        Access, Cache, HubError, Name,
        blob::{Blob, io_error},
        cache::{CachedRepo, Link, beside},
        choose::{Choice, choose, folder, join},
        client::{Client, Promise},
        record::{Pulled, PulledFile, Record},
    },
    pull::{Event, free, lock},
};

/// Fetches what is missing of a model; what is in the cache already is used as it is.
pub fn pull(
    home: &Home,
    cache: &Cache,
    access: Access,
    name: &Name,
    tell: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), HubError> {
    let partial = home.partial();
    fs::create_dir_all(&partial).map_err(|e| io_error(&partial, e))?;
    let _lock = lock(&partial).map_err(HubError::Lock)?;
    let client = Client::new(access)?;
    let listing = client.list(&name.repo)?;
    let choice = choose(&listing.files, name.selector.as_deref())
        .map_err(|problem| HubError::Choice { repo: name.repo.clone(), problem })?;
    let mut pull = Pull {
        home,
        cached: cache.repo(&name.repo),
        client,
        name: name.clone(),
        commit: listing.commit,
        listed: listing.files,
        wanted: vec![],
        weights: vec![],
        fetched: BTreeSet::new(),
        tell,
    };
    pull.run(choice)
}

struct Pull<'a> {
    home: &'a Home,
    cached: CachedRepo,
    client: Client,
    /// The model, by its main file as soon as that is known.
    name: Name,
    commit: String,
    /// All files of the repository.
    listed: Vec<String>,
    /// Those known to be needed so far, with what the hub promises of them.
    wanted: Vec<(String, Promise)>,
    /// Those that hold the weights of an ONNX graph.
    weights: Vec<String>,
    /// Hashes of those that were not here before.
    fetched: BTreeSet<String>,
    tell: &'a (dyn Fn(Event<'_>) + Sync),
}

impl Pull<'_> {
    fn run(&mut self, choice: Choice) -> Result<(), HubError> {
        match choice {
            Choice::Gguf(parts) => {
                self.name.selector = parts.first().cloned();
                self.want(&parts)?;
                self.note()?;
                self.fetch()?;
            }
            Choice::Onnx(graph) => self.fetch_onnx(graph)?,
            Choice::Genai(folder) => {
                let config = join(&folder, GENAI_CONFIG);
                self.want(std::slice::from_ref(&config))?;
                self.fetch()?;
                self.fetch_onnx(self.graph_of(&folder, &config)?)?;
            }
        }
        for (file, promise) in &self.wanted {
            let hash = promise.hash.as_str();
            let is_weights = self.weights.contains(file);
            let link = if is_weights { Link::Hard(hash) } else { Link::Soft(hash) };
            self.cached.link(&self.commit, file, link)?;
        }
        self.cached.set_reference(&self.commit)?;
        let name = &self.name.to_string();
        let was_here = self.fetched.is_empty();
        (self.tell)(if was_here { Event::Present { name } } else { Event::Done { name } });
        Ok(())
    }

    /// The graph with what is read beside it, and then the weights it names.
    fn fetch_onnx(&mut self, graph: String) -> Result<(), HubError> {
        self.name.selector = Some(graph.clone());
        self.want(std::slice::from_ref(&graph))?;
        self.want(&beside(&self.listed, &graph))?;
        self.note()?;
        self.fetch()?;
        self.weights = self.weights_of(&graph)?;
        self.want(&self.weights.clone())?;
        self.note()?;
        self.fetch()
    }

    fn want(&mut self, files: &[String]) -> Result<(), HubError> {
        for file in files {
            if self.wanted.iter().all(|(wanted, _)| wanted != file) {
                let promise = self.client.promise(&self.name.repo, &self.commit, file)?;
                self.wanted.push((file.clone(), promise));
            }
        }
        Ok(())
    }

    /// Done before anything is fetched, so that an interrupted pull can be removed as well.
    fn note(&self) -> Result<(), HubError> {
        let note = |(file, promise): &(String, Promise)| {
            let blob = promise.hash.as_str();
            let ours = self.fetched.contains(blob) || !self.blob(file, promise).is_here();
            PulledFile { path: file.clone(), blob: blob.into(), ours }
        };
        let mut record = Record::read(self.home)?;
        record.note(Pulled {
            repo: self.name.repo.to_string(),
            main: self.name.selector.clone().unwrap_or_default(),
            folder: self.cached.folder.clone(),
            locks: self.cached.locks.clone(),
            files: self.wanted.iter().map(note).collect(),
        });
        record.write(self.home)
    }

    /// Fetches what is wanted and not here.
    fn fetch(&mut self) -> Result<(), HubError> {
        let blobs = self.wanted.iter().map(|(file, promise)| self.blob(file, promise));
        let missing: Vec<_> = blobs.filter(|blob| !blob.is_here()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let total: u64 = self.wanted.iter().map(|(_, promise)| promise.bytes).sum();
        let absent: u64 = missing.iter().map(|b| b.promise.bytes).sum();
        let partial: u64 = missing.iter().map(|b| b.partial_bytes().min(b.promise.bytes)).sum();
        let name = &self.name.to_string();
        (self.tell)(Event::Begin { name, total, here: total - absent + partial });
        self.check_room(absent - partial)?;
        let mut done = total - absent;
        let mut fetched = vec![];
        for blob in missing {
            (self.tell)(Event::Fetch { name });
            blob.fetch(&self.client, &|event| match event {
                Event::Bytes(bytes) => (self.tell)(Event::Bytes(done + bytes)),
                other => (self.tell)(other),
            })?;
            done += blob.promise.bytes;
            fetched.push(blob.promise.hash.as_str().to_owned());
        }
        self.fetched.extend(fetched);
        Ok(())
    }

    fn blob<'b>(&'b self, file: &'b str, promise: &'b Promise) -> Blob<'b> {
        let hash = promise.hash.as_str();
        let (path, lock) = (self.cached.blob(hash), self.cached.lock(hash));
        Blob { repo: &self.name.repo, commit: &self.commit, file, promise, path, lock }
    }

    fn check_room(&self, needed: u64) -> Result<(), HubError> {
        let folder = self.cached.folder.join("blobs");
        fs::create_dir_all(&folder).map_err(|e| io_error(&folder, e))?;
        let free = free(&folder);
        if free < needed { Err(HubError::DiskFull { folder, needed, free }) } else { Ok(()) }
    }

    /// Where the content of a fetched file is.
    fn content(&self, file: &str) -> Result<PathBuf, HubError> {
        let wanted = self.wanted.iter().find(|(wanted, _)| wanted == file);
        let path = wanted.map(|(_, promise)| self.cached.blob(promise.hash.as_str()));
        path.ok_or_else(|| HubError::Onnx {
            file: file.into(),
            reason: "it was not fetched".into(),
        })
    }

    /// The graph that `genai_config.json` names.
    fn graph_of(&self, folder: &str, config: &str) -> Result<String, HubError> {
        let refuse = |reason: &str| HubError::Onnx { file: config.into(), reason: reason.into() };
        let path = self.content(config)?;
        let text = fs::read_to_string(&path).map_err(|e| io_error(&path, e))?;
        let json: Value = serde_json::from_str(&text).map_err(|e| refuse(&e.to_string()))?;
        let graph = json.pointer("/model/decoder/filename").and_then(Value::as_str);
        let graph = join(folder, graph.ok_or_else(|| refuse("it names no decoder"))?);
        let is_listed = self.listed.contains(&graph);
        if is_listed { Ok(graph) } else { Err(refuse("its decoder is not in the repository")) }
    }

    /// The files a graph keeps its weights in.
    fn weights_of(&self, graph: &str) -> Result<Vec<String>, HubError> {
        let refuse = |reason: String| HubError::Onnx { file: graph.into(), reason };
        let path = self.content(graph)?;
        let read = || {
            let file = onnx::File::read(&path)?;
            onnx::external::files(&file, &file.graph()?)
        };
        let mut weights = vec![];
        for location in read().map_err(|e| refuse(e.to_string()))?.into_keys() {
            let normal = |part: Component<'_>| match part {
                Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
                _ => None,
            };
            let parts: Vec<_> = location.components().filter_map(normal).collect();
            let file = join(folder(graph), &parts.join("/"));
            if !self.listed.contains(&file) {
                let reason = format!("its weights are in {file}, which the hub does not have");
                return Err(refuse(reason));
            }
            weights.push(file);
        }
        Ok(weights)
    }
}
