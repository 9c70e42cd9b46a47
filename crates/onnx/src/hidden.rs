//! Which tensor is the hidden state: what the last matrix multiplication before the logits reads.
//!
//! Names differ from tool to tool, the shape of the thing does not. From the logits we walk back
//! over operations that only reshape, cut, scale or convert, until we meet multiplications with a
//! fixed matrix; what they read is the hidden state.

use std::{collections::HashMap, fmt};

use crate::{
    error::{OnnxError, WireError},
    graph::{Attribute, Dimension, ElementType, File, Graph, Node, Refused},
};

/// Branches in branches.
pub(crate) const MOST_DEEP: usize = 4;

/// Candidates named in a message.
const MOST_CANDIDATES: usize = 12;

/// Operations whose first input alone carries the values on.
const PASSING: [&str; 12] = [
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

/// Operations that scale or shift, with the values on either side.
const SCALING: [&str; 6] = ["Mul", "Div", "Add", "Sub", "Tanh", "Softcap"];

/// Multiplications with a matrix.
const HEADS: [&str; 12] = [
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

/// What turns the hidden state into bytes before some of them.
const QUANTISING: [&str; 2] = ["DynamicQuantizeLinear", "QuantizeLinear"];

/// Operations that leave a fixed matrix fixed.
const STEADY: [&str; 5] = ["Transpose", "Cast", "Identity", "DequantizeLinear", "Reshape"];

/// Where the hidden state is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The tensor, in the graph or the branch it lives in.
    pub tensor: String,
    /// The output that holds the logits.
    pub logits: String,
    /// How long one hidden state is, where the matrix says.
    pub width: Option<usize>,
    /// How many logits there are, where the matrix says.
    pub vocabulary: Option<usize>,
    /// How its numbers are stored, where that is known.
    pub element: Option<ElementType>,
    /// The hidden states of both branches, where the logits come out of an `If`.
    pub branches: Vec<Branch>,
}

/// A branch of an `If`, and the hidden state in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// `then_branch` or `else_branch`.
    pub attribute: &'static str,
    /// The hidden state there.
    pub hidden: Hidden,
}

/// A tensor that may be the hidden state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub tensor: String,
    /// The operation that reads it.
    pub reader: String,
    /// Its shape, as far as it is known.
    pub shape: String,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, read by {}", self.tensor, self.shape, self.reader)
    }
}

impl Candidate {
    /// A list for people.
    pub(crate) fn describe(candidates: &[Self]) -> String {
        if candidates.is_empty() {
            return String::new();
        }
        let lines: Vec<_> = candidates.iter().map(|c| format!("\n  {c}")).collect();
        format!("; candidates, to be chosen with --tensor:{}", lines.concat())
    }
}

/// Why it was not found, before the file's name is known.
#[derive(Debug)]
pub(crate) enum Lost {
    Refused(Refused),
    Cyclic { node: String },
    TooDeep,
    NotFound { reason: String, candidates: Vec<Candidate> },
}

impl From<WireError> for Lost {
    fn from(error: WireError) -> Self {
        Self::Refused(Refused::Wire(error))
    }
}

impl From<Refused> for Lost {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Hidden {
    /// Finds the hidden state of a file's graph.
    pub fn find(file: &File, graph: &Graph<'_>) -> Result<Self, OnnxError> {
        let path = || file.path().to_owned();
        find(&Scope { graph, outer: None }, 0)
            .map_err(|lost| match lost {
                Lost::Refused(refused) => file.refuse(refused),
                Lost::Cyclic { node } => OnnxError::Cyclic { path: path(), node },
                Lost::TooDeep => OnnxError::TooDeep { path: path(), most: MOST_DEEP },
                Lost::NotFound { reason, candidates } => {
                    OnnxError::Hidden { path: path(), reason, candidates }
                }
            })
            .or_else(|error| Self::chosen(file, graph, error))
    }

    /// Where several tensors could be it and one of them is an output, somebody has chosen.
    fn chosen(file: &File, graph: &Graph<'_>, error: OnnxError) -> Result<Self, OnnxError> {
        let OnnxError::Hidden { candidates, .. } = &error else { return Err(error) };
        let mut given =
            candidates.iter().filter(|c| graph.outputs.iter().any(|o| o.name == c.tensor));
        match (given.next(), given.next()) {
            (Some(one), None) => Self::named(file, graph, &one.tensor),
            _ => Err(error),
        }
    }

    /// A tensor the user named.
    pub fn named(file: &File, graph: &Graph<'_>, tensor: &str) -> Result<Self, OnnxError> {
        let scope = Scope { graph, outer: None };
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

    /// The graph output that already holds it, if there is one.
    pub fn output<'a>(&self, graph: &Graph<'a>) -> Option<&'a str> {
        if !self.branches.is_empty() {
            return None;
        }
        graph.outputs.iter().find(|output| output.name == self.tensor).map(|output| output.name)
    }
}

/// Every tensor that a multiplication with a fixed matrix reads, the last first.
pub fn list(graph: &Graph<'_>) -> Vec<Candidate> {
    candidates(&Scope { graph, outer: None })
}

/// A graph, and the one around it.
struct Scope<'s, 'a> {
    graph: &'s Graph<'a>,
    outer: Option<&'s Scope<'s, 'a>>,
}

/// A multiplication with a fixed matrix.
#[derive(Clone, Debug)]
struct Head<'a> {
    hidden: &'a str,
    width: Option<usize>,
    vocabulary: Option<usize>,
    element: Option<ElementType>,
    reader: String,
}

