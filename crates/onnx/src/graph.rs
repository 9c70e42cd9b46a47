//! What a file says of its graph, borrowed from its bytes.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::{OnnxError, WireError},
    wire::{Field, Fields, Value, fields},
};

/// A message of protocol buffers cannot be larger.
const MOST_BYTES: u64 = 2 << 30;

/// Nodes, tensors or names of one graph: the largest models have some ten thousands. A small file
/// can claim to hold many empty ones.
const MOST_ITEMS: usize = 500_000;

/// Dimensions of one tensor.
const MOST_DIMENSIONS: usize = 64;

/// How one number of a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// 32-bit float.
    Float,
    /// Unsigned bytes.
    Uint8,
    /// Signed bytes.
    Int8,
    /// 32-bit integers.
    Int32,
    /// 64-bit integers.
    Int64,
    /// Yes or no.
    Bool,
    /// 16-bit float.
    Float16,
    /// 16-bit float with the range of 32.
    Bfloat16,
    /// Anything else, by ONNX's number.
    Other(i64),
}

impl ElementType {
    /// From ONNX's number.
    pub fn from_number(number: i64) -> Self {
        match number {
            1 => Self::Float,
            2 => Self::Uint8,
            3 => Self::Int8,
            6 => Self::Int32,
            7 => Self::Int64,
            9 => Self::Bool,
            10 => Self::Float16,
            16 => Self::Bfloat16,
            other => Self::Other(other),
        }
    }

    /// ONNX's number.
    pub fn number(self) -> i64 {
        match self {
            Self::Float => 1,
            Self::Uint8 => 2,
            Self::Int8 => 3,
            Self::Int32 => 6,
            Self::Int64 => 7,
            Self::Bool => 9,
            Self::Float16 => 10,
            Self::Bfloat16 => 16,
            Self::Other(number) => number,
        }
    }
}

/// One dimension: a number, or a name for one that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Always this.
    Fixed(i64),
    /// Decided when it runs; may have no name.
    Named(String),
}

/// A tensor's name and what is known of it.
#[derive(Clone, Debug, Default)]
pub struct ValueInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// How its numbers are stored.
    pub element: Option<ElementType>,
    /// Its shape.
    pub shape: Option<Vec<Dimension>>,
    /// The whole message.
    pub bytes: &'a [u8],
}

/// Weights.
#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape.
    pub dims: Vec<i64>,
    /// How its numbers are stored.
    pub element: ElementType,
    /// Where its bytes are, if not in the file.
    pub external: Option<External<'a>>,
}

/// A range of another file.
#[derive(Clone, Debug, Default)]
pub struct External<'a> {
    /// The file, from the model's folder.
    pub location: &'a str,
    /// Where it begins.
    pub offset: u64,
    /// How long it is, if the model says.
    pub length: Option<u64>,
}

/// An operation.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// Its name; may be empty.
    pub name: &'a str,
    /// What it does.
    pub op: &'a str,
    /// Tensors it reads; an empty name stands for one that is left out.
    pub inputs: Vec<&'a str>,
    /// Tensors it gives out.
    pub outputs: Vec<&'a str>,
    /// The whole message.
    pub bytes: &'a [u8],
}

