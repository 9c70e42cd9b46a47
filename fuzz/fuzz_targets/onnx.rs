//! An ONNX file: from the wire to the hidden state, to what its inputs and outputs are for, and to a file that has
//! the hidden state as an output.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnx::{Exposure, File, Hidden, hidden, precision::Precision};

fuzz_target!(|bytes: &[u8]| {
    let file = File::from_bytes("fuzz.onnx", bytes.to_vec());
    let Ok(graph) = file.graph() else { return };
    let _ = Precision::of(&graph);
    let _ = hidden::list(&file, &graph);
    let Ok(found) = Hidden::find(&file, &graph) else { return };
    let _ = engine::fuzzing::layout(&file, &graph, &found);
    let Ok(exposure) = Exposure::new(&file, &graph, &found) else { return };
    // What was written can be read, and the hidden state is an output of it.
    let exposed = File::from_bytes("exposed.onnx", exposure.to_bytes());
    let graph = exposed.graph().expect("a file that we wrote");
    assert!(graph.outputs.iter().any(|output| output.name == exposure.output));
});
