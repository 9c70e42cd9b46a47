//! `genai_config.json`: what onnxruntime-genai wants to know of a model.

use serde_json::{Value as Json, json};

use super::{MODEL, shape::Shape, tokenizer::Tokenizer};

pub fn genai(shape: &Shape, tokenizer: &Tokenizer) -> Json {
    json!({
        "model": {
            "type": shape.architecture,
            "bos_token_id": tokenizer.bos,
            "eos_token_id": tokenizer.ends(),
            "pad_token_id": tokenizer.pad.or(tokenizer.eos),
            "context_length": shape.context,
            "vocab_size": shape.vocabulary,
            "decoder": {
                "session_options": { "log_id": "onnxruntime-genai", "provider_options": [] },
                "filename": MODEL,
                "head_size": shape.head,
                "hidden_size": shape.hidden,
                "num_attention_heads": shape.heads,
                "num_hidden_layers": shape.layers,
                "num_key_value_heads": shape.kv_heads,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {
            "do_sample": false,
            "max_length": shape.context,
            "min_length": 0,
            "num_beams": 1,
            "num_return_sequences": 1,
            "past_present_share_buffer": true,
            "repetition_penalty": 1.0,
            "temperature": 1.0,
            "top_k": 1,
            "top_p": 1.0,
        },
    })
}
