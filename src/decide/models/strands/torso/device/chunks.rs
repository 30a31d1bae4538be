//! The gated delta rule for many tokens at once.

use candle_core::{Device, Result, Tensor};

/// Tokens of a chunk of the delta rule.
const CHUNK: usize = 64;

/// The delta rule over `[heads, tokens, …]`, chunk by chunk. Gives the outputs and the matrices afterwards.
pub(super) fn chunked(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    log_decay: &Tensor,
    beta: &Tensor,
    matrices: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let (heads, count, _) = query.dims3()?;
    let size = count.next_power_of_two().min(CHUNK);
    let chunks = count.div_ceil(size);
    // Padding has beta = 0 and a decay of 1: it changes nothing.
    let split = |x: &Tensor| {
        let x = x.pad_with_zeros(1, 0, chunks * size - count)?;
        let width = x.elem_count() / (heads * chunks * size);
        x.reshape((heads * chunks, size, width))
    };
    let (query, key, value, log_decay, beta) =
        (split(query)?, split(key)?, split(value)?, split(log_decay)?, split(beta)?);
    let masks = Masks::new(size, query.device())?;
    let sums = masks.causal.broadcast_matmul(&log_decay)?;
    let decay =
        (sums.broadcast_sub(&sums.transpose(1, 2)?)?.broadcast_add(&masks.below_or_minus_infinity)?).exp()?;
    let key_t = key.transpose(1, 2)?.contiguous()?;
    let overlap = (key.matmul(&key_t)? * &decay)?.broadcast_mul(&beta)?;
    let inverse = masks.inverse(&overlap)?;
    let updates = inverse.matmul(&value.broadcast_mul(&beta)?)?;
    let growth = sums.exp()?;
    let reads = inverse.matmul(&key.broadcast_mul(&(&beta * &growth)?)?)?;
    let within = (query.matmul(&key_t)? * decay)?;
    let query = query.broadcast_mul(&growth)?;
    let last = sums.narrow(1, size - 1, 1)?;
    let carried = key.broadcast_mul(&last.broadcast_sub(&sums)?.exp()?)?;
    let last = last.exp()?;

    let by_chunk = |x: &Tensor| {
        let (_, rows, width) = x.dims3()?;
        x.reshape((heads, chunks, rows, width))
    };
    let (updates, reads, within, query, carried, last) = (
        by_chunk(&updates)?,
        by_chunk(&reads)?,
        by_chunk(&within)?,
        by_chunk(&query)?,
        by_chunk(&carried)?,
        by_chunk(&last)?,
    );
    let mut matrices = matrices.clone();
    let mut outputs = Vec::with_capacity(chunks);
    for chunk in 0..chunks {
        let at = |x: &Tensor| x.narrow(1, chunk, 1)?.squeeze(1)?.contiguous();
        let change = (at(&updates)? - at(&reads)?.matmul(&matrices)?)?;
        outputs.push((at(&query)?.matmul(&matrices)? + at(&within)?.matmul(&change)?)?);
        let added = at(&carried)?.transpose(1, 2)?.contiguous()?.matmul(&change)?;
        matrices = (matrices.broadcast_mul(&at(&last)?)? + added)?;
    }
    Ok((Tensor::cat(&outputs, 1)?.narrow(1, 0, count)?, matrices))
}

/// Constant matrices of a chunk.
struct Masks {
    /// 1 on and below the diagonal.
    causal: Tensor,
    /// 0 on and below the diagonal, −∞ above.
    below_or_minus_infinity: Tensor,
    identity: Tensor,
    /// For blocks of 1, 2, 4, …: 1 where a block's left lower neighbour is.
    neighbours: Vec<Tensor>,
}

impl Masks {
    fn new(size: usize, device: &Device) -> Result<Self> {
        let matrix = |value: &dyn Fn(usize, usize) -> f32| {
            let values: Vec<f32> = (0..size * size).map(|index| value(index / size, index % size)).collect();
            Tensor::from_vec(values, (1, size, size), device)
        };
        let one_if = |holds: bool| f32::from(u8::from(holds));
        let mut neighbours = Vec::new();
        let mut block = 1;
        while block < size {
            neighbours.push(matrix(&|row, column| {
                one_if(row / (2 * block) == column / (2 * block) && row / block > column / block)
            })?);
            block *= 2;
        }
        Ok(Self {
            causal: matrix(&|row, column| one_if(row >= column))?,
            below_or_minus_infinity: matrix(&|row, column| {
                if row >= column { 0.0 } else { f32::NEG_INFINITY }
            })?,
            identity: matrix(&|row, column| one_if(row == column))?,
            neighbours,
        })
    }

    /// `(1 + strictly lower part of x)⁻¹`, by inverting ever larger blocks on the diagonal. A series of powers would blow up.
    fn inverse(&self, x: &Tensor) -> Result<Tensor> {
        let mut inverse = self.identity.broadcast_as(x.shape())?.contiguous()?;
        for neighbour in &self.neighbours {
            let change = inverse.matmul(&x.broadcast_mul(neighbour)?)?.matmul(&inverse)?;
            inverse = (inverse - change)?;
        }
        Ok(inverse)
    }
}
