//! Safetensors files, memory-mapped, read tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Advice, Mmap};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::Deserialize;

use super::config::read_json;
use super::error::LoadError;

/// The type that a model's base weights live in. Tensors of another type are rounded to it first, as the reference does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// bfloat16
    Bf16,
    /// IEEE half
    F16,
    /// No rounding.
    F32,
}

impl Rounding {
    /// The rounding of a `torch_dtype`.
    pub fn parse(name: &str, path: &Path) -> Result<Self, LoadError> {
        match name {
            "bfloat16" => Ok(Self::Bf16),
            "float16" => Ok(Self::F16),
            "float32" => Ok(Self::F32),
            other => Err(LoadError::Unsupported {
                path: path.to_owned(),
                key: "torch_dtype".to_owned(),
                found: other.to_owned(),
                supported: "bfloat16, float16 or float32".to_owned(),
            }),
        }
    }

    fn apply(self, value: f32) -> f32 {
        match self {
            Self::Bf16 => half::bf16::from_f32(value).to_f32(),
            Self::F16 => half::f16::from_f32(value).to_f32(),
            Self::F32 => value,
        }
    }
}

/// One mapped file.
pub struct Shard {
    path: PathBuf,
    map: Arc<Mmap>,
    data_start: usize,
    metadata: Metadata,
}

impl Shard {
    /// Maps a file and reads its header.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let read = |source| LoadError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(read)?;
        // SAFETY: the map is only read. A file that another process truncates meanwhile ends this one with a signal, as with every
        // mapped model; published checkpoints are replaced, not rewritten.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|error| LoadError::Safetensors { path: path.to_owned(), message: error.to_string() })?;
        // Only a hint: a system without it reads as well, a little later.
        let _ = map.advise(Advice::WillNeed);
        Ok(Self { path: path.to_owned(), map: Arc::new(map), data_start: header + 8, metadata })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its tensors.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.metadata.tensors().into_keys().collect::<Vec<_>>().into_iter()
    }

    /// A tensor's shape.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.metadata.info(name).map(|info| info.shape.as_slice())
    }

    fn checked(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let Some(info) = self.metadata.info(name) else {
            return Err(LoadError::NoTensor {
                path: self.path.clone(),
                tensor: name.to_owned(),
                expected: shape.to_owned(),
            });
        };
        if info.shape != shape {
            return Err(LoadError::Shape {
                path: self.path.clone(),
                tensor: name.to_owned(),
                expected: shape.to_owned(),
                found: info.shape.clone(),
            });
        }
        if !matches!(info.dtype, Dtype::BF16 | Dtype::F16 | Dtype::F32) {
            return Err(LoadError::Type {
                path: self.path.clone(),
                tensor: name.to_owned(),
                found: format!("{:?}", info.dtype),
            });
        }
        Ok(info)
    }

    /// A tensor's values, in row order.
    pub fn values(&self, name: &str, shape: &[usize], rounding: Rounding) -> Result<Vec<f32>, LoadError> {
        let info = self.checked(name, shape)?;
        let (from, to) = info.data_offsets;
        let bytes = &self.map[self.data_start + from..self.data_start + to];
        let mut values = vec![0.0; info.shape.iter().product()];
        decode(bytes, info.dtype, rounding, &mut values);
        self.forget(from, to);
        Ok(values)
    }

    /// A table whose rows are read when they are needed.
    pub fn table(
        &self,
        name: &str,
        rows: usize,
        width: usize,
        rounding: Rounding,
    ) -> Result<Table, LoadError> {
        let info = self.checked(name, &[rows, width])?;
        let start = self.data_start + info.data_offsets.0;
        Ok(Table { map: Arc::clone(&self.map), start, dtype: info.dtype, rows, width, rounding })
    }

    /// Lets go of pages whose values have been copied, so that a model is not in memory twice while it loads.
    fn forget(&self, from: usize, to: usize) {
        #[cfg(unix)]
        {
            const PAGE: usize = 4096;
            let start = (self.data_start + from).next_multiple_of(PAGE);
            let end = (self.data_start + to) / PAGE * PAGE;
            if start < end {
                // SAFETY: the map is shared and read-only, so dropped pages come back unchanged from the file. A hint: failure is harmless.
                let _ = unsafe {
                    self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
    }
}

/// Values in a mapped file, decoded row by row.
pub struct Table {
    map: Arc<Mmap>,
    start: usize,
    dtype: Dtype,
    rows: usize,
    width: usize,
    rounding: Rounding,
}

impl Table {
    /// Copies `row` into `out`. A row that does not exist is zeros.
    pub fn copy_row(&self, row: usize, out: &mut [f32]) {
        if row >= self.rows {
            out.fill(0.0);
            return;
        }
        let bytes = self.width * self.dtype.bitsize() / 8;
        let from = self.start + row * bytes;
        decode(&self.map[from..from + bytes], self.dtype, self.rounding, out);
    }
}

/// Decodes into slots, as many as there are values. The match is outside the loops so that each becomes plain vector code.
fn decode(bytes: &[u8], dtype: Dtype, rounding: Rounding, slots: &mut [f32]) {
    let wide = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    let halves = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    match (dtype, rounding) {
        (Dtype::BF16, Rounding::F16) => {
            slots.iter_mut().zip(halves).for_each(|(slot, bits)| *slot = rounding.apply(wide(bits)));
        }
        (Dtype::BF16, _) => slots.iter_mut().zip(halves).for_each(|(slot, bits)| *slot = wide(bits)),
        (Dtype::F16, _) => slots
            .iter_mut()
            .zip(halves)
            .for_each(|(slot, bits)| *slot = rounding.apply(half::f16::from_bits(bits).to_f32())),
        _ => slots.iter_mut().zip(bytes.chunks_exact(4)).for_each(|(slot, four)| {
            *slot = rounding.apply(f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        }),
    }
}

/// The weights of a model folder: one file, or several with an index.
pub struct Shards {
    folder: PathBuf,
    shards: Vec<Shard>,
    /// Tensor name to shard.
    places: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Shards {
    /// Opens the weights of a model folder.
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let index_path = folder.join("model.safetensors.index.json");
        let names: BTreeSet<String> = if index_path.exists() {
            let index: Index = read_json(&index_path)?;
            index.weight_map.into_values().collect()
        } else {
            BTreeSet::from(["model.safetensors".to_owned()])
        };
        let mut shards = Vec::new();
        let mut places = BTreeMap::new();
        for name in names {
            let path = folder.join(&name);
            if Path::new(&name).file_name() != Some(name.as_ref()) || !path.exists() {
                return Err(LoadError::Missing { path, why: "the model's weights are in it" });
            }
            let shard = Shard::open(&path)?;
            places.extend(shard.names().map(|tensor| (tensor, shards.len())));
            shards.push(shard);
        }
        Ok(Self { folder: folder.to_owned(), shards, places })
    }

    /// Whether any tensor's name starts so.
    pub fn any_starts_with(&self, prefix: &str) -> bool {
        self.places.range(prefix.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(prefix))
    }

    /// The file that holds a tensor of this name and shape.
    pub fn shard(&self, name: &str, expected: &[usize]) -> Result<&Shard, LoadError> {
        match self.places.get(name) {
            Some(&place) => Ok(&self.shards[place]),
            None => Err(LoadError::NoTensor {
                path: self.folder.clone(),
                tensor: name.to_owned(),
                expected: expected.to_owned(),
            }),
        }
    }
}
