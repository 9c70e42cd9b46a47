//! Finds the hidden state: the input of the last matrix multiplication before the logits.
//!
//! Names differ from tool to tool, but the structure does not. The search walks back from the logits
//! over operations that only reshape, slice, scale or convert, to multiplications with a constant
//! matrix. Their input is the hidden state.

use std::{collections::HashSet, fmt, path::PathBuf};

use crate::{
    error::{OnnxError, WireError},
    graph::{Attribute, Dimension, ElementType, File, Graph, Node},
};

/// The deepest nesting of `If` branches.
const MAX_DEPTH: usize = 4;

/// The most candidates listed in a message.
const MAX_CANDIDATES: usize = 12;

/// Operations that pass on the values of their first input.
const PASS_THROUGH_OPS: [&str; 12] = [
    "Cast",
    "CastLike",
    "Reshape",
    "Slice",
    "Gather",
    "GatherND",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Transpose",
    "Flatten",
    "Clip",
];

/// Operations that scale or shift; the values may be any of their inputs.
const SCALING_OPS: [&str; 6] = ["Mul", "Div", "Add", "Sub", "Tanh", "Softcap"];

const MATMUL_OPS: [&str; 12] = [
    "MatMul",
    "Gemm",
    "FusedMatMul",
    "FusedGemm",
    "MatMulNBits",
    "MatMulBnb4",
    "MatMulFpQ4",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
    "QLinearMatMul",
    "QGemm",
];

/// Operations that quantise the hidden state before a multiplication.
const QUANTIZE_OPS: [&str; 2] = ["DynamicQuantizeLinear", "QuantizeLinear"];

/// Operations whose result is constant if their input is.
const CONSTANT_OPS: [&str; 5] = ["Transpose", "Cast", "Identity", "DequantizeLinear", "Reshape"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The tensor's name in its graph or branch.
    pub tensor: String,
    /// The name of the output with the logits.
    pub logits: String,
    /// The length of a hidden state, if the matrix gives it.
    pub width: Option<usize>,
    /// The number of logits, if the matrix gives it.
    pub vocabulary: Option<usize>,
    pub element: Option<ElementType>,
    /// The hidden states of both branches, if the logits are an output of an `If`.
    pub branches: Vec<Branch>,
}

/// A branch of an `If`, and the hidden state in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// `then_branch` or `else_branch`.
    pub attribute: &'static str,
    pub hidden: Hidden,
}

/// A tensor that may be the hidden state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub tensor: String,
    /// The operation that reads it.
    pub reader: String,
    /// Its shape as text, as far as it is known.
    pub shape: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, read by {}", self.tensor, self.shape, self.reader)
    }
}

impl Candidate {
    /// The end of an error message that lists the candidates.
    pub(crate) fn describe(candidates: &[Self]) -> String {
        if candidates.is_empty() {
            return String::new();
        }
        let lines: Vec<_> = candidates.iter().map(|c| format!("\n  {c}")).collect();
        format!("; choose one of these candidates with --tensor:{}", lines.concat())
    }
}

impl Hidden {
    pub fn find(file: &File, graph: &Graph<'_>) -> Result<Self, OnnxError> {
        let found = find(&Scope { file, graph, outer: None });
        found.or_else(|error| Self::already_output(file, graph, error))
    }

    /// If several tensors are candidates and one of them is an output, somebody has chosen that one.
    fn already_output(file: &File, graph: &Graph<'_>, error: OnnxError) -> Result<Self, OnnxError> {
        let OnnxError::Hidden { candidates, .. } = &error else { return Err(error) };
        let mut given =
            candidates.iter().filter(|c| graph.outputs.iter().any(|o| o.name == c.tensor));
        match (given.next(), given.next()) {
            (Some(one), None) => Self::named(file, graph, &one.tensor),
            _ => Err(error),
        }
    }