/// An attribute of a node.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    /// A number.
    Int(i64),
    /// A graph of its own.
    Graph(&'a [u8]),
    /// A tensor.
    Tensor(&'a [u8]),
}

impl<'a> Node<'a> {
    /// The attribute of this name, if it is of a kind we read.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute<'a>>, WireError> {
        for field in fields(self.bytes) {
            let field = field?;
            if field.number != 5 {
                continue;
            }
            let (mut named, mut found) = (false, None);
            for part in fields(field.bytes()?) {
                let part = part?;
                match (part.number, part.value) {
                    (1, _) => named = part.text()? == name,
                    (3, Value::Varint(value)) => {
                        found = Some(Attribute::Int(value.cast_signed()));
                    }
                    (5, Value::Bytes(bytes)) => found = Some(Attribute::Tensor(bytes)),
                    (6, Value::Bytes(bytes)) => found = Some(Attribute::Graph(bytes)),
                    _ => {}
                }
            }
            if named {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// A number, where it is given.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name) {
            Ok(Some(Attribute::Int(value))) => Some(value),
            _ => None,
        }
    }
}

/// A graph and where everything in it comes from.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    /// In the order of the file.
    pub nodes: Vec<Node<'a>>,
    /// Weights by name.
    pub initializers: HashMap<&'a str, Tensor<'a>>,
    /// What must be fed. Old models list their weights here too; those are left out.
    pub inputs: Vec<ValueInfo<'a>>,
    /// What comes out.
    pub outputs: Vec<ValueInfo<'a>>,
    /// What is known of tensors between.
    pub values: HashMap<&'a str, ValueInfo<'a>>,
    /// Which node gives out a tensor.
    pub producers: HashMap<&'a str, usize>,
    /// The whole message.
    pub bytes: &'a [u8],
}

/// Why a graph is refused, before the file's name is known.
#[derive(Debug)]
pub(crate) enum Refused {
    Wire(WireError),
    TooMany { what: &'static str, most: usize },
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl<'a> Graph<'a> {
    /// Reads a graph's message.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        let mut graph = Self { bytes, ..Self::default() };
        for field in fields(bytes) {
            let field = field?;
            match field.number {
                1 => graph.nodes.push(node(field.bytes()?)?),
                5 => {
                    let tensor = tensor(field.bytes()?)?;
                    graph.initializers.insert(tensor.name, tensor);
                }
                11 => graph.inputs.push(value_info(field.bytes()?)?),
                12 => graph.outputs.push(value_info(field.bytes()?)?),
                13 => {
                    let info = value_info(field.bytes()?)?;
                    graph.values.insert(info.name, info);
                }
                _ => {}
            }
            let counts = [
                ("nodes", graph.nodes.len()),
                ("weights", graph.initializers.len()),
                ("inputs", graph.inputs.len()),
                ("outputs", graph.outputs.len()),
                ("tensors", graph.values.len()),
            ];
            if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count > MOST_ITEMS) {
                return Err(Refused::TooMany { what, most: MOST_ITEMS });
            }
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            for output in node.outputs.iter().filter(|name| !name.is_empty()) {
                graph.producers.insert(output, i);
            }
        }
        let Self { inputs, initializers, .. } = &mut graph;
        inputs.retain(|input| !initializers.contains_key(input.name));
        Ok(graph)
    }

    /// The node that gives out a tensor.
    pub fn producer(&self, tensor: &str) -> Option<&Node<'a>> {
        self.producers.get(tensor).and_then(|&i| self.nodes.get(i))
    }

    /// What is known of a tensor, wherever it is listed.
    pub fn value(&self, tensor: &str) -> Option<&ValueInfo<'a>> {
        let listed = self.outputs.iter().chain(&self.inputs).find(|v| v.name == tensor);
        listed.or_else(|| self.values.get(tensor))
    }
}

fn node(bytes: &[u8]) -> Result<Node<'_>, Refused> {
    let mut node = Node { bytes, ..Node::default() };
    for field in fields(bytes) {
        let field = field?;
        match field.number {
            1 => node.inputs.push(field.text()?),
            2 => node.outputs.push(field.text()?),
            3 => node.name = field.text()?,
            4 => node.op = field.text()?,
            _ => {}
        }
        if node.inputs.len().max(node.outputs.len()) > MOST_ITEMS {
            return Err(Refused::TooMany { what: "tensors", most: MOST_ITEMS });
        }
    }
    Ok(node)
}

