//! Tensors of a safetensors file as numbers, with shapes checked.

use half::f16;
use safetensors::{Dtype, SafeTensors};

use crate::decide::LoadError;

/// A safetensors file in memory.
pub struct Weights<'a> {
    file: &'a str,
    tensors: SafeTensors<'a>,
}

impl<'a> Weights<'a> {
    /// Reads the header of `bytes`; `file` is their name in errors.
    pub fn read(file: &'a str, bytes: &'a [u8]) -> Result<Self, LoadError> {
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|source| LoadError::Invalid { file: file.to_owned(), source: source.into() })?;
        Ok(Self { file, tensors })
    }

    /// The bytes of a tensor of half-precision numbers, little-endian.
    pub fn halves(&self, name: &str, shape: &[usize]) -> Result<&'a [u8], LoadError> {
        let tensor = self
            .tensors
            .tensor(name)
            .map_err(|_| LoadError::NoTensor { file: self.file.to_owned(), tensor: name.to_owned() })?;
        if tensor.dtype() != Dtype::F16 || tensor.shape() != shape {
            return Err(LoadError::Shape {
                file: self.file.to_owned(),
                tensor: name.to_owned(),
                expected: format!("{:?} {shape:?}", Dtype::F16),
                found: format!("{:?} {:?}", tensor.dtype(), tensor.shape()),
            });
        }
        Ok(tensor.data())
    }

    /// A tensor of half-precision numbers, widened.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let halves = self.halves(name, shape)?;
        let mut floats = vec![0.0; halves.len() / 2];
        widen(halves, &mut floats);
        Ok(floats)
    }
}

/// Little-endian half-precision numbers as `f32`.
pub fn widen(halves: &[u8], floats: &mut [f32]) {
    for (float, half) in floats.iter_mut().zip(halves.chunks_exact(2)) {
        *float = f16::from_le_bytes([half[0], half[1]]).to_f32();
    }
}
