//! Hidden states are found and made outputs, or refused with a reason, in graphs of many kinds.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use tandem_onnx::{
    File, Hidden, OnnxError, expose, external,
    graph::{Attribute, Graph},
    hidden,
    wire::{Message, fields},
};

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/onnx_models")
}

fn graph(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/graphs/{name}.onnx"))
}

/// Every model that can be run: the two left out lose what they read.
fn all() -> Vec<PathBuf> {
    let entries = fs::read_dir(models()).unwrap().map(|entry| entry.unwrap().path());
    let runs = |p: &PathBuf| p.is_dir() && !p.ends_with("forgetful") && !p.ends_with("windowed");
    let mut all: Vec<_> = entries.filter(runs).map(|p| p.join("model.onnx")).collect();
    all.sort();
    assert_eq!(all.len(), 12);
    all
}

/// The bytes of a graph's fields, without its outputs and the nodes of this kind.
fn rest(graph: &Graph<'_>, without: &str) -> Vec<Vec<u8>> {
    let of_kind = |bytes: &[u8]| graph.nodes.iter().any(|n| n.bytes == bytes && n.op == without);
    let all = fields(graph.bytes).map(Result::unwrap);
    all.filter(|f| f.number != 12 && !(f.number == 1 && of_kind(f.bytes().unwrap())))
        .map(|f| f.whole.to_vec())
        .collect()
}

#[test]
fn every_model_gets_its_hidden_state_as_an_output_and_nothing_else_changes() {
    for path in all() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.onnx");
        let name = match expose(&path, &output, None) {
            Ok(name) => name,
            Err(OnnxError::Exposed { .. }) => {
                assert!(path.to_string_lossy().contains("tied"), "{}", path.display());
                continue;
            }
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let (before, after) = (File::read(&path).unwrap(), File::read(&output).unwrap());
        let (old, new) = (before.graph().unwrap(), after.graph().unwrap());
        assert_eq!(rest(&old, "If"), rest(&new, "If"), "{}", path.display());
        // Nothing outside the graph has changed either.
        let outside = |file: &File| -> Vec<Vec<u8>> {
            let all = fields(file.bytes()).map(Result::unwrap);
            all.filter(|f| f.number != 7).map(|f| f.whole.to_vec()).collect()
        };
        assert_eq!(outside(&before), outside(&after));
        let names = |g: &Graph<'_>| g.outputs.iter().map(|o| o.name.to_owned()).collect::<Vec<_>>();
        assert_eq!([names(&old), vec![name]].concat(), names(&new));
        let found = Hidden::find(&after, &new).unwrap();
        assert!(found.output(&new).is_some() || !found.branches.is_empty());
        assert_eq!((found.width, found.vocabulary.map(|v| v & !15)), (Some(32), Some(64)));
    }
}

#[test]
fn both_branches_of_a_merged_decoder_get_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.onnx");
    let path = models().join("merged/model.onnx");
    assert_eq!(expose(&path, &output, None).unwrap(), "hidden_states");
    let (before, after) = (File::read(&path).unwrap(), File::read(&output).unwrap());
    let (old, new) = (before.graph().unwrap(), after.graph().unwrap());
    let branch = |graph: &Graph<'_>, name: &str| -> Vec<Vec<u8>> {
        let node = graph.nodes.iter().find(|n| n.op == "If").unwrap();
        let Some(Attribute::Graph(bytes)) = node.attribute(name).unwrap() else { panic!() };
        fields(bytes).map(|f| f.unwrap().whole.to_vec()).collect()
    };
    for name in ["then_branch", "else_branch"] {
        let (was, is) = (branch(&old, name), branch(&new, name));
        assert_eq!(was[..], is[..was.len()]);
        assert_eq!(is.len(), was.len() + 1);
    }
}

#[test]
fn external_data_stays_where_it_is_or_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    let from = models().join("external");
    for file in ["model.onnx", "model.onnx.data"] {
        fs::copy(from.join(file), folder.path().join(file)).unwrap();
    }
    let input = folder.path().join("model.onnx");
    expose(&input, &folder.path().join("beside.onnx"), None).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    expose(&input, &other.join("model.onnx"), None).unwrap();
    let data = fs::read(folder.path().join("model.onnx.data")).unwrap();
    assert_eq!(fs::read(other.join("model.onnx.data")).unwrap(), data);

    fs::write(folder.path().join("model.onnx.data"), &data[..100]).unwrap();
    let short = expose(&input, &folder.path().join("short.onnx"), None).unwrap_err().to_string();
    assert!(short.contains("model.onnx.data") && short.contains("100 bytes"), "{short}");
    fs::remove_file(folder.path().join("model.onnx.data")).unwrap();
    let missing = expose(&input, &folder.path().join("gone.onnx"), None).unwrap_err().to_string();
    assert!(missing.contains("model.onnx.data") && missing.contains("No such file"), "{missing}");
}

