//! Chooses the files of a model in a repository. The same rules apply to the hub's list when a model
//! is pulled and to the files on this machine when it is run.

use std::collections::BTreeMap;

use onnx::layout::{GENAI_CONFIG, USUAL_GRAPHS};
use thiserror::Error;

/// The quantisations to choose, in this order, where a repository has several and the user names
/// none: first four bits, which most machines run best, then the next larger ones.
pub const PREFERRED: [&str; 7] = ["Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0"];

/// The most files listed in an error message.
const MAX_LISTED: usize = 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A GGUF model: one file, or all parts of one in order.
    Gguf(Vec<String>),
    /// The graph of an ONNX model.
    Onnx(String),
    /// A folder whose `genai_config.json` names the graph.
    Genai(String),
}

/// The messages are ends of sentences that begin with the repository's name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChoiceError {
    #[error("has neither a GGUF nor an ONNX model{}", listed(.files))]
    NoModel { files: Vec<String> },
    #[error("has no {selector}{}", listed(.models))]
    NotFound { selector: String, models: Vec<String> },
    #[error("has several models that fit: name one of them after a colon{}", listed(.models))]
    Several { models: Vec<String> },
    #[error("has only {} of the {count} parts of {first}", .found)]
    PartsMissing { first: String, count: usize, found: usize },
}

fn listed(files: &[String]) -> String {
    let more = files.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let lines: String = files.iter().take(MAX_LISTED).map(|f| format!("\n  {f}")).collect();
    if files.is_empty() { String::new() } else { format!("; it has:{lines}{more}") }
}

/// Chooses among a repository's files. GGUF is preferred where there are both GGUF and ONNX models.
pub fn choose(files: &[String], selector: Option<&str>) -> Result<Choice, ChoiceError> {
    let (ggufs, graphs) = (ggufs(files), graphs(files));
    let all = || ggufs.keys().chain(&graphs).cloned().collect::<Vec<_>>();
    let chosen = match selector {
        None => match gguf_by_default(&ggufs)? {
            Some(parts) => Some(Choice::Gguf(parts)),
            None => {
                in_folder(files, "")?.map_or_else(|| in_folder(files, "onnx"), |c| Ok(Some(c)))?
            }
        },
        Some(selector) => match gguf_selected(&ggufs, selector)? {
            Some(parts) => Some(Choice::Gguf(parts)),
            None => onnx_selected(files, &graphs, selector)?,
        },
    };
    match (chosen, selector) {
        (Some(Choice::Gguf(parts)), _) => check_parts(parts).map(Choice::Gguf),
        (Some(onnx), _) => Ok(onnx),
        (None, Some(selector)) => {
            Err(ChoiceError::NotFound { selector: selector.into(), models: all() })
        }
        (None, None) if all().is_empty() => Err(ChoiceError::NoModel { files: files.to_vec() }),
        (None, None) => Err(ChoiceError::Several { models: all() }),
    }
}

/// Every complete model among these files.
pub fn models(files: &[String]) -> Vec<Choice> {
    let ggufs = ggufs(files).into_values().filter_map(|parts| check_parts(parts).ok());
    ggufs.map(Choice::Gguf).chain(graphs(files).into_iter().map(Choice::Onnx)).collect()
}

/// GGUF models by the name of their first file.
fn ggufs(files: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut models = BTreeMap::<String, Vec<String>>::new();
    for file in files.iter().filter(|file| is_gguf_model(file)) {
        let first = part(file).map(|p| p.name(1));
        models.entry(first.unwrap_or_else(|| file.clone())).or_default().push(file.clone());
    }
    models.values_mut().for_each(|parts| parts.sort());
    models
}

/// Image projectors and the tables for quantising are GGUF files too, but not language models.
fn is_gguf_model(file: &str) -> bool {
    let name = base(file).to_lowercase();
    let aid = name.contains("mmproj") || (name.contains("imatrix") && quantisation(file).is_none());
    name.ends_with(".gguf") && !aid
}

fn gguf_by_default(
    ggufs: &BTreeMap<String, Vec<String>>,
) -> Result<Option<Vec<String>>, ChoiceError> {
    if let Some((_, only)) = ggufs.first_key_value().filter(|_| ggufs.len() == 1) {
        return Ok(Some(only.clone()));
    }
    for preferred in PREFERRED {
        if let Some(parts) = gguf_selected(ggufs, preferred)? {
            return Ok(Some(parts));
        }
    }
    match ggufs.len() {
        0 => Ok(None),
        _ => Err(ChoiceError::Several { models: ggufs.keys().cloned().collect() }),
    }
}

/// Selects by path, by the path of any part, or by quantisation.
fn gguf_selected(
    ggufs: &BTreeMap<String, Vec<String>>,
    selector: &str,
) -> Result<Option<Vec<String>>, ChoiceError> {
    if let Some(parts) = ggufs.values().find(|parts| parts.iter().any(|part| part == selector)) {
        return Ok(Some(parts.clone()));
    }
    let is_meant =
        |first: &&String| quantisation(first).is_some_and(|q| q.eq_ignore_ascii_case(selector));
    let meant: Vec<_> = ggufs.keys().filter(is_meant).collect();
    match meant[..] {
        [] => Ok(None),
        [one] => Ok(ggufs.get(one).cloned()),
        _ => Err(ChoiceError::Several { models: meant.into_iter().cloned().collect() }),
    }
}

