//! Downloads all files of a model on the hub. They are linked into the cache together, at the end.

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
        client::{Client, FileInfo},
        record::{PulledFile, PulledModel, Record},
    },
    pull::{Event, Progress, free, lock},
};

/// Downloads the files of a model that are not in the cache yet. With a pinned hash it is a single
/// file, which is refused before its download if the hub's hash of it is another one.
pub fn pull(
    home: &Home,
    cache: &Cache,
    access: Access,
    name: &Name,
    pinned: Option<&str>,
    progress: Progress<'_>,
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
        pinned,
        progress,
    };
    pull.run(choice)
}

struct Pull<'a> {
    home: &'a Home,
    cached: CachedRepo,
    client: Client,
    /// Its selector becomes the path of the main file as soon as that is known.
    name: Name,
    commit: String,
    /// All files of the repository.
    listed: Vec<String>,
    /// The files that are known to be needed so far.
    wanted: Vec<(String, FileInfo)>,
    /// The files with the weights of an ONNX graph.
    weights: Vec<String>,
    /// Hashes of the files that this pull has downloaded.
    fetched: BTreeSet<String>,
    /// The only hash that the files may have, if it is known beforehand.
    pinned: Option<&'a str>,
    progress: Progress<'a>,
}

impl Pull<'_> {
    fn run(&mut self, choice: Choice) -> Result<(), HubError> {
        match choice {
            Choice::Gguf(parts) => {
                self.name.selector = parts.first().cloned();
                self.want(&parts)?;
                self.record()?;
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
        for (file, info) in &self.wanted {
            let hash = info.hash.as_str();
            let is_weights = self.weights.contains(file);
            let link = if is_weights { Link::Hard(hash) } else { Link::Soft(hash) };
            self.cached.link(&self.commit, file, link)?;
        }
        self.cached.set_reference(&self.commit)?;
        let name = &self.name.to_string();
        let was_here = self.fetched.is_empty();
        (self.progress)(if was_here { Event::Present { name } } else { Event::Done { name } });
        Ok(())
    }

    /// Downloads the graph with its configuration files, and then the weights that it names.
    fn fetch_onnx(&mut self, graph: String) -> Result<(), HubError> {
        self.name.selector = Some(graph.clone());
        self.want(std::slice::from_ref(&graph))?;
        self.want(&beside(&self.listed, &graph))?;
        self.record()?;
        self.fetch()?;
        self.weights = self.weights_of(&graph)?;
        self.want(&self.weights.clone())?;
        self.record()?;
        self.fetch()
    }

    fn want(&mut self, files: &[String]) -> Result<(), HubError> {
        for file in files {
            if self.wanted.iter().all(|(wanted, _)| wanted != file) {
                let info = self.client.file_info(&self.name.repo, &self.commit, file)?;
                if self
                    .pinned
                    .is_some_and(|pinned| !info.hash.as_str().eq_ignore_ascii_case(pinned))
                {
                    return Err(HubError::OtherFile {
                        file: file.clone(),
                        repo: self.name.repo.clone(),
                    });
                }
                self.wanted.push((file.clone(), info));
            }
        }
        Ok(())
    }

    /// Records the files before they are downloaded, so that an interrupted pull can be removed too.
    fn record(&self) -> Result<(), HubError> {
        let pulled_file = |(file, info): &(String, FileInfo)| {
            let blob = info.hash.as_str();
            let ours = self.fetched.contains(blob) || !self.blob(file, info).is_here();
            PulledFile { path: file.clone(), blob: blob.into(), ours }
        };
        let mut record = Record::read(self.home)?;
        record.add(PulledModel {
            repo: self.name.repo.to_string(),
            main: self.name.selector.clone().unwrap_or_default(),
            folder: self.cached.folder.clone(),
            locks: self.cached.locks.clone(),
            files: self.wanted.iter().map(pulled_file).collect(),
        });
        record.write(self.home)
    }

    /// Downloads the wanted files that are not in the cache.
    fn fetch(&mut self) -> Result<(), HubError> {
        let blobs = self.wanted.iter().map(|(file, info)| self.blob(file, info));
        let missing: Vec<_> = blobs.filter(|blob| !blob.is_here()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let total: u64 = self.wanted.iter().map(|(_, info)| info.bytes).sum();
        let absent: u64 = missing.iter().map(|b| b.info.bytes).sum();
        let partial: u64 = missing.iter().map(|b| b.partial_bytes().min(b.info.bytes)).sum();
        let name = &self.name.to_string();
        (self.progress)(Event::Begin { name, total, here: total - absent + partial });
        self.check_room(absent - partial)?;
        let mut done = total - absent;
        let mut fetched = vec![];
        for blob in missing {
            (self.progress)(Event::Fetch { name });
            blob.fetch(&self.client, &|event| match event {
                Event::Bytes(bytes) => (self.progress)(Event::Bytes(done + bytes)),
                other => (self.progress)(other),
            })?;
            done += blob.info.bytes;
            fetched.push(blob.info.hash.as_str().to_owned());
        }
        self.fetched.extend(fetched);
        Ok(())
    }

    fn blob<'b>(&'b self, file: &'b str, info: &'b FileInfo) -> Blob<'b> {
        let hash = info.hash.as_str();
        let (path, lock) = (self.cached.blob(hash), self.cached.lock(hash));
        Blob { repo: &self.name.repo, commit: &self.commit, file, info, path, lock }
    }

    fn check_room(&self, needed: u64) -> Result<(), HubError> {
        let folder = self.cached.folder.join("blobs");
        fs::create_dir_all(&folder).map_err(|e| io_error(&folder, e))?;
        let free = free(&folder);
        if free < needed { Err(HubError::DiskFull { folder, needed, free }) } else { Ok(()) }
    }

    /// The path of the content of a downloaded file.
    fn content(&self, file: &str) -> Result<PathBuf, HubError> {
        let wanted = self.wanted.iter().find(|(wanted, _)| wanted == file);
        let path = wanted.map(|(_, info)| self.cached.blob(info.hash.as_str()));
        path.ok_or_else(|| HubError::Onnx {
            file: file.into(),
            reason: "it was not downloaded".into(),
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

    /// The files that hold a graph's weights.
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
