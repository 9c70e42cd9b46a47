//! What a graph's inputs and outputs are for.
//!
//! Two shapes are common: caches that grow with every step (optimum), and one buffer that is read
//! and written in place (onnxruntime-genai). Names are looked at where they say something; what a
//! tensor is follows from its kind and shape otherwise.

use std::path::Path;

use ::onnx::{
    ElementType, Graph, Hidden,
    graph::{Dimension, ValueInfo},
};

use crate::error::EngineError;

use super::folder::Heads;

/// How the numbers of a cache are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Float,
    Half,
}

/// How whole numbers are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Int64,
    Int32,
}

/// An input of whole numbers.
#[derive(Clone, Debug)]
pub(crate) struct WholeInput {
    pub name: String,
    pub kind: Whole,
}

/// One key or value cache: what goes in as past and comes out as present.
#[derive(Clone, Debug)]
pub(crate) struct CachePair {
    pub past: String,
    pub present: String,
    pub heads: usize,
    pub head: usize,
}

/// How a graph is fed and read.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub ids: WholeInput,
    pub mask: Option<WholeInput>,
    pub positions: Option<WholeInput>,
    /// Says whether there is a past, in decoders merged of two.
    pub branch: Option<String>,
    /// How many logits to give out: all.
    pub keep: Option<WholeInput>,
    pub caches: Vec<CachePair>,
    pub number: Number,
    /// Past and present may be the same buffer.
    pub shared: bool,
    pub logits: String,
    pub hidden: String,
    pub width: Option<usize>,
    pub vocabulary: Option<usize>,
}

impl Layout {
    /// What all caches together take for one token.
    pub fn bytes_per_token(&self) -> u64 {
        let size = match self.number {
            Number::Float => 4,
            Number::Half => 2,
        };
        self.caches.iter().map(|pair| (pair.heads * pair.head * size) as u64).sum()
    }

    /// `told` is what files beside the model say of its heads.
    pub fn new(
        path: &Path,
        graph: &Graph<'_>,
        hidden: &Hidden,
        told: Heads,
    ) -> Result<Self, EngineError> {
        let refuse = |reason: String| EngineError::Layout { path: path.into(), reason };
        let (mut ids, mut mask, mut positions, mut branch, mut keep) =
            (None, None, None, None, None);
        let mut pasts = vec![];
        for input in &graph.inputs {
            let name = input.name.to_ascii_lowercase();
            if is_cache(input) {
                pasts.push(input);
                continue;
            }
            let whole = whole(input);
            let slot = match &whole {
                Some(_) if name.contains("mask") => &mut mask,
                Some(_) if name.contains("position") => &mut positions,
                Some(_) if name.contains("logits_to_keep") => &mut keep,
                Some(_) if ids.is_none() => &mut ids,
                None if input.element == Some(ElementType::Bool) && name.contains("cache") => {
                    branch = Some(input.name.to_owned());
                    continue;
                }
                _ => {
                    let kind = input.element.map_or("unknown".into(), |e| format!("{e:?}"));
                    let reason =
                        format!("nothing is known to feed its input {:?} ({kind})", input.name);
                    return Err(refuse(reason));
                }
            };
            *slot = whole;
        }
        let ids = ids.ok_or_else(|| refuse("it has no input for token ids".into()))?;
        if pasts.is_empty() {
            let reason = "it has no inputs for past keys and values, so every step would read the \
                          whole text again; export it with its cache";
            return Err(refuse(reason.into()));
        }
        let number = match pasts.first().and_then(|past| past.element) {
            Some(ElementType::Float16) => Number::Half,
            _ => Number::Float,
        };
        let presents: Vec<_> = graph
            .outputs
            .iter()
            .filter(|o| o.name != hidden.logits && o.name != hidden.tensor && may_be_cache(o))
            .collect();
        let caches = pair(&pasts, &presents, told).map_err(refuse)?;
        let shared = caches.iter().all(|pair| is_in_place(graph, pair));
        Ok(Self {
            ids,
            mask,
            positions,
            branch,
            keep,
            caches,
            number,
            shared,
            logits: hidden.logits.clone(),
            hidden: hidden.tensor.clone(),
            width: hidden.width,
            vocabulary: hidden.vocabulary,
        })
    }
}

