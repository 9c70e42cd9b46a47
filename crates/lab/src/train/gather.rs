//! Samples of several collections, as one set to train on.

use std::path::PathBuf;

use router::Objective;

use super::SampleOrigin;
use crate::{
    Error,
    collect::{Collection, Sample},
};

/// Reads all collections; they must be of one model.
pub fn gather(
    folders: &[PathBuf],
    objective: Objective,
) -> Result<(Vec<Sample>, SampleOrigin), Error> {
    let (mut samples, mut digests) = (vec![], vec![]);
    let mut first: Option<Collection> = None;
    let mut offset = 0u32;
    for folder in folders {
        let collection = Collection::read(folder)?;
        let differs = |f: &&Collection| {
            let (a, b) = (f.info(), collection.info());
            (&a.model, a.exchange) != (&b.model, b.exchange)
        };
        if let Some(other) = first.as_ref().filter(differs) {
            return Err(Error::usage(format!(
                "the collections are of different models, or ids travelled in one and text in the \
                 other: {} and {}",
                other.info().model_name,
                collection.info().model_name
            )));
        }
        let read = match objective {
            Objective::CiterS => collection.read_samples()?,
            _ => collection.samples()?,
        };
        // Examples of different collections are different examples.
        let damaged = || Error::usage(format!("{} holds a damaged shard", folder.display()));
        for sample in read {
            let example = sample.example.checked_add(offset).ok_or_else(damaged)?;
            samples.push(Sample { example, ..sample });
        }
        let count = u32::try_from(collection.info().count).map_err(Error::internal)?;
        offset = offset.checked_add(count).ok_or_else(damaged)?;
        digests.push(collection.digest()?);
        first.get_or_insert(collection);
    }
    let first = first.ok_or_else(|| Error::usage("no collection was given"))?;
    Ok((samples, SampleOrigin::new(&first, &digests)))
}