#[test]
fn graphs_without_a_clear_hidden_state_are_refused_with_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.onnx");
    let error = |name: &str| expose(&graph(name), &output, None).unwrap_err().to_string();
    let two = error("two_heads");
    assert!(two.contains("2 matrices") && two.contains("first state"), "{two}");
    assert!(
        two.contains("second state") && two.contains("32]") && two.contains("--tensor"),
        "{two}"
    );
    let none = error("no_head");
    assert!(none.contains("no multiplication") && none.contains("embedded"), "{none}");
    assert!(error("computed_head").contains("no multiplication"));
    let cyclic = error("cyclic");
    assert!(cyclic.contains("cyclic"), "{cyclic}");
    assert!(!output.exists());

    let chosen = expose(&graph("two_heads"), &output, Some("second state")).unwrap();
    assert_eq!(chosen, "second state");
    // The chosen output is found again without naming it.
    let file = File::read(&output).unwrap();
    let graph_of = file.graph().unwrap();
    let found = Hidden::find(&file, &graph_of).unwrap();
    assert_eq!((found.output(&graph_of), &*found.logits), (Some("second state"), "logits"));
    let typo = expose(&graph("two_heads"), &output, Some("third state")).unwrap_err().to_string();
    assert!(typo.contains("third state") && typo.contains("first state"), "{typo}");
    let file = File::read(&graph("two_heads")).unwrap();
    assert_eq!(hidden::list(&file, &file.graph().unwrap()).len(), 2);
}

#[test]
fn truncated_files_are_errors_wherever_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.onnx");
    let whole = fs::read(models().join("growing/model.onnx")).unwrap();
    for cut in (0..whole.len() - 40).step_by(487).chain(1..200) {
        fs::write(&path, &whole[..cut]).unwrap();
        let file = File::read(&path).unwrap();
        let found = file.graph().and_then(|graph| Hidden::find(&file, &graph).map(drop));
        let error = found.unwrap_err().to_string();
        assert!(error.contains("cut.onnx"), "{cut}: {error}");
    }
    fs::write(&path, "not a model at all").unwrap();
    assert!(File::read(&path).unwrap().graph().is_err());
    assert!(File::read(&folder.path().join("none.onnx")).is_err());
}

#[test]
fn malicious_files_are_refused_before_they_use_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.onnx");
    let refuse = |graph: Vec<u8>| {
        fs::write(&path, Message::new().bytes(7, &graph).into_bytes()).unwrap();
        let file = File::read(&path).unwrap();
        let found = file.graph().and_then(|graph| Hidden::find(&file, &graph).map(drop));
        found.unwrap_err().to_string()
    };
    // A million empty nodes in two megabytes.
    let many = refuse([0x0a, 0x00].repeat(1_000_000));
    assert!(many.contains("more than 500000 nodes"), "{many}");
    // A tensor with a million dimensions.
    let tensor = Message::new().bytes(1, &vec![1; 1_000_000]).into_bytes();
    assert!(refuse(Message::new().bytes(5, &tensor).into_bytes()).contains("more than 64 numbers"));
    // Branches nested deeper than the limit.
    let output = Message::new().message(12, &Message::new().text(1, "logits")).into_bytes();
    let mut inner = output.clone();
    for _ in 0..50 {
        let branch = |name: &str| Message::new().text(1, name).bytes(6, &inner);
        let node = Message::new().text(2, "logits").text(4, "If");
        let node = node.message(5, &branch("then_branch")).message(5, &branch("else_branch"));
        let node = node.into_bytes();
        if node.len() > 4_000_000 {
            break;
        }
        inner = [Message::new().bytes(1, &node).into_bytes(), output.clone()].concat();
    }
    let deep = refuse(inner);
    assert!(deep.contains("nested deeper"), "{deep}");
}

#[test]
fn data_outside_the_folder_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sly.onnx");
    for location in ["../secret", "/etc/passwd", ""] {
        let entry = Message::new().text(1, "location").text(2, location);
        let tensor = Message::new().int(1, 4).int(2, 1).text(8, "w").message(13, &entry);
        let graph = Message::new().message(5, &tensor);
        fs::write(&path, Message::new().message(7, &graph).into_bytes()).unwrap();
        let file = File::read(&path).unwrap();
        let error = external::check(&file, &file.graph().unwrap()).unwrap_err().to_string();
        assert!(error.contains("outside the model's folder"), "{location}: {error}");
    }
}
