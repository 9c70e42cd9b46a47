//! A GGUF file, its weights read a few rows at a time.

use std::{
    borrow::Cow,
    collections::HashSet,
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use candle_core::{
    Device, Tensor,
    quantized::{
        GgmlDType, QStorage, QTensor,
        gguf_file::{Content, TensorInfo, Value},
    },
};

use super::error::ExportError;

/// Numbers held at once while a matrix is read.
const CHUNK: usize = 4 << 20;

/// A LoRA adapter, and how strongly it acts.
#[derive(Clone, Debug)]
pub struct Lora {
    pub path: PathBuf,
    /// 1 is as trained.
    pub scale: f32,
}

pub struct Source {
    path: PathBuf,
    content: Content,
    file: BufReader<File>,
    adapters: Vec<Adapter>,
    /// What has been written: anything left over is something we do not know.
    used: HashSet<String>,
}

struct Adapter {
    path: PathBuf,
    content: Content,
    file: BufReader<File>,
    scale: f32,
    /// Divided by the rank, it is the strength the adapter was trained with.
    alpha: Option<f32>,
}

fn open(path: &Path) -> Result<(Content, BufReader<File>), ExportError> {
    let file = File::open(path).map_err(|e| ExportError::Io { path: path.into(), source: e })?;
    let mut file = BufReader::new(file);
    let failed = |reason| ExportError::Gguf { path: path.into(), reason };
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(|e| failed(e.to_string()))?;
    if &magic != b"GGUF" {
        let start = String::from_utf8_lossy(&magic).into_owned();
        return Err(failed(format!("it starts with {start:?}, not \"GGUF\"")));
    }
    file.rewind().map_err(|e| failed(e.to_string()))?;
    let content = Content::read(&mut file).map_err(|e| failed(plain(&e)))?;
    Ok((content, file))
}

/// A whole number, whatever its width.
pub fn int(value: &Value) -> Option<i64> {
    match *value {
        Value::I8(n) => Some(n.into()),
        Value::U8(n) => Some(n.into()),
        Value::I16(n) => Some(n.into()),
        Value::U16(n) => Some(n.into()),
        Value::I32(n) => Some(n.into()),
        Value::U32(n) => Some(n.into()),
        Value::I64(n) => Some(n),
        Value::U64(n) => n.try_into().ok(),
        _ => None,
    }
}

/// The first line of an error: the rest is a trace of calls.
fn plain(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl Source {
    pub fn open(path: &Path, adapters: &[Lora]) -> Result<Self, ExportError> {
        let (content, file) = open(path)?;
        let mut source =
            Self { path: path.into(), content, file, adapters: vec![], used: HashSet::new() };
        for lora in adapters {
            let adapter = source.adapter(lora)?;
            source.adapters.push(adapter);
        }
        Ok(source)
    }

    fn adapter(&self, lora: &Lora) -> Result<Adapter, ExportError> {
        let (content, file) = open(&lora.path)?;
        let refuse = |reason: String| ExportError::Adapter { path: lora.path.clone(), reason };
        let text = |key: &str| match content.metadata.get(key) {
            Some(Value::String(text)) => text.as_str(),
            _ => "",
        };
        if text("general.type") != "adapter" || text("adapter.type") != "lora" {
            return Err(refuse("it is no LoRA adapter".into()));
        }
        let (theirs, ours) = (text("general.architecture"), self.architecture()?);
        if theirs != ours {
            return Err(refuse(format!("it is for a {theirs} model, and this is {ours}")));
        }
        for name in content.tensor_infos.keys() {
            let base = name.strip_suffix(".lora_a").or_else(|| name.strip_suffix(".lora_b"));
            let known = base.is_some_and(|b| self.content.tensor_infos.contains_key(b));
            if !known || base == Some("token_embd.weight") {
                return Err(refuse(format!("nothing can be done with its tensor {name}")));
            }
        }
        let alpha = content.metadata.get("adapter.lora.alpha").and_then(|a| a.to_f32().ok());
        let alpha = alpha.filter(|alpha| *alpha != 0.0);
        let path = lora.path.clone();
        Ok(Adapter { path, content, file, scale: lora.scale, alpha })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn unsupported(&self, reason: impl Into<String>) -> ExportError {
        ExportError::Unsupported { path: self.path.clone(), reason: reason.into() }
    }

    pub fn value(&self, key: &str) -> Option<&Value> {
        self.content.metadata.get(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    pub fn architecture(&self) -> Result<&str, ExportError> {
        self.text("general.architecture")
            .ok_or_else(|| self.unsupported("it names no architecture"))
    }

    /// A whole number under the architecture's own prefix.
    pub fn number(&self, key: &str) -> Option<usize> {
        let key = format!("{}.{key}", self.architecture().ok()?);
        self.index(&key)
    }

    pub fn index(&self, key: &str) -> Option<usize> {
        usize::try_from(int(self.value(key)?)?).ok()
    }

    /// A number with a fraction under the architecture's own prefix.
    pub fn float(&self, key: &str) -> Option<f32> {
        let key = format!("{}.{key}", self.architecture().ok()?);
        self.value(&key).and_then(|value| value.to_f32().ok())
    }

    pub fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    fn info(&self, tensor: &str) -> Result<&TensorInfo, ExportError> {
        let info = self.content.tensor_infos.get(tensor);
        info.ok_or_else(|| self.unsupported(format!("it has no tensor {tensor}")))
    }

    /// Rows and columns; a vector is one row.
    pub fn shape(&self, tensor: &str) -> Result<(usize, usize), ExportError> {
        let info = self.info(tensor)?;
        match *info.shape.dims() {
            [columns] => Ok((1, columns)),
            [rows, columns] => Ok((rows, columns)),
            _ => Err(self.unsupported(format!("{tensor} has the shape {:?}", info.shape))),
        }
    }

    /// All numbers of a tensor, with what adapters add.
    pub fn whole(&mut self, tensor: &str) -> Result<Vec<f32>, ExportError> {
        let mut all = vec![];
        self.chunks(tensor, |rows| {
            all.extend_from_slice(rows);
            Ok(())
        })?;
        Ok(all)
    }

    /// Passes a tensor on, a few rows at a time, with what adapters add.
    pub fn chunks(
        &mut self,
        tensor: &str,
        mut take: impl FnMut(&[f32]) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let (rows, columns) = self.shape(tensor)?;
        let at_once = (CHUNK / columns.max(1)).clamp(1, rows.max(1));
        self.used.insert(tensor.into());
        let mut low_ranks = vec![];
        for adapter in &mut self.adapters {
            low_ranks.extend(adapter.low_rank(tensor, (rows, columns))?);
        }
        for first in (0..rows).step_by(at_once) {
            let count = at_once.min(rows - first);
            let mut numbers = self.rows(tensor, columns, first, count)?;
            for low_rank in &low_ranks {
                let added = low_rank.rows(first, count).map_err(|e| self.unsupported(plain(&e)))?;
                numbers.iter_mut().zip(added).for_each(|(n, a)| *n += a);
            }
            take(&numbers)?;
        }
        Ok(())
    }

    fn rows(
        &mut self,
        tensor: &str,
        columns: usize,
        first: usize,
        count: usize,
    ) -> Result<Vec<f32>, ExportError> {
        let path = self.path.clone();
        let failed = |reason| ExportError::Gguf { path: path.clone(), reason };
        let info = self.info(tensor)?;
        let kind = info.ggml_dtype;
        if !columns.is_multiple_of(kind.block_size()) {
            return Err(failed(format!("{tensor} has rows of {columns}, not whole blocks")));
        }
        let row = columns / kind.block_size() * kind.type_size();
        // Sizes are the file's own word: what it does not hold is not asked memory for.
        let held = self.file.get_ref().metadata().map_err(|e| failed(e.to_string()))?.len();
        let offset = self.content.tensor_data_offset.checked_add(info.offset);
        let place = offset.zip(first.checked_mul(row).zip(count.checked_mul(row)));
        let place = place.and_then(|(offset, (skipped, length))| {
            let begin = offset.checked_add(skipped as u64)?;
            let end = begin.checked_add(length as u64)?;
            (end <= held).then_some((begin, length))
        });
        let outside = || failed(format!("{tensor} lies outside the file"));
        let (begin, length) = place.ok_or_else(outside)?;
        let mut bytes = vec![0; length];
        let read = self.file.seek(SeekFrom::Start(begin));
        read.and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| failed(format!("{tensor}: {e}")))?;
        let numbers = || {
            let storage = QStorage::from_data(Cow::Owned(bytes), &Device::Cpu, kind)?;
            let tensor = QTensor::new(storage, (count, columns))?.dequantize(&Device::Cpu)?;
            tensor.flatten_all()?.to_vec1::<f32>()
        };
        numbers().map_err(|e| failed(format!("{tensor}: {}", plain(&e))))
    }

    /// Refuses weights that have been rounded before.
    pub fn refuse_four_bits(&self) -> Result<(), ExportError> {
        let fine = [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16, GgmlDType::Q8_0];
        let tensors = self.content.tensor_infos.iter();
        let rounded = tensors.filter(|(_, info)| !fine.contains(&info.ggml_dtype));
        match rounded.min_by_key(|(name, _)| *name) {
            None => Ok(()),
            Some((tensor, info)) => Err(ExportError::FourBits {
                path: self.path.clone(),
                kind: format!("{:?}", info.ggml_dtype),
                tensor: tensor.clone(),
            }),
        }
    }

    /// Everything must have found its place: what was left out would be missing in the result.
    pub fn nothing_left(&self) -> Result<(), ExportError> {
        let tensors = self.content.tensor_infos.keys();
        let left: Vec<_> = tensors.filter(|name| !self.used.contains(*name)).collect();
        match left.iter().min() {
            None => Ok(()),
            Some(first) => Err(self.unsupported(format!(
                "{} of its tensors have no place in this family, {first} among them",
                left.len()
            ))),
        }
    }
}

/// What an adapter adds to a matrix: the product of two thin ones.
struct LowRank {
    a: Tensor,
    b: Tensor,
    strength: f32,
}

impl LowRank {
    fn rows(&self, first: usize, count: usize) -> candle_core::Result<Vec<f32>> {
        let product = self.b.narrow(0, first, count)?.matmul(&self.a)?;
        (product * f64::from(self.strength))?.flatten_all()?.to_vec1()
    }
}

impl Adapter {
    fn low_rank(
        &mut self,
        tensor: &str,
        (rows, columns): (usize, usize),
    ) -> Result<Option<LowRank>, ExportError> {
        let names = [format!("{tensor}.lora_a"), format!("{tensor}.lora_b")];
        if !names.iter().any(|name| self.content.tensor_infos.contains_key(name)) {
            return Ok(None);
        }
        let refuse = |reason| ExportError::Adapter { path: self.path.clone(), reason };
        let mut read = |name: &str| {
            let whole = self.content.tensor(&mut self.file, name, &Device::Cpu);
            whole.and_then(|t| t.dequantize(&Device::Cpu)).map_err(|e| refuse(plain(&e)))
        };
        let (a, b) = (read(&names[0])?, read(&names[1])?);
        match (a.dims(), b.dims()) {
            (&[rank, k], &[n, other]) if (n, k) == (rows, columns) && rank == other && rank > 0 => {
                let trained = self.alpha.map_or(1.0, |alpha| alpha / rank as f32);
                let strength = self.scale * trained;
                Ok(Some(LowRank { a, b, strength }))
            }
            (a, b) => Err(refuse(format!(
                "{tensor} is {rows} × {columns}, and its matrices are {b:?} and {a:?}"
            ))),
        }
    }
}