    pub fn named(file: &File, graph: &Graph<'_>, tensor: &str) -> Result<Self, OnnxError> {
        let scope = Scope { file, graph, outer: None };
        if !graph.producers.contains_key(tensor) {
            let (path, tensor) = (file.path().into(), tensor.to_owned());
            let candidates = candidates(&scope);
            return Err(OnnxError::NoTensor { path, tensor, candidates });
        }
        let read = graph.nodes.iter().filter_map(|node| scope.head(node).ok().flatten());
        let head = read.into_iter().find(|head| head.hidden == tensor);
        let named = graph.outputs.iter().find(|output| output.name == "logits");
        let logits = named.or(graph.outputs.first()).map_or("", |output| output.name);
        Ok(Self {
            tensor: tensor.into(),
            logits: logits.into(),
            width: head.as_ref().and_then(|h| h.width),
            vocabulary: None,
            element: scope.element(tensor, head.as_ref()),
            branches: vec![],
        })
    }

    /// The output that already is the hidden state, if there is one.
    pub fn output<'a>(&self, graph: &Graph<'a>) -> Option<&'a str> {
        if !self.branches.is_empty() {
            return None;
        }
        graph.outputs.iter().find(|output| output.name == self.tensor).map(|output| output.name)
    }
}

/// Every tensor that is multiplied with a constant matrix, the last first.
pub fn list(file: &File, graph: &Graph<'_>) -> Vec<Candidate> {
    candidates(&Scope { file, graph, outer: None })
}

/// A graph and the graph around it, whose tensors it may use.
struct Scope<'s, 'a> {
    file: &'s File,
    graph: &'s Graph<'a>,
    outer: Option<&'s Scope<'s, 'a>>,
}

/// A multiplication with a constant matrix.
#[derive(Clone, Debug)]
struct Head<'a> {
    hidden: &'a str,
    width: Option<usize>,
    vocabulary: Option<usize>,
    element: Option<ElementType>,
    reader: String,
}

