use super::*;

fn chosen(files: &[&str], selector: Option<&str>) -> Result<Choice, ChoiceError> {
    let files: Vec<_> = files.iter().map(|&f| f.to_owned()).collect();
    choose(&files, selector)
}

fn gguf(files: &[&str]) -> Result<Choice, ChoiceError> {
    Ok(Choice::Gguf(files.iter().map(|&f| f.to_owned()).collect()))
}

#[test]
fn quantisations_are_read_from_names() {
    for (file, expected) in [
        ("SmolLM2-135M-Instruct-Q4_K_M.gguf", Some("Q4_K_M")),
        ("llama-2-7b.Q5_K_S.gguf", Some("Q5_K_S")),
        ("smollm_q8_0.gguf", Some("q8_0")),
        ("x-UD-IQ3_XXS-00001-of-00002.gguf", Some("UD-IQ3_XXS")),
        ("BF16/x-BF16-00001-of-00002.gguf", Some("BF16")),
        ("x-Q4_K_M-imat.gguf", Some("Q4_K_M")),
        ("Q8_0.gguf", Some("Q8_0")),
        ("q1-chat-Q6_K.gguf", Some("Q6_K")),
        ("gpt-oss-20b-MXFP4.gguf", Some("MXFP4")),
        ("model.gguf", None),
        ("é-Q4.gguf", Some("Q4")),
        (".gguf", None),
        ("", None),
    ] {
        assert_eq!(quantisation(file), expected, "{file}");
    }
}

#[test]
fn without_a_selector_the_only_file_or_the_preferred_one_is_taken() {
    assert_eq!(chosen(&["README.md", "a-Q2_K.gguf"], None), gguf(&["a-Q2_K.gguf"]));
    let several = ["a-Q8_0.gguf", "a-q4_k_m.gguf", "a-Q5_K_M.gguf", "mmproj-a-Q4_K_M.gguf"];
    assert_eq!(chosen(&several, None), gguf(&["a-q4_k_m.gguf"]));
    assert_eq!(chosen(&["a-Q8_0.gguf", "a-Q5_K_M.gguf"], None), gguf(&["a-Q5_K_M.gguf"]));
    let error = chosen(&["a-Q2_K.gguf", "a-IQ1_S.gguf"], None).unwrap_err().to_string();
    assert!(error.contains("a-Q2_K.gguf") && error.contains("a-IQ1_S.gguf"), "{error}");
    // Two models of the preferred quantisation in one repository.
    assert!(matches!(
        chosen(&["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"], None),
        Err(ChoiceError::Several { .. })
    ));
}

#[test]
fn a_selector_is_a_quantisation_or_a_file() {
    let files = ["a-Q8_0.gguf", "sub/a-Q4_K_M.gguf", "mmproj-F16.gguf", "a-imatrix.gguf"];
    assert_eq!(chosen(&files, Some("q8_0")), gguf(&["a-Q8_0.gguf"]));
    assert_eq!(chosen(&files, Some("sub/a-Q4_K_M.gguf")), gguf(&["sub/a-Q4_K_M.gguf"]));
    for absent in ["Q8", "8_0", "F16", "mmproj-F16.gguf", "a-imatrix.gguf", "nothing"] {
        let error = chosen(&files, Some(absent)).unwrap_err().to_string();
        assert!(error.contains(absent) && error.contains("a-Q8_0.gguf"), "{error}");
    }
    assert!(matches!(chosen(&["README.md"], None), Err(ChoiceError::NoModel { .. })));
    assert!(matches!(chosen(&[], Some("Q4_0")), Err(ChoiceError::NotFound { .. })));
}

#[test]
fn a_model_in_parts_is_taken_whole_or_not_at_all() {
    let parts = ["q/a-Q4_K_M-00002-of-00002.gguf", "q/a-Q4_K_M-00001-of-00002.gguf"];
    let whole = gguf(&[parts[1], parts[0]]);
    assert_eq!(chosen(&parts, None), whole);
    assert_eq!(chosen(&parts, Some("q4_k_m")), whole);
    assert_eq!(chosen(&parts, Some(parts[0])), whole);
    let error = chosen(&parts[..1], Some("Q4_K_M")).unwrap_err().to_string();
    assert!(error.contains("only 1 of the 2 parts"), "{error}");
}

#[test]
fn onnx_models_are_found_as_the_engine_finds_them() {
    let onnx = |graph: &str| Ok(Choice::Onnx(graph.into()));
    let hub = ["config.json", "onnx/model.onnx", "onnx/model_q4.onnx", "onnx/model_q4.onnx_data"];
    assert_eq!(chosen(&hub, None), onnx("onnx/model.onnx"));
    assert_eq!(chosen(&hub, Some("Q4")), onnx("onnx/model_q4.onnx"));
    assert_eq!(chosen(&hub, Some("onnx")), onnx("onnx/model.onnx"));
    assert_eq!(chosen(&hub, Some("onnx/model_q4.onnx")), onnx("onnx/model_q4.onnx"));
    let genai = ["cpu/int4/genai_config.json", "cpu/int4/model.onnx", "gpu/fp16/model.onnx"];
    assert_eq!(chosen(&genai, Some("cpu/int4")), Ok(Choice::Genai("cpu/int4".into())));
    assert_eq!(chosen(&genai, Some("gpu/fp16")), onnx("gpu/fp16/model.onnx"));
    let error = chosen(&genai, None).unwrap_err().to_string();
    assert!(error.contains("gpu/fp16/model.onnx"), "{error}");
    let both = ["model.onnx", "a-Q8_0.gguf"];
    assert_eq!(chosen(&both, None), gguf(&["a-Q8_0.gguf"]));
    assert_eq!(chosen(&both, Some("model.onnx")), onnx("model.onnx"));
}
