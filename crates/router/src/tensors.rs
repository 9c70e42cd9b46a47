//! Typed tensors in and out of safetensors.

use std::collections::HashMap;

use half::f16;
use safetensors::{
    Dtype, SafeTensors,
    tensor::{SafeTensorError, TensorView},
};
use thiserror::Error;

/// What is wrong with the tensors of a file.
#[derive(Debug, Error)]
pub enum Malformed {
    #[error("it is not a whole safetensors file ({0}): copy it again or write it again")]
    Container(#[from] SafeTensorError),
    #[error("its tensor {name} is {found} where {wanted} is needed: write it again")]
    Tensor { name: &'static str, found: String, wanted: String },
    #[error("it has no tensor {name}: it was written by something else")]
    Missing { name: &'static str },
}

/// A number as safetensors keep it.
pub trait Element: Copy {
    const DTYPE: Dtype;
    fn decode(bytes: &[u8]) -> Vec<Self>;
    fn encode(values: &[Self]) -> Vec<u8>;
}

macro_rules! element {
    ($type:ty, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            fn decode(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().map(|&chunk| Self::from_le_bytes(chunk)).collect()
            }

            fn encode(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        }
    };
}

element!(f16, F16);
element!(f32, F32);
element!(u32, U32);
element!(i32, I32);
element!(u8, U8);

pub struct Reader<'a> {
    tensors: SafeTensors<'a>,
    metadata: HashMap<String, String>,
}

impl<'a> Reader<'a> {
    /// Checks the container; tensors are checked one by one as they are read.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Self { tensors: SafeTensors::deserialize(bytes)?, metadata })
    }

    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// The shape of a tensor, when it has this many dimensions.
    pub fn shape<const N: usize>(&self, name: &'static str) -> Result<[usize; N], Malformed> {
        let tensor = self.tensors.tensor(name).map_err(|_| Malformed::Missing { name })?;
        tensor.shape().try_into().map_err(|_| Malformed::Tensor {
            name,
            found: format!("{:?}", tensor.shape()),
            wanted: format!("a tensor of {N} dimensions"),
        })
    }

    /// The numbers of a tensor, when it has this type and shape.
    pub fn read<T: Element>(
        &self,
        name: &'static str,
        shape: &[usize],
    ) -> Result<Vec<T>, Malformed> {
        let tensor = self.tensors.tensor(name).map_err(|_| Malformed::Missing { name })?;
        if tensor.dtype() != T::DTYPE || tensor.shape() != shape {
            return Err(Malformed::Tensor {
                name,
                found: format!("{} {:?}", tensor.dtype(), tensor.shape()),
                wanted: format!("{} {shape:?}", T::DTYPE),
            });
        }
        Ok(T::decode(tensor.data()))
    }
}

pub struct Writer {
    tensors: Vec<(&'static str, Dtype, Vec<usize>, Vec<u8>)>,
    metadata: HashMap<String, String>,
}

impl Writer {
    /// A file with one entry of metadata: with more, their order would change from run to run.
    pub fn new(key: &str, value: String) -> Self {
        Self { tensors: vec![], metadata: HashMap::from([(key.to_owned(), value)]) }
    }

    pub fn add<T: Element>(&mut self, name: &'static str, shape: &[usize], values: &[T]) {
        self.tensors.push((name, T::DTYPE, shape.to_vec(), T::encode(values)));
    }

    pub fn bytes(self) -> Result<Vec<u8>, Malformed> {
        let mut views = Vec::with_capacity(self.tensors.len());
        for (name, dtype, shape, bytes) in &self.tensors {
            views.push((*name, TensorView::new(*dtype, shape.clone(), bytes)?));
        }
        Ok(safetensors::serialize(views, Some(self.metadata))?)
    }
}
