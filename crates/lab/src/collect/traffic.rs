//! A collection of live use. Nobody knows how much will come, so it grows: a shard is added when
//! enough samples are there, and `collection.json` tells how many conversations there were.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use super::{
    collection::{Collection, CollectionError, CollectionInfo, io_error},
    sample::{Sample, write_shard},
};

/// What stands for a digest of the examples.
pub const EXAMPLES: &str = "live traffic";

/// A folder that grows with use. One process at a time may fill it.
#[derive(Debug)]
pub struct Traffic {
    collection: Collection,
    shards: usize,
}

impl Traffic {
    /// Begins a folder, or resumes behind the samples that are there. Whatever `info` says of
    /// examples, their count and a seed is ignored.
    pub fn begin(folder: &Path, info: CollectionInfo) -> Result<Self, CollectionError> {
        let (format, examples) = (CollectionInfo::FORMAT, EXAMPLES.into());
        let info = CollectionInfo { format, examples, count: 0, seed: 0, ..info };
        Collection::begin(folder, info)?;
        let collection = Collection::read(folder)?;
        Ok(Self { collection, shards: files(folder).count() })
    }

    /// Resumes a folder that was begun before for this cloud; `None` where none was.
    pub fn resume(folder: &Path, cloud: &str) -> Result<Option<Self>, CollectionError> {
        if !folder.join("collection.json").exists() {
            return Ok(None);
        }
        let info = Collection::read(folder)?.info;
        Self::begin(folder, CollectionInfo { cloud: cloud.into(), ..info }).map(Some)
    }

    pub fn info(&self) -> &CollectionInfo {
        &self.collection.info
    }

    /// Whether samples of these models belong here.
    pub fn check(&self, other: &CollectionInfo) -> Result<(), CollectionError> {
        let CollectionInfo { ref examples, count, seed, .. } = self.collection.info;
        self.collection.check(&CollectionInfo {
            examples: examples.clone(),
            count,
            seed,
            ..other.clone()
        })
    }

    pub fn write(&mut self, samples: &[Sample]) -> Result<(), CollectionError> {
        let seen = samples.iter().map(|sample| sample.example as usize + 1).max().unwrap_or(0);
        if seen > self.collection.info.count {
            // Before the shard: a kill between the two must not leave an example uncounted.
            self.collection.info.count = seen;
            self.collection.write_info()?;
        }
        let path = file(&self.collection.folder, self.shards);
        write_shard(&path, self.collection.info.hidden, samples)?;
        self.shards += 1;
        Ok(())
    }
}

/// Makes the folder and keeps others from filling it for as long as the file is held.
pub fn claim(folder: &Path) -> Result<File, CollectionError> {
    fs::create_dir_all(folder).map_err(|source| io_error(folder, source))?;
    let path = folder.join("in-use");
    let file = File::create(&path).map_err(|source| io_error(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CollectionError::InUse { path: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io_error(&path, source)),
    }
}

pub(super) fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = folder.to_owned();
    (0..).map(move |shard| file(&folder, shard)).take_while(|path| path.exists())
}

fn file(folder: &Path, shard: usize) -> PathBuf {
    folder.join(format!("traffic-{shard:05}.safetensors"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collect::{LabelSource, collection::tests},
        train::tests::sample as unknown,
    };

    fn info() -> CollectionInfo {
        tests::info(0)
    }

    fn sample(example: u32, position: u32) -> Sample {
        let (label_source, agrees) = (LabelSource::Traffic, Some(position.is_multiple_of(2)));
        Sample { label_source, agrees, position, ..unknown(example, 2) }
    }

    fn places(folder: &Path) -> Vec<(u32, u32)> {
        let samples = Collection::read(folder).unwrap().samples().unwrap();
        samples.iter().map(|s| (s.example, s.position)).collect()
    }

    #[test]
    fn a_folder_grows_and_resumes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(Traffic::resume(folder, "large").unwrap().is_none());
        let mut traffic = Traffic::begin(folder, info()).unwrap();
        traffic.write(&[sample(0, 3), sample(1, 4)]).unwrap();
        let digest = Collection::read(folder).unwrap().digest().unwrap();
        traffic.write(&[sample(0, 5)]).unwrap();
        assert_ne!(Collection::read(folder).unwrap().digest().unwrap(), digest);
        drop(traffic);

        let mut again = Traffic::resume(folder, "large").unwrap().unwrap();
        assert_eq!(again.info().count, 2);
        again.check(&info()).unwrap();
        again.write(&[sample(40, 1)]).unwrap();
        assert_eq!(places(folder), [(0, 3), (1, 4), (0, 5), (40, 1)]);
        assert_eq!(Collection::read(folder).unwrap().info().count, 41);
    }

    #[test]
    fn what_is_of_other_models_is_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let traffic = Traffic::begin(folder, info()).unwrap();
        let named = |error: CollectionError, names: [&str; 2]| {
            let error = error.to_string();
            assert!(names.iter().all(|name| error.contains(name)), "{error}");
        };
        let other = CollectionInfo { model: "n".into(), model_name: "tiny".into(), ..info() };
        named(traffic.check(&other).unwrap_err(), ["small", "tiny"]);
        named(traffic.check(&CollectionInfo { hidden: 3, ..info() }).unwrap_err(), ["2", "3"]);
        named(Traffic::resume(folder, "huge").unwrap_err(), ["large", "huge"]);
        let worked = CollectionInfo { examples: "d".into(), seed: 0, ..info() };
        named(Collection::begin(folder, worked).unwrap_err(), [EXAMPLES, "d"]);
    }

    #[test]
    fn a_full_disk_loses_a_shard_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut traffic = Traffic::begin(folder.path(), info()).unwrap();
        traffic.write(&[sample(0, 1)]).unwrap();
        // A folder where the next shard is to be written stands for a disk that says no.
        let blocked = folder.path().join("traffic-00001.safetensors");
        fs::create_dir(&blocked).unwrap();
        assert!(traffic.write(&[sample(0, 2)]).is_err());
        fs::remove_dir(&blocked).unwrap();
        traffic.write(&[sample(0, 3)]).unwrap();
        assert_eq!(places(folder.path()), [(0, 1), (0, 3)]);
    }
}
