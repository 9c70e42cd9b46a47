//! Nodes and weights of a graph, as messages.

use onnx::{graph::ElementType, wire::Message};

use super::data::Range;

/// The version of what is written, not of the program. A router belongs to a model by the hash of its
/// bytes: a new release that writes the same model must write the same bytes.
const WRITER_VERSION: &str = "0.1.0";

/// Operations of ONNX Runtime's own.
const MICROSOFT: &str = "com.microsoft";

#[derive(Clone, Copy, Debug)]
pub enum Attribute {
    Int(&'static str, i64),
    Float(&'static str, f32),
}

#[derive(Debug, Default)]
pub struct Builder {
    graph: Message,
    nodes: usize,
}

impl Builder {
    fn push(&mut self, number: u32, message: &Message) {
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.message(number, message);
    }

    /// Adds an operation of ONNX itself.
    pub fn plain(&mut self, op: &str, inputs: &[&str], output: &str, attributes: &[Attribute]) {
        self.node(("", op), inputs, &[output], attributes);
    }

    /// Adds an operation of ONNX Runtime's own.
    pub fn microsoft(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute],
    ) {
        self.node((MICROSOFT, op), inputs, outputs, attributes);
    }

    fn node(
        &mut self,
        (domain, op): (&str, &str),
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute],
    ) {
        let name = format!("{op}_{}", self.nodes);
        self.nodes += 1;
        let mut node = Message::new();
        for input in inputs {
            node = node.text(1, input);
        }
        for output in outputs {
            node = node.text(2, output);
        }
        node = node.text(3, &name).text(4, op);
        for attribute in attributes {
            let message = match *attribute {
                Attribute::Int(name, value) => {
                    Message::new().text(1, name).int(3, value).int(20, 2)
                }
                Attribute::Float(name, value) => {
                    Message::new().text(1, name).float(2, value).int(20, 1)
                }
            };
            node = node.message(5, &message);
        }
        self.push(1, &node.text(7, domain));
    }

    /// Adds weights that are in the file of weights.
    pub fn external(
        &mut self,
        name: &str,
        element: ElementType,
        dims: &[usize],
        place: (&str, Range),
    ) {
        let (location, range) = place;
        let mut tensor = header(name, element, dims);
        for (key, value) in [
            ("location", location.to_owned()),
            ("offset", range.offset.to_string()),
            ("length", range.length.to_string()),
        ] {
            tensor = tensor.message(13, &Message::new().text(1, key).text(2, &value));
        }
        self.push(5, &tensor.int(14, 1));
    }

    /// Adds a few numbers in the graph itself.
    pub fn floats(&mut self, name: &str, numbers: &[f32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.push(5, &header(name, ElementType::Float, &[numbers.len()]).bytes(9, &bytes));
    }

    /// Adds whole numbers in the graph itself; no dimensions make one number.
    pub fn ints(&mut self, name: &str, dims: &[usize], numbers: &[i64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.push(5, &header(name, ElementType::Int64, dims).bytes(9, &bytes));
    }

    pub fn input(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) {
        self.push(11, &info(name, element, dims));
    }

    pub fn output(&mut self, name: &str, element: ElementType, dims: &[Dim<'_>]) {
        self.push(12, &info(name, element, dims));
    }

    pub fn finish(self, name: &str) -> Vec<u8> {
        let graph = self.graph.text(2, name);
        let opset = |domain: &str, version| Message::new().text(1, domain).int(2, version);
        Message::new()
            .int(1, 8)
            .text(2, "tandem")
            .text(3, WRITER_VERSION)
            .message(7, &graph)
            .message(8, &opset("", 17))
            .message(8, &opset(MICROSOFT, 1))
            .into_bytes()
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Dim<'a> {
    Fixed(usize),
    Named(&'a str),
}

fn header(name: &str, element: ElementType, dims: &[usize]) -> Message {
    let mut tensor = Message::new();
    for &dim in dims {
        tensor = tensor.int(1, dim.cast_signed() as i64);
    }
    tensor.int(2, element.number()).text(8, name)
}

fn info(name: &str, element: ElementType, dims: &[Dim<'_>]) -> Message {
    let mut shape = Message::new();
    for dim in dims {
        let dim = match *dim {
            Dim::Fixed(n) => Message::new().int(1, n.cast_signed() as i64),
            Dim::Named(name) => Message::new().text(2, name),
        };
        shape = shape.message(1, &dim);
    }
    let tensor = Message::new().int(1, element.number()).message(2, &shape);
    Message::new().text(1, name).message(2, &Message::new().message(1, &tensor))
}
