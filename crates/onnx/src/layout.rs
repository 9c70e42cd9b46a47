//! How the files of an ONNX model are called, by those who write them.

/// Names a model's graph has when a folder holds several, the first found taken.
pub const USUAL_GRAPHS: [&str; 5] = [
    "model.onnx",
    "decoder_model_merged.onnx",
    "decoder_with_past_model.onnx",
    "decoder_model.onnx",
    "model_quantized.onnx",
];

/// The settings of onnxruntime-genai's builder, which name the graph.
pub const GENAI_CONFIG: &str = "genai_config.json";

/// The tokenizer, without which no text can be made.
pub const TOKENIZER: &str = "tokenizer.json";

/// Files that are read where they are found beside a graph or one folder above.
pub const BESIDE: [&str; 6] = [
    TOKENIZER,
    "tokenizer_config.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    GENAI_CONFIG,
];