/// Reads a tensor's description, not its numbers.
pub(crate) fn tensor(bytes: &[u8]) -> Result<Tensor<'_>, WireError> {
    let (mut name, mut dims, mut element, mut external) = ("", vec![], 0, None);
    for field in fields(bytes) {
        let field = field?;
        match field.number {
            1 => field.ints(&mut dims, MOST_DIMENSIONS)?,
            2 => element = field.int()?,
            8 => name = field.text()?,
            13 => {
                let external: &mut External<'_> = external.get_or_insert_default();
                let (key, value) = entry(field)?;
                match key {
                    "location" => external.location = value,
                    "offset" => external.offset = value.parse().unwrap_or(u64::MAX),
                    "length" => external.length = value.parse().ok(),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(Tensor { name, dims, element: ElementType::from_number(element), external })
}

fn entry<'a>(field: Field<'a>) -> Result<(&'a str, &'a str), WireError> {
    let (mut key, mut value) = ("", "");
    for part in fields(field.bytes()?) {
        let part = part?;
        match part.number {
            1 => key = part.text()?,
            2 => value = part.text()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn value_info(bytes: &[u8]) -> Result<ValueInfo<'_>, WireError> {
    let mut info = ValueInfo { bytes, ..ValueInfo::default() };
    for field in fields(bytes) {
        let field = field?;
        match field.number {
            1 => info.name = field.text()?,
            2 => {
                let Some(tensor) = find(fields(field.bytes()?), 1)? else { continue };
                for part in fields(tensor.bytes()?) {
                    let part = part?;
                    match part.number {
                        1 => info.element = Some(ElementType::from_number(part.int()?)),
                        2 => info.shape = Some(shape(part.bytes()?)?),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(info)
}

fn shape(bytes: &[u8]) -> Result<Vec<Dimension>, WireError> {
    let mut shape = vec![];
    for field in fields(bytes) {
        let field = field?;
        if field.number != 1 {
            continue;
        }
        if shape.len() >= MOST_DIMENSIONS {
            return Err(WireError::TooMany { number: 1, most: MOST_DIMENSIONS });
        }
        let mut dimension = Dimension::Named(String::new());
        for part in fields(field.bytes()?) {
            let part = part?;
            match part.number {
                1 => dimension = Dimension::Fixed(part.int()?),
                2 => dimension = Dimension::Named(part.text()?.to_owned()),
                _ => {}
            }
        }
        shape.push(dimension);
    }
    Ok(shape)
}

fn find(mut fields: Fields<'_>, number: u32) -> Result<Option<Field<'_>>, WireError> {
    fields.find(|f| f.as_ref().is_ok_and(|f| f.number == number) || f.is_err()).transpose()
}

/// An ONNX file in memory.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    /// Reads a file; its external data stays where it is.
    pub fn read(path: &Path) -> Result<Self, OnnxError> {
        let failed = |source| OnnxError::Io { path: path.into(), source };
        let size = fs::metadata(path).map_err(failed)?.len();
        if size > MOST_BYTES {
            return Err(OnnxError::TooLarge { path: path.into(), bytes: size });
        }
        Ok(Self { path: path.into(), bytes: fs::read(path).map_err(failed)? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its graph.
    pub fn graph(&self) -> Result<Graph<'_>, OnnxError> {
        let wire = |e: WireError| self.refuse(Refused::Wire(e));
        let mut found = None;
        for field in fields(&self.bytes) {
            let field = field.map_err(wire)?;
            if field.number == 7 {
                found = Some(field.bytes().map_err(wire)?);
            }
        }
        let graph = found.ok_or_else(|| OnnxError::NoGraph { path: self.path.clone() })?;
        Graph::parse(graph).map_err(|refused| self.refuse(refused))
    }

    pub(crate) fn refuse(&self, refused: Refused) -> OnnxError {
        let path = self.path.clone();
        match refused {
            Refused::Wire(source) => OnnxError::Wire { path, source },
            Refused::TooMany { what, most } => OnnxError::TooMany { path, what, most },
        }
    }
}
