//! The names that exporters give to the files of an ONNX model.

/// The usual names of a decoder's graph. Where a folder has several graphs, the first of these is
/// used.
pub const USUAL_GRAPHS: [&str; 5] = [
    "model.onnx",
    "decoder_model_merged.onnx",
    "decoder_with_past_model.onnx",
    "decoder_model.onnx",
    "model_quantized.onnx",
];

/// The settings that onnxruntime-genai's builder writes, which name the graph.
pub const GENAI_CONFIG: &str = "genai_config.json";

pub const TOKENIZER: &str = "tokenizer.json";

/// The files that belong to a graph; each may be beside it or one folder above.
pub const COMPANION_FILES: [&str; 6] = [
    TOKENIZER,
    "tokenizer_config.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    GENAI_CONFIG,
];
