//! The graph of an ONNX file, borrowed from its bytes.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::{OnnxError, WireError},
    wire::{Field, Fields, Value, fields},
};

/// The largest protocol-buffer message.
const MAX_BYTES: u64 = 2 << 30;

/// The most nodes, tensors or names of one graph. The largest models have some ten thousands, but a
/// small malicious file can hold millions of empty ones.
const MAX_ITEMS: usize = 500_000;

const MAX_DIMENSIONS: usize = 64;

/// The number format of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Float,
    Uint8,
    Int8,
    Int32,
    Int64,
    Bool,
    Float16,
    Bfloat16,
    /// Any other type, by its number in the ONNX format.
    Other(i64),
}

impl ElementType {
    /// From the number in the ONNX format.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    Fixed(i64),
    /// Known only when the model runs; the name may be empty.
    Named(String),
}

/// A tensor's name, and its type and shape if they are given.
#[derive(Clone, Debug, Default)]
pub struct ValueInfo<'a> {
    pub name: &'a str,
    pub element: Option<ElementType>,
    pub shape: Option<Vec<Dimension>>,
}

#[derive(Clone, Debug)]
pub struct Tensor<'a> {
    pub name: &'a str,
    pub dims: Vec<i64>,
    pub element: ElementType,
    /// Set if its bytes are in another file.
    pub external: Option<External<'a>>,
}

/// A range of another file.
#[derive(Clone, Debug, Default)]
pub struct External<'a> {
    /// The file, relative to the model's folder.
    pub location: &'a str,
    pub offset: u64,
    /// The rest of the file if the model gives no length.
    pub length: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// May be empty.
    pub name: &'a str,
    pub op: &'a str,
    /// An empty name stands for an optional input that is left out.
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    Int(i64),
    /// A nested graph, for example a branch of an `If`.
    Graph(&'a [u8]),
    Tensor(&'a [u8]),
}

impl<'a> Node<'a> {
    /// The attribute with this name; `None` also if its type is not one of [`Attribute`]'s.
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

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name) {
            Ok(Some(Attribute::Int(value))) => Some(value),
            _ => None,
        }
    }
}

/// A graph, with an index of which node produces which tensor.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    pub nodes: Vec<Node<'a>>,
    pub initializers: HashMap<&'a str, Tensor<'a>>,
    /// The inputs to be provided. Old models list their weights here too; those are left out.
    pub inputs: Vec<ValueInfo<'a>>,
    pub outputs: Vec<ValueInfo<'a>>,
    /// Intermediate tensors whose types are given.
    pub values: HashMap<&'a str, ValueInfo<'a>>,
    /// The index of the node that produces a tensor.
    pub producers: HashMap<&'a str, usize>,
    pub bytes: &'a [u8],
}

impl<'a> Graph<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
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
            if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count > MAX_ITEMS) {
                return Err(WireError::TooManyItems { what, most: MAX_ITEMS });
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

    pub fn producer(&self, tensor: &str) -> Option<&Node<'a>> {
        self.producers.get(tensor).and_then(|&i| self.nodes.get(i))
    }

    /// The type and shape of a tensor, if the file gives them.
    pub fn value(&self, tensor: &str) -> Option<&ValueInfo<'a>> {
        let listed = self.outputs.iter().chain(&self.inputs).find(|v| v.name == tensor);
        listed.or_else(|| self.values.get(tensor))
    }
}

fn node(bytes: &[u8]) -> Result<Node<'_>, WireError> {
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
        if node.inputs.len().max(node.outputs.len()) > MAX_ITEMS {
            return Err(WireError::TooManyItems { what: "tensors", most: MAX_ITEMS });
        }
    }
    Ok(node)
}

/// Reads a tensor's description without its numbers.
pub(crate) fn tensor(bytes: &[u8]) -> Result<Tensor<'_>, WireError> {
    let (mut name, mut dims, mut element, mut external) = ("", vec![], 0, None);
    for field in fields(bytes) {
        let field = field?;
        match field.number {
            1 => field.ints(&mut dims, MAX_DIMENSIONS)?,
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
    let mut info = ValueInfo::default();
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
        if shape.len() >= MAX_DIMENSIONS {
            return Err(WireError::TooMany { number: 1, most: MAX_DIMENSIONS });
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

#[derive(Debug)]
pub struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    /// Reads a file without its external data.
    pub fn read(path: &Path) -> Result<Self, OnnxError> {
        let failed = |source| OnnxError::Io { path: path.into(), source };
        let size = fs::metadata(path).map_err(failed)?.len();
        if size > MAX_BYTES {
            return Err(OnnxError::TooLarge { path: path.into(), bytes: size });
        }
        Ok(Self { path: path.into(), bytes: fs::read(path).map_err(failed)? })
    }

    /// The contents of a file that was read elsewhere; the name is for errors.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn graph(&self) -> Result<Graph<'_>, OnnxError> {
        let wire = |error| self.error(error);
        let mut found = None;
        for field in fields(&self.bytes) {
            let field = field.map_err(wire)?;
            if field.number == 7 {
                found = Some(field.bytes().map_err(wire)?);
            }
        }
        let graph = found.ok_or_else(|| OnnxError::NoGraph { path: self.path.clone() })?;
        Graph::parse(graph).map_err(wire)
    }

    /// Adds the file's name.
    pub(crate) fn error(&self, error: WireError) -> OnnxError {
        let path = self.path.clone();
        match error {
            WireError::TooManyItems { what, most } => OnnxError::TooMany { path, what, most },
            source => OnnxError::Wire { path, source },
        }
    }
}