fn find(scope: &Scope<'_, '_>, depth: usize) -> Result<Hidden, Lost> {
    if depth > MOST_DEEP {
        return Err(Lost::TooDeep);
    }
    let graph = scope.graph;
    let named = |test: &dyn Fn(&str) -> bool| graph.outputs.iter().find(|o| test(o.name));
    let logits = named(&|name| name == "logits")
        .or_else(|| named(&|name| name.to_ascii_lowercase().contains("logits")));
    if let Some(output) = logits {
        return hidden_of(scope, output.name, depth);
    }
    // Nothing is called logits: the output with the widest head is.
    let mut widest: Option<Hidden> = None;
    for output in &graph.outputs {
        match hidden_of(scope, output.name, depth) {
            Ok(hidden) if widest.as_ref().is_none_or(|w| w.vocabulary < hidden.vocabulary) => {
                widest = Some(hidden);
            }
            Ok(_) | Err(Lost::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let reason = "no output is called logits, and none comes out of a fixed matrix";
    widest.ok_or_else(|| lost(scope, reason.into()))
}

fn lost(scope: &Scope<'_, '_>, reason: String) -> Lost {
    Lost::NotFound { reason, candidates: candidates(scope) }
}

/// The hidden state behind one output.
fn hidden_of(scope: &Scope<'_, '_>, output: &str, depth: usize) -> Result<Hidden, Lost> {
    if let Some(node) = scope.graph.producer(output).filter(|node| node.op == "If") {
        return in_branches(scope, node, output, depth);
    }
    let heads = heads(scope, output)?;
    let mut tensors: Vec<_> = heads.iter().map(|head| head.hidden).collect();
    tensors.dedup();
    let head = match (&heads[..], tensors.len()) {
        (_, 0) => {
            let reason = format!("no multiplication with a fixed matrix leads to {output:?}");
            return Err(lost(scope, reason));
        }
        (heads, 1) => &heads[0],
        (heads, _) => {
            let reason = format!("{output:?} comes from {} matrices", heads.len());
            let candidates = heads.iter().map(|head| scope.candidate(head)).collect();
            return Err(Lost::NotFound { reason, candidates });
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
) -> Result<Hidden, Lost> {
    let at = node.outputs.iter().position(|name| *name == output).unwrap_or(0);
    let mut branches = vec![];
    for attribute in ["then_branch", "else_branch"] {
        let Some(Attribute::Graph(bytes)) = node.attribute(attribute)? else {
            return Err(lost(
                scope,
                format!("the If that gives out {output:?} has no {attribute}"),
            ));
        };
        let graph = Graph::parse(bytes)?;
        let inner = Scope { graph: &graph, outer: Some(scope) };
        let Some(logits) = graph.outputs.get(at) else {
            return Err(lost(scope, format!("the {attribute} gives out too little")));
        };
        if depth >= MOST_DEEP {
            return Err(Lost::TooDeep);
        }
        let hidden = hidden_of(&inner, logits.name, depth + 1)?;
        branches.push(Branch { attribute, hidden });
    }
    let Some(first) = branches.first().map(|branch| branch.hidden.clone()) else {
        return Err(lost(scope, "an If without branches".into()));
    };
    let taken =
        |name: &str| scope.graph.producers.contains_key(name) || scope.graph.value(name).is_some();
    let mut tensor = "hidden_states".to_owned();
    while taken(&tensor) {
        tensor.push('_');
    }
    Ok(Hidden { tensor, logits: output.into(), branches, ..first })
}

/// Walks back from a tensor to every head that feeds it.
fn heads<'a>(scope: &Scope<'_, 'a>, output: &str) -> Result<Vec<Head<'a>>, Lost> {
    #[derive(PartialEq)]
    enum State {
        Entered,
        Left,
    }
    let graph = scope.graph;
    let mut found: Vec<Head<'a>> = vec![];
    let mut states: HashMap<usize, State> = HashMap::new();
    let start = graph.producers.get(output).copied();
    // Each node is seen twice: on the way in, and when everything behind it has been seen.
    let mut stack: Vec<(usize, bool)> = start.into_iter().map(|i| (i, false)).collect();
    while let Some((i, leaving)) = stack.pop() {
        if leaving {
            states.insert(i, State::Left);
            continue;
        }
        let node = &graph.nodes[i];
        match states.get(&i) {
            Some(State::Left) => continue,
            Some(State::Entered) => {
                return Err(Lost::Cyclic { node: label(node) });
            }
            None => {}
        }
        states.insert(i, State::Entered);
        stack.push((i, true));
        if let Some(head) = scope.head(node)? {
            if !found.iter().any(|f| f.hidden == head.hidden) {
                found.push(head);
            }
            continue;
        }
        let carried = match node.op {
            op if PASSING.contains(&op) => &node.inputs[..node.inputs.len().min(1)],
            op if SCALING.contains(&op) => &node.inputs[..],
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
    /// What a node reads, if it multiplies with a fixed matrix.
    fn head(&self, node: &Node<'a>) -> Result<Option<Head<'a>>, WireError> {
        let (Some(&first), Some(&second)) = (node.inputs.first(), node.inputs.get(1)) else {
            return Ok(None);
        };
        if !HEADS.contains(&node.op) {
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

    /// Bytes are no hidden state: what they were made from is.
    fn before_quantising(&self, tensor: &'a str) -> &'a str {
        match self.graph.producer(tensor) {
            Some(node) if QUANTISING.contains(&node.op) => {
                node.inputs.first().copied().unwrap_or(tensor)
            }
            _ => tensor,
        }
    }

    /// A fixed matrix: weights, or weights that are only turned or converted.
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
        if !STEADY.contains(&node.op) {
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
        if found.len() == MOST_CANDIDATES {
            break;
        }
    }
    found
}