fn find(scope: &Scope<'_, '_>) -> Result<Hidden, OnnxError> {
    let graph = scope.graph;
    let named = |test: &dyn Fn(&str) -> bool| graph.outputs.iter().find(|o| test(o.name));
    let logits = named(&|name| name == "logits")
        .or_else(|| named(&|name| name.to_ascii_lowercase().contains("logits")));
    if let Some(output) = logits {
        return hidden_of(scope, output.name, 0);
    }
    // No output is called logits, so the one with the largest vocabulary is taken.
    let mut widest: Option<Hidden> = None;
    for output in &graph.outputs {
        match hidden_of(scope, output.name, 0) {
            Ok(hidden) if widest.as_ref().is_none_or(|w| w.vocabulary < hidden.vocabulary) => {
                widest = Some(hidden);
            }
            Ok(_) | Err(OnnxError::Hidden { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let reason = "no output is called logits, and none comes from a constant matrix";
    widest.ok_or_else(|| not_found(scope, reason.into()))
}

fn not_found(scope: &Scope<'_, '_>, reason: String) -> OnnxError {
    OnnxError::Hidden { path: scope.path(), reason, candidates: candidates(scope) }
}

/// The hidden state from which one output is computed.
fn hidden_of(scope: &Scope<'_, '_>, output: &str, depth: usize) -> Result<Hidden, OnnxError> {
    if let Some(node) = scope.graph.producer(output).filter(|node| node.op == "If") {
        return in_branches(scope, node, output, depth);
    }
    let heads = heads(scope, output)?;
    let mut tensors: Vec<_> = heads.iter().map(|head| head.hidden).collect();
    tensors.dedup();
    let head = match (&heads[..], tensors.len()) {
        (_, 0) => {
            let reason = format!("no multiplication with a constant matrix leads to {output:?}");
            return Err(not_found(scope, reason));
        }
        (heads, 1) => &heads[0],
        (heads, _) => {
            let reason = format!("{output:?} comes from {} matrices", heads.len());
            let candidates = heads.iter().map(|head| scope.candidate(head)).collect();
            return Err(OnnxError::Hidden { path: scope.path(), reason, candidates });
        }
    };
    Ok(Hidden {
        tensor: head.hidden.into(),
        logits: output.into(),
        width: head.width,
        vocabulary: head.vocabulary,
        element: scope.element(head.hidden, Some(head)),
        branches: vec![],
    })
}

fn in_branches(
    scope: &Scope<'_, '_>,
    node: &Node<'_>,
    output: &str,
    depth: usize,
) -> Result<Hidden, OnnxError> {
    let at = node.outputs.iter().position(|name| *name == output).unwrap_or(0);
    let mut branches = vec![];
    for attribute in ["then_branch", "else_branch"] {
        let branch = node.attribute(attribute).map_err(|e| scope.file.error(e))?;
        let Some(Attribute::Graph(bytes)) = branch else {
            return Err(not_found(
                scope,
                format!("the If that produces {output:?} has no {attribute}"),
            ));
        };
        let graph = Graph::parse(bytes).map_err(|e| scope.file.error(e))?;
        let inner = Scope { file: scope.file, graph: &graph, outer: Some(scope) };
        let Some(logits) = graph.outputs.get(at) else {
            return Err(not_found(scope, format!("the {attribute} has too few outputs")));
        };
        if depth >= MAX_DEPTH {
            return Err(OnnxError::TooDeep { path: scope.path(), most: MAX_DEPTH });
        }
        let hidden = hidden_of(&inner, logits.name, depth + 1)?;
        branches.push(Branch { attribute, hidden });
    }
    let first = branches[0].hidden.clone();
    let taken =
        |name: &str| scope.graph.producers.contains_key(name) || scope.graph.value(name).is_some();
    let mut tensor = "hidden_states".to_owned();
    while taken(&tensor) {
        tensor.push('_');
    }
    Ok(Hidden { tensor, logits: output.into(), branches, ..first })
}

/// Walks back from a tensor to every multiplication that it is computed from.
fn heads<'a>(scope: &Scope<'_, 'a>, output: &str) -> Result<Vec<Head<'a>>, OnnxError> {
    let graph = scope.graph;
    let mut found: Vec<Head<'a>> = vec![];
    let (mut entered, mut left) = (HashSet::new(), HashSet::new());
    let start = graph.producers.get(output).copied();
    // Each node is on the stack twice: it is entered, and left after all its inputs. A node that is
    // entered again before it is left is part of a cycle.
    let mut stack: Vec<(usize, bool)> = start.into_iter().map(|i| (i, false)).collect();
    while let Some((i, leaving)) = stack.pop() {
        if leaving {
            left.insert(i);
            continue;
        }
        if left.contains(&i) {
            continue;
        }
        let node = &graph.nodes[i];
        if !entered.insert(i) {
            return Err(OnnxError::Cyclic { path: scope.path(), node: label(node) });
        }
        stack.push((i, true));
        if let Some(head) = scope.head(node).map_err(|e| scope.file.error(e))? {
            if !found.iter().any(|f| f.hidden == head.hidden) {
                found.push(head);
            }
            continue;
        }
        let carried = match node.op {
            op if PASS_THROUGH_OPS.contains(&op) => &node.inputs[..node.inputs.len().min(1)],
            op if SCALING_OPS.contains(&op) => &node.inputs[..],
            _ => &[],
        };
        stack.extend(
            carried.iter().filter_map(|name| graph.producers.get(name)).map(|&i| (i, false)),
        );
    }
    Ok(found)
}

fn label(node: &Node<'_>) -> String {
    if node.name.is_empty() { node.op.into() } else { node.name.into() }
}

impl<'a> Scope<'_, 'a> {
    fn path(&self) -> PathBuf {
        self.file.path().into()
    }

    /// Describes a node that multiplies with a constant matrix; `None` for any other.
    fn head(&self, node: &Node<'a>) -> Result<Option<Head<'a>>, WireError> {
        let (Some(&first), Some(&second)) = (node.inputs.first(), node.inputs.get(1)) else {
            return Ok(None);
        };
        if !MATMUL_OPS.contains(&node.op) {
            return Ok(None);
        }
        let weight_at = if node.op.starts_with("QLinear") || node.op == "QGemm" { 3 } else { 1 };
        let weight = node.inputs.get(weight_at).copied().unwrap_or(second);
        let (hidden, matrix) = if let Some(matrix) = self.matrix(weight, 0)? {
            (first, matrix)
        } else if let Some(matrix) = self.matrix(first, 0)? {
            (second, Matrix { dims: matrix.dims.into_iter().rev().collect(), ..matrix })
        } else {
            return Ok(None);
        };
        let (width, vocabulary) = match (node.int("K"), node.int("N")) {
            (Some(width), Some(vocabulary)) => (Some(width), Some(vocabulary)),
            _ => {
                let turned = node.int("transB").unwrap_or(0) != 0;
                let [rows, columns] = matrix.dims[..] else { return Ok(None) };
                if turned { (Some(columns), Some(rows)) } else { (Some(rows), Some(columns)) }
            }
        };
        let size = |n: Option<i64>| n.and_then(|n| usize::try_from(n).ok());
        let element = match node.op {
            "MatMulInteger" | "QLinearMatMul" | "QGemm" => Some(ElementType::Float),
            "MatMulNBits" | "MatMulBnb4" | "DynamicQuantizeMatMul" | "MatMulIntegerToFloat" => {
                node.inputs.get(2).and_then(|scales| self.tensor_element(scales))
            }
            _ => matrix.element,
        };
        Ok(Some(Head {
            hidden: self.before_quantising(hidden),
            width: size(width),
            vocabulary: size(vocabulary),
            element,
            reader: label(node),
        }))
    }

    /// If the tensor is quantised, the one it was quantised from.
    fn before_quantising(&self, tensor: &'a str) -> &'a str {
        match self.graph.producer(tensor) {
            Some(node) if QUANTIZE_OPS.contains(&node.op) => {
                node.inputs.first().copied().unwrap_or(tensor)
            }
            _ => tensor,
        }
    }

    /// A constant matrix: weights, perhaps transposed or converted.
    fn matrix(&self, tensor: &str, depth: usize) -> Result<Option<Matrix>, WireError> {
        if depth > 8 {
            return Ok(None);
        }
        if let Some(weights) = self.graph.initializers.get(tensor) {
            let (dims, element) = (weights.dims.clone(), Some(weights.element));
            return Ok(Some(Matrix { dims, element }));
        }
        let Some(node) = self.graph.producer(tensor) else {
            return self.outer.map_or(Ok(None), |outer| outer.matrix(tensor, depth + 1));
        };
        if node.op == "Constant" {
            let Some(Attribute::Tensor(bytes)) = node.attribute("value")? else { return Ok(None) };
            let constant = crate::graph::tensor(bytes)?;
            return Ok(Some(Matrix { dims: constant.dims, element: Some(constant.element) }));
        }
        if !CONSTANT_OPS.contains(&node.op) {
            return Ok(None);
        }
        let Some(first) = node.inputs.first() else { return Ok(None) };
        let Some(mut matrix) = self.matrix(first, depth + 1)? else { return Ok(None) };
        match node.op {
            "Transpose" => matrix.dims.reverse(),
            "Cast" => matrix.element = node.int("to").map(ElementType::from_number),
            "DequantizeLinear" => {
                matrix.element = node.inputs.get(1).and_then(|s| self.tensor_element(s));
            }
            _ => {}
        }
        Ok(Some(matrix))
    }

    fn tensor_element(&self, tensor: &str) -> Option<ElementType> {
        let here = self.graph.initializers.get(tensor).map(|t| t.element);
        here.or_else(|| self.outer.and_then(|outer| outer.tensor_element(tensor)))
    }

    fn element(&self, tensor: &str, head: Option<&Head<'_>>) -> Option<ElementType> {
        let listed = self.graph.value(tensor).and_then(|value| value.element);
        listed.or_else(|| head.and_then(|head| head.element))
    }

    fn candidate(&self, head: &Head<'_>) -> Candidate {
        let dimension = |d: &Dimension| match d {
            Dimension::Fixed(n) => n.to_string(),
            Dimension::Named(name) if name.is_empty() => "?".into(),
            Dimension::Named(name) => name.clone(),
        };
        let shape = match self.graph.value(head.hidden).and_then(|v| v.shape.as_ref()) {
            Some(shape) => shape.iter().map(dimension).collect::<Vec<_>>().join(", "),
            None => head.width.map_or_else(|| "…".into(), |width| format!("…, {width}")),
        };
        let (tensor, reader) = (head.hidden.to_owned(), head.reader.clone());
        Candidate { tensor, reader, shape: format!("[{shape}]") }
    }
}

struct Matrix {
    dims: Vec<i64>,
    element: Option<ElementType>,
}

fn candidates(scope: &Scope<'_, '_>) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = vec![];
    for node in scope.graph.nodes.iter().rev() {
        let Ok(Some(head)) = scope.head(node) else { continue };
        if !found.iter().any(|c| c.tensor == head.hidden) {
            found.push(scope.candidate(&head));
        }
        if found.len() == MAX_CANDIDATES {
            break;
        }
    }
    found
}