/// The quantisation in the name of a GGUF file, such as `model-Q4_K_M.gguf` or `x.UD-IQ3_XXS.gguf`.
pub fn quantisation(file: &str) -> Option<&str> {
    let end = part(file).map_or(base(file).len() - extension(base(file)), |p| base(p.stem).len());
    let stem = &base(file)[..end];
    // Searched from the end, because a model's own name may contain such a word.
    let words = stem.rmatch_indices(['-', '.', '_']).map(|(at, _)| at + 1).chain([0]);
    for start in words {
        let rest = &stem[start..];
        let word = &rest[..rest.find(['-', '.']).unwrap_or(rest.len())];
        if is_quantisation(&word.to_uppercase()) {
            let before = start.checked_sub(3).and_then(|from| stem.get(from..start));
            let dynamic = before.is_some_and(|b| b.eq_ignore_ascii_case("UD-"));
            return Some(&stem[start - if dynamic { 3 } else { 0 }..start + word.len()]);
        }
    }
    None
}

fn is_quantisation(word: &str) -> bool {
    let (kind, rest) = word.split_once('_').unwrap_or((word, ""));
    let bits = kind.trim_start_matches(['I', 'T']).strip_prefix('Q');
    let one_digit = bits.is_some_and(|b| b.len() == 1 && b.bytes().all(|b| b.is_ascii_digit()));
    let float = ["F16", "BF16", "F32", "FP16", "FP32", "MXFP4"].contains(&kind);
    let variants = ["K", "S", "M", "L", "XS", "XXS", "XL", "NL", "0", "1", "4", "8", "MOE"];
    let known = |variant: &str| variants.contains(&variant);
    (float || one_digit) && (rest.is_empty() || rest.split('_').all(known))
}

fn extension(name: &str) -> usize {
    name.rfind('.').map_or(0, |dot| name.len() - dot)
}

/// A file that is one of several parts of a model.
struct Part<'a> {
    stem: &'a str,
    number: usize,
    count: usize,
}

impl Part<'_> {
    fn name(&self, number: usize) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count)
    }
}

/// Recognises `STEM-00001-of-00003.gguf`, the names that llama.cpp gives to the parts of a model.
fn part(file: &str) -> Option<Part<'_>> {
    let (rest, count) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let part = |count| Some(Part { stem, number: number.parse().ok()?, count });
    (digits(number) && digits(count)).then(|| part(count.parse().ok()?)).flatten()
}

/// Checks that no part is missing: llama.cpp gets the first and loads the others from beside it.
fn check_parts(parts: Vec<String>) -> Result<Vec<String>, ChoiceError> {
    let Some(count) = parts.first().and_then(|first| part(first)).map(|p| p.count) else {
        return Ok(parts);
    };
    let numbers: Vec<_> = parts.iter().filter_map(|p| part(p)).map(|p| p.number).collect();
    if numbers == (1..=count).collect::<Vec<_>>() {
        return Ok(parts);
    }
    Err(ChoiceError::PartsMissing { first: parts[0].clone(), count, found: parts.len() })
}

fn graphs(files: &[String]) -> Vec<String> {
    files.iter().filter(|file| file.ends_with(".onnx")).cloned().collect()
}

/// Selects a graph by its path, by its folder, or by the end of its name: `q4` is `model_q4.onnx`.
fn onnx_selected(
    files: &[String],
    graphs: &[String],
    selector: &str,
) -> Result<Option<Choice>, ChoiceError> {
    if graphs.iter().any(|graph| graph == selector) {
        return Ok(Some(Choice::Onnx(selector.into())));
    }
    if let Some(choice) = in_folder(files, selector)? {
        return Ok(Some(choice));
    }
    for usual in USUAL_GRAPHS {
        let stem = usual.trim_end_matches(".onnx");
        let name = format!("{stem}_{selector}.onnx");
        let fits = |graph: &&String| {
            matches!(folder(graph), "" | "onnx") && base(graph).eq_ignore_ascii_case(&name)
        };
        if let Some(graph) = graphs.iter().find(fits) {
            return Ok(Some(Choice::Onnx(graph.clone())));
        }
    }
    Ok(None)
}

/// The ONNX model in a folder, by the same rules as in the engine.
fn in_folder(files: &[String], wanted: &str) -> Result<Option<Choice>, ChoiceError> {
    let here: Vec<_> = files.iter().filter(|file| folder(file) == wanted).collect();
    if here.iter().any(|file| base(file) == GENAI_CONFIG) {
        return Ok(Some(Choice::Genai(wanted.into())));
    }
    let graphs: Vec<_> = here.into_iter().filter(|file| file.ends_with(".onnx")).collect();
    let usual = |name: &&str| graphs.iter().find(|graph| base(graph) == *name);
    match (USUAL_GRAPHS.iter().find_map(usual), &graphs[..]) {
        (Some(graph), _) | (None, [graph]) => Ok(Some(Choice::Onnx((*graph).clone()))),
        (None, []) => Ok(None),
        (None, several) => {
            Err(ChoiceError::Several { models: several.iter().map(|g| (*g).clone()).collect() })
        }
    }
}

pub(crate) fn base(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(_, base)| base)
}

/// The path of the folder of a file; empty at the top of the repository.
pub(crate) fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Joins a folder of the repository, or its top, and a name.
pub(crate) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests;