fn whole(input: &ValueInfo<'_>) -> Option<WholeInput> {
    let kind = match input.element? {
        ElementType::Int64 => Whole::Int64,
        ElementType::Int32 => Whole::Int32,
        _ => return None,
    };
    Some(WholeInput { name: input.name.to_owned(), kind })
}

fn is_cache(input: &ValueInfo<'_>) -> bool {
    let float = matches!(input.element, Some(ElementType::Float | ElementType::Float16));
    float && input.shape.as_ref().is_some_and(|shape| shape.len() == 4)
}

/// Outputs may come without a shape.
fn may_be_cache(output: &ValueInfo<'_>) -> bool {
    let float = matches!(output.element, Some(ElementType::Float | ElementType::Float16) | None);
    float && output.shape.as_ref().is_none_or(|shape| shape.len() == 4)
}

/// Brings past and present together: by layer and kind where the names say them, else in order.
fn pair(
    pasts: &[&ValueInfo<'_>],
    presents: &[&ValueInfo<'_>],
    told: Heads,
) -> Result<Vec<CachePair>, String> {
    if pasts.len() != presents.len() {
        let counts = (pasts.len(), presents.len());
        return Err(format!("it takes {} caches and gives out {}", counts.0, counts.1));
    }
    let labels: Option<Vec<_>> = presents.iter().map(|o| label(o.name)).collect();
    let find = |past: &ValueInfo<'_>, i: usize| {
        let by_name = labels.as_ref().zip(label(past.name)).and_then(|(labels, wanted)| {
            let mut found = labels.iter().enumerate().filter(|(_, l)| **l == wanted);
            found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
        });
        by_name.unwrap_or(i)
    };
    let mut taken = vec![false; presents.len()];
    let mut pairs = vec![];
    for (i, past) in pasts.iter().enumerate() {
        let at = find(past, i);
        if std::mem::replace(&mut taken[at], true) {
            return Err(format!("two caches seem to become {:?}", presents[at].name));
        }
        let shape = past.shape.as_deref().unwrap_or_default();
        let [_, heads, _, head] = shape else {
            return Err(format!("the cache {:?} has not four dimensions", past.name));
        };
        let size = |d: &Dimension| match d {
            Dimension::Fixed(n) => usize::try_from(*n).ok().filter(|n| *n > 0),
            Dimension::Named(_) => None,
        };
        let (heads, head) = (size(heads).or(told.count), size(head).or(told.length));
        let (Some(heads), Some(head)) = (heads, head) else {
            return Err(format!(
                "the cache {:?} does not say how many heads it has, nor does a genai_config.json or \
                 config.json beside the model",
                past.name
            ));
        };
        let (past, present) = (past.name.to_owned(), presents[at].name.to_owned());
        pairs.push(CachePair { past, present, heads, head });
    }
    Ok(pairs)
}

/// Layer and kind, as in `past_key_values.3.value`.
fn label(name: &str) -> Option<(usize, bool)> {
    let lower = name.to_ascii_lowercase();
    let lower = lower.replace("past_key_values", "").replace("key_value", "");
    let digits = lower.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?;
    let is_value = match (lower.contains("key"), lower.contains("value")) {
        (true, false) => false,
        (false, true) => true,
        _ => return None,
    };
    Some((digits.parse().ok()?, is_value))
}

/// Attention that writes where it reads.
fn is_in_place(graph: &Graph<'_>, pair: &CachePair) -> bool {
    graph.producer(&pair.present).is_some_and(|node| {
        node.op == "GroupQueryAttention" && node.inputs.contains(&pair.past.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_layer_and_kind() {
        assert_eq!(label("past_key_values.3.value"), Some((3, true)));
        assert_eq!(label("present.12.key"), Some((12, false)));
        assert_eq!(label("past_key_0"), Some((0, false)));
        assert_eq!(label("present_value_7"), Some((7, true)));
        assert_eq!(label("cache_4"), None);
        assert_eq!(label("key"), None);
    }
}
