//! What a graph's inputs and outputs are for.
//!
//! Two layouts are common: caches that grow with every step (optimum), and one buffer that is read
//! and written in place (onnxruntime-genai). An input is recognised by its name where that helps,
//! and else by its element type and shape.

use std::path::Path;

use ::onnx::{
    ElementType, Graph, Hidden,
    graph::{Dimension, ValueInfo},
};

use crate::error::EngineError;

use super::folder::Heads;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePrecision {
    F32,
    F16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntType {
    Int64,
    Int32,
}

#[derive(Clone, Debug)]
pub(crate) struct IntInput {
    pub name: String,
    pub kind: IntType,
}

/// One key or value cache: an input for the past and an output for the present.
#[derive(Clone, Debug)]
pub(crate) struct CachePair {
    pub past: String,
    pub present: String,
    pub heads: usize,
    pub head: usize,
}

/// The inputs and outputs of a graph by their purpose.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub ids: IntInput,
    pub mask: Option<IntInput>,
    pub positions: Option<IntInput>,
    /// A merged decoder is two graphs, one for an empty past; this input chooses between them.
    pub use_cache_branch: Option<String>,
    /// How many positions get logits; 0 means all.
    pub logits_to_keep: Option<IntInput>,
    pub caches: Vec<CachePair>,
    pub precision: CachePrecision,
    /// Past and present may be the same buffer.
    pub in_place: bool,
    pub logits: String,
    pub hidden: String,
    pub width: Option<usize>,
    pub vocabulary: Option<usize>,
}

impl Layout {
    /// The size of one token in all caches together.
    pub fn bytes_per_token(&self) -> u64 {
        let size = match self.precision {
            CachePrecision::F32 => 4,
            CachePrecision::F16 => 2,
        };
        self.caches.iter().map(|pair| (pair.heads * pair.head * size) as u64).sum()
    }

    /// `configured` has the sizes of heads from the model's configuration files, for graphs that
    /// leave them open.
    pub fn new(
        path: &Path,
        graph: &Graph<'_>,
        hidden: &Hidden,
        configured: Heads,
    ) -> Result<Self, EngineError> {
        let refuse = |reason: String| EngineError::Layout { path: path.into(), reason };
        let (mut ids, mut mask, mut positions) = (None, None, None);
        let (mut use_cache_branch, mut logits_to_keep) = (None, None);
        let mut pasts = vec![];
        for input in &graph.inputs {
            let name = input.name.to_ascii_lowercase();
            if is_cache(input) {
                pasts.push(input);
                continue;
            }
            let int_input = int_input(input);
            let slot = match &int_input {
                Some(_) if name.contains("mask") => &mut mask,
                Some(_) if name.contains("position") => &mut positions,
                Some(_) if name.contains("logits_to_keep") => &mut logits_to_keep,
                Some(_) if ids.is_none() => &mut ids,
                None if input.element == Some(ElementType::Bool) && name.contains("cache") => {
                    use_cache_branch = Some(input.name.to_owned());
                    continue;
                }
                _ => {
                    let kind = input.element.map_or("unknown".into(), |e| format!("{e:?}"));
                    let reason =
                        format!("the purpose of its input {:?} ({kind}) is unknown", input.name);
                    return Err(refuse(reason));
                }
            };
            *slot = int_input;
        }
        let ids = ids.ok_or_else(|| refuse("it has no input for token ids".into()))?;
        if pasts.is_empty() {
            let reason = "it has no inputs for past keys and values, so every step would read the \
                          whole text again; export it with its cache";
            return Err(refuse(reason.into()));
        }
        let precision = match pasts.first().and_then(|past| past.element) {
            Some(ElementType::Float16) => CachePrecision::F16,
            _ => CachePrecision::F32,
        };
        let presents: Vec<_> = graph
            .outputs
            .iter()
            .filter(|o| o.name != hidden.logits && o.name != hidden.tensor && may_be_cache(o))
            .collect();
        let caches = pair(&pasts, &presents, configured).map_err(refuse)?;
        let in_place = caches.iter().all(|pair| is_in_place(graph, pair));
        Ok(Self {
            ids,
            mask,
            positions,
            use_cache_branch,
            logits_to_keep,
            caches,
            precision,
            in_place,
            logits: hidden.logits.clone(),
            hidden: hidden.tensor.clone(),
            width: hidden.width,
            vocabulary: hidden.vocabulary,
        })
    }
}

fn int_input(input: &ValueInfo<'_>) -> Option<IntInput> {
    let kind = match input.element? {
        ElementType::Int64 => IntType::Int64,
        ElementType::Int32 => IntType::Int32,
        _ => return None,
    };
    Some(IntInput { name: input.name.to_owned(), kind })
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

/// Pairs each past with its present: by layer and kind where the names give them, else in order.
fn pair(
    pasts: &[&ValueInfo<'_>],
    presents: &[&ValueInfo<'_>],
    configured: Heads,
) -> Result<Vec<CachePair>, String> {
    if pasts.len() != presents.len() {
        let counts = (pasts.len(), presents.len());
        return Err(format!("it takes {} caches and returns {}", counts.0, counts.1));
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
            return Err(format!("two of its caches match the output {:?}", presents[at].name));
        }
        let shape = past.shape.as_deref().unwrap_or_default();
        let [_, heads, _, head] = shape else {
            return Err(format!("its cache {:?} does not have four dimensions", past.name));
        };
        let size = |d: &Dimension| match d {
            Dimension::Fixed(n) => usize::try_from(*n).ok().filter(|n| *n > 0),
            Dimension::Named(_) => None,
        };
        let heads = size(heads).or(configured.count);
        let head = size(head).or(configured.length);
        let (Some(heads), Some(head)) = (heads, head) else {
            return Err(format!(
                "the number and size of the heads of its cache {:?} are unknown: put the model's \
                 genai_config.json or config.json beside it",
                past.name
            ));
        };
        let (past, present) = (past.name.to_owned(), presents[at].name.to_owned());
        pairs.push(CachePair { past, present, heads, head });
    }
    Ok(pairs)
}

/// The layer, and whether it is a value, from names such as `past_key_values.3.value`.
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

/// Whether the attention operator writes the cache where it reads it.
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
