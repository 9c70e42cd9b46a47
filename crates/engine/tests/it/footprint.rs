//! What a model says that it takes in memory.

use tandem_engine::{Compute, LoadOptions, Model};

use crate::gguf::{self, Tensor, Value, WIDTH};

/// A model of one tiny layer whose only head is this long, instead of as long as the model is wide.
fn with_heads_of(length: u64, path: &std::path::Path) {
    let mut metadata = gguf::metadata("default");
    for key in ["llama.attention.key_length", "llama.attention.value_length"] {
        metadata.push((key, Value::Count(length as u32)));
    }
    let mut tensors = gguf::weights();
    for tensor in &mut tensors {
        let shape = match tensor.name.as_str() {
            "blk.0.attn_q.weight" | "blk.0.attn_k.weight" | "blk.0.attn_v.weight" => {
                [WIDTH, length]
            }
            "blk.0.attn_output.weight" => [length, WIDTH],
            _ => continue,
        };
        let data = vec![0.05; (WIDTH * length) as usize];
        *tensor = Tensor { name: tensor.name.clone(), shape: shape.to_vec(), data };
    }
    gguf::write(path, &metadata, &tensors);
}

/// `tandem cloud` promises its memory by this: twice as much held as promised fails `make load`.
#[tokio::test]
async fn a_cache_is_as_wide_as_its_heads() {
    let folder = tempfile::tempdir().unwrap();
    let compute = Compute::start().unwrap();
    let cache = async |path: &std::path::Path| {
        let model = Model::load(&compute, LoadOptions::new(path, 64, 1)).await.unwrap();
        model.footprint().1
    };
    let (even, wide) = (folder.path().join("even.gguf"), folder.path().join("wide.gguf"));
    gguf::model(&even, "default");
    with_heads_of(2 * WIDTH, &wide);
    // A key and a value of half precision, for one layer and one head.
    assert_eq!(cache(&even).await, WIDTH * 2 * 2);
    assert_eq!(cache(&wide).await, 2 * WIDTH * 2 * 2);
}
