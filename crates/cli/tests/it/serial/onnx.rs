//! ONNX models through the real program.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::common::{Done, SMALL, agree_where_sure, run, run_with_leads, tandem};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/onnx_models").join(name)
}

fn preset_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/commonsenseqa").join(name)
}

/// The small model is not sure how to begin most answers; of these it is, or soon will be.
const QUESTIONS: [&str; 2] = [
    "Correct the spelling: The river runs past the mill, under the brige and on to the sea.",
    "Repeat after me: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12",
];

/// The default small model, exported by the program; once for all tests here.
fn exported() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("exported");
        let done = run(&["onnx", "export", "-o", text(&folder)]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        folder
    })
}

#[test]
fn an_exported_model_answers_alone_and_with_a_cloud() {
    let edge = text(exported());
    // Both are roundings of one model, and say the same where that is sure of itself.
    let mut sure = 0;
    for question in QUESTIONS {
        let ours = run_with_leads(&["--edge-model", edge, "--max-tokens", "24", question]);
        let gguf = run_with_leads(&["--max-tokens", "24", question]);
        sure += agree_where_sure(&gguf, &ours);
    }
    assert!(sure > 3, "{sure}");

    let question = QUESTIONS[0];
    let alone =
        run(&["run", "--mode", "small", "--edge-model", edge, "--max-tokens", "16", question]);
    assert_eq!(alone.code, Some(0), "{}", alone.err);
    let mut arguments = vec!["run", "--edge-model", edge, "--cloud-model", SMALL, "--json"];
    arguments.extend(["--max-tokens", "16", "--router", "always", "--threshold", "1", question]);
    let joint = run(&arguments).json();
    let large =
        run(&["run", "--mode", "large", "--cloud-model", SMALL, "--max-tokens", "16", question]);
    // One vocabulary, whoever reads it: ids travel, and every token is the cloud's.
    assert_eq!(joint["text"].as_str().unwrap().trim(), large.out.trim());
    // A file is as good as its folder.
    let file = exported().join("model.onnx");
    let arguments =
        ["run", "--mode", "small", "--edge-model", text(&file), "--max-tokens", "16", question];
    assert_eq!(run(&arguments).out, alone.out);
}

#[test]
fn a_router_of_the_gguf_model_is_refused_and_doctor_says_why() {
    let router = preset_file("router.safetensors");
    let edge = text(exported());
    let mut arguments = vec!["doctor", "--edge-model", edge, "--cloud-model", SMALL];
    arguments.extend(["--router", text(&router)]);
    let done = run(&arguments);
    assert_eq!(done.code, Some(1), "{}", done.out);
    assert!(done.out.contains("onnx int8"), "{}", done.out);
    assert!(done.out.contains("from precision to precision"), "{}", done.out);
    let fits = run(&["doctor", "--edge-model", edge, "--cloud-model", SMALL, "--router", "top1"]);
    assert_eq!(fits.code, Some(0), "{}", fits.out);
}

#[test]
fn the_preset_has_a_router_for_its_own_export() {
    let folder = tempfile::tempdir().unwrap();
    let edge = folder.path().join("edge");
    let preset = ["--preset", "commonsenseqa"];
    // The small model with its own adapter stands in for the large one.
    let cloud = preset_file("edge.gguf");
    let cloud = ["--cloud-model", SMALL, "--cloud-adapter", text(&cloud)];
    let done = run(&[&["onnx", "export", "-o", text(&edge)][..], &preset].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    let question = "Where do you keep milk? (a) oven (b) refrigerator (c) desk";
    let ask = |edge: &Path| {
        let asked = ["run", "--json", "--max-tokens", "8", "--edge-model", text(edge), question];
        run(&[&asked[..], &preset, &cloud].concat())
    };
    let joint = ask(&edge).json();
    assert_eq!(joint["router"], "router-onnx-int8", "{joint}");
    // The plain export is another model, and the preset says so.
    let refused = ask(exported());
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    assert!(refused.err.contains("was trained for"), "{}", refused.err);
}

#[test]
fn the_hidden_state_is_listed_exposed_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.onnx");
    let model = tiny("growing").join("model.onnx");
    let listed = run(&["onnx", "expose", "--list", text(&model)]);
    assert!(listed.out.contains("would be chosen: "), "{}", listed.out);
    let exposed = run(&["onnx", "expose", text(&model), "-o", text(&output)]);
    assert_eq!(exposed.code, Some(0), "{}", exposed.err);
    let again = run(&["onnx", "expose", "--list", text(&output)]);
    assert!(again.out.contains("already an output: "), "{}", again.out);
    let twice = run(&["onnx", "expose", text(&output), "-o", text(&output)]);
    assert_eq!(twice.code, Some(1));
    assert!(twice.err.contains("already"), "{}", twice.err);

    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnx/tests/graphs");
    let two = graphs.join("two_heads.onnx");
    let refused = run(&["onnx", "expose", text(&two), "-o", text(&output)]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("--tensor") && refused.err.contains("first state"),
        "{}",
        refused.err
    );
    let chosen =
        run(&["onnx", "expose", text(&two), "--tensor", "first state", "-o", text(&output)]);
    assert_eq!(chosen.code, Some(0), "{}", chosen.err);
    assert_eq!(run(&["onnx", "expose", text(&two)]).code, Some(2));
}

#[test]
fn four_bits_from_four_bits_are_refused_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("int4");
    let done = run(&["onnx", "export", SMALL, "--weights", "int4", "-o", text(&out)]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("breaks the model"), "{}", done.err);
    assert!(!out.exists());
    let done = run(&["onnx", "export", SMALL, "--weights", "int4", "--force", "-o", text(&out)]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let size = fs::metadata(out.join("model.onnx.data")).unwrap().len();
    assert!(size < 110_000_000, "{size}");
}

#[test]
fn without_the_library_the_command_is_named() {
    let home = tempfile::tempdir().unwrap();
    let arguments =
        ["run", "--mode", "small", "--edge-model", text(&tiny("in_place")), "hi"].map(String::from);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut command = tandem(&arguments);
    command.env("TANDEM_HOME", home.path()).env_remove("ORT_DYLIB_PATH");
    let done: Done = command.output().unwrap().into();
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("tandem pull onnxruntime"), "{}", done.err);
}

#[test]
fn providers_are_checked_by_name_and_by_what_the_library_has() {
    let model = tiny("in_place");
    let with = |provider: &str| {
        let arguments = ["run", "--mode", "small", "--edge-model", text(&model), "--onnx-provider"];
        run(&[&arguments[..], &[provider, "--max-tokens", "2", "hi"]].concat())
    };
    assert_eq!(with("cpu").code, Some(0));
    let cuda = with("cuda,cpu");
    assert_eq!(cuda.code, Some(1));
    assert!(cuda.err.contains("no execution provider cuda"), "{}", cuda.err);
    let unknown = with("abacus");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("use cpu, cuda"), "{}", unknown.err);
}
