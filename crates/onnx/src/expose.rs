//! Makes the hidden state an output of the graph and leaves everything else as it is.

use std::{
    borrow::Cow,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    error::{OnnxError, WireError},
    external,
    graph::{ElementType, File, Graph},
    hidden::Hidden,
    wire::{Message, fields, prefix},
};

/// A file with one more output: the old bytes with a few new ones between them.
#[derive(Debug)]
pub struct Exposure<'a> {
    pieces: Pieces<'a>,
    pub output: String,
}

/// Old and new bytes, in order.
type Pieces<'a> = Vec<Cow<'a, [u8]>>;

/// Appends a message made of pieces as a field.
fn nest<'a>(pieces: &mut Pieces<'a>, number: u32, inner: Pieces<'a>) {
    let length: usize = inner.iter().map(|piece| piece.len()).sum();
    pieces.push(prefix(number, length).into());
    pieces.extend(inner);
}

impl<'a> Exposure<'a> {
    pub fn new(file: &'a File, graph: &Graph<'a>, hidden: &Hidden) -> Result<Self, OnnxError> {
        let pieces = model(file.bytes(), graph, hidden);
        let pieces = pieces.map_err(|e| file.error(e))?;
        Ok(Self { pieces, output: hidden.tensor.clone() })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

fn model<'a>(bytes: &'a [u8], graph: &Graph<'a>, hidden: &Hidden) -> Result<Pieces<'a>, WireError> {
    let mut pieces = vec![];
    for field in fields(bytes) {
        let field = field?;
        if field.number == 7 {
            nest(&mut pieces, 7, changed_graph(graph.bytes, hidden, &hidden.tensor)?);
        } else {
            pieces.push(field.whole.into());
        }
    }
    Ok(pieces)
}

/// Adds an output to a graph. Where the logits are an output of an `If`, the hidden state becomes one
/// too.
fn changed_graph<'a>(
    bytes: &'a [u8],
    hidden: &Hidden,
    output: &str,
) -> Result<Pieces<'a>, WireError> {
    let mut pieces = vec![];
    for field in fields(bytes) {
        let field = field?;
        let gives_logits = !hidden.branches.is_empty()
            && field.number == 1
            && fields(field.bytes()?)
                .flatten()
                .any(|part| part.number == 2 && part.text() == Ok(&hidden.logits));
        if gives_logits {
            nest(&mut pieces, 1, changed_if(field.bytes()?, hidden, output)?);
        } else {
            pieces.push(field.whole.into());
        }
    }
    let info = value_info(output, hidden.element);
    pieces.push(Message::new().message(12, &info).into_bytes().into());
    Ok(pieces)
}

fn changed_if<'a>(node: &'a [u8], hidden: &Hidden, output: &str) -> Result<Pieces<'a>, WireError> {
    let mut pieces = vec![];
    for field in fields(node) {
        let field = field?;
        let branch = match field.number {
            5 => {
                let name = fields(field.bytes()?).flatten().find(|part| part.number == 1);
                let name = name.map(|part| part.text()).transpose()?;
                hidden.branches.iter().find(|branch| Some(branch.attribute) == name)
            }
            _ => None,
        };
        let Some(branch) = branch else {
            pieces.push(field.whole.into());
            continue;
        };
        let mut attribute = vec![];
        for part in fields(field.bytes()?) {
            let part = part?;
            if part.number == 6 {
                let inner = &branch.hidden;
                nest(&mut attribute, 6, changed_graph(part.bytes()?, inner, &inner.tensor)?);
            } else {
                attribute.push(part.whole.into());
            }
        }
        nest(&mut pieces, 5, attribute);
    }
    pieces.push(Message::new().text(2, output).into_bytes().into());
    Ok(pieces)
}

/// Describes an output as far as its type is known; the runtime infers the rest.
fn value_info(name: &str, element: Option<ElementType>) -> Message {
    let info = Message::new().text(1, name);
    match element {
        // No shape is given, because some graphs flatten batch and positions into one dimension.
        Some(element) => {
            let tensor = Message::new().int(1, element.number());
            info.message(2, &Message::new().message(1, &tensor))
        }
        None => info,
    }
}

/// Writes `input` to `output` with the hidden state as one more output, and returns its name.
/// External data stays where it is if both files are in one folder, and is linked beside the new
/// file otherwise.
pub fn expose(input: &Path, output: &Path, tensor: Option<&str>) -> Result<String, OnnxError> {
    let file = File::read(input)?;
    let graph = file.graph()?;
    let hidden = match tensor {
        Some(tensor) => Hidden::named(&file, &graph, tensor)?,
        None => Hidden::find(&file, &graph)?,
    };
    if let Some(output) = hidden.output(&graph) {
        return Err(OnnxError::Exposed { path: input.into(), output: output.into() });
    }
    let exposure = Exposure::new(&file, &graph, &hidden)?;
    external::check(&file, &graph)?;
    write(output, &exposure.pieces)?;
    external::place_beside(&file, &graph, output)?;
    Ok(exposure.output)
}

/// Writes under a temporary name first, so that a half-written file never has the final name.
fn write(path: &Path, pieces: &[Cow<'_, [u8]>]) -> Result<(), OnnxError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let failed = |source| OnnxError::Io { path: path.into(), source };
    let written = (|| {
        let mut out = io::BufWriter::new(fs::File::create(&partial)?);
        pieces.iter().try_for_each(|piece| out.write_all(piece))?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&partial, path)
    })();
    written.map_err(|e| {
        // The write error is the one to report; the temporary file may not even exist.
        drop(fs::remove_file(&partial));
        failed(e)
    })
}
