//! Products of f32 matrices. The `gemm` crate does the work; this file makes its pointers safe.

use gemm::Parallelism;

/// How many threads share a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling one.
    One,
    /// All of the current pool.
    All,
}

impl Threads {
    fn parallelism(self) -> Parallelism {
        match self {
            Threads::One => Parallelism::None,
            Threads::All => Parallelism::Rayon(0),
        }
    }
}

/// A matrix in row order; rows may lie further apart than they are wide.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    data: &'a [f32],
    rows: usize,
    width: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// `rows` rows of `width` values, `stride` apart.
    ///
    /// # Panics
    /// If the data does not hold them.
    pub fn new(data: &'a [f32], rows: usize, width: usize, stride: usize) -> Self {
        check(data.len(), rows, width, stride);
        Self { data, rows, width, stride }
    }
}

/// A matrix to write, as [`Rows`].
pub struct RowsMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    width: usize,
    stride: usize,
}

impl<'a> RowsMut<'a> {
    /// `rows` rows of `width` values, `stride` apart.
    ///
    /// # Panics
    /// If the data does not hold them.
    pub fn new(data: &'a mut [f32], rows: usize, width: usize, stride: usize) -> Self {
        check(data.len(), rows, width, stride);
        Self { data, rows, width, stride }
    }
}

fn check(length: usize, rows: usize, width: usize, stride: usize) {
    assert!(width <= stride, "rows of {width} values overlap at a stride of {stride}");
    let needed = if rows == 0 { 0 } else { (rows - 1) * stride + width };
    assert!(length >= needed, "{length} values do not hold {rows} rows of {width}");
}

/// `out = a · bᵀ`, or `out += a · bᵀ`.
///
/// # Panics
/// If the shapes do not fit.
pub fn times_transposed(out: RowsMut<'_>, a: Rows<'_>, b: Rows<'_>, add: bool, threads: Threads) {
    assert!(a.width == b.width && out.rows == a.rows && out.width == b.rows, "shapes of a product");
    multiply(out, a, b.data, (b.stride as isize, 1), add, threads);
}

/// `out = a · b`, or `out += a · b`.
///
/// # Panics
/// If the shapes do not fit.
pub fn times(out: RowsMut<'_>, a: Rows<'_>, b: Rows<'_>, add: bool, threads: Threads) {
    assert!(a.width == b.rows && out.rows == a.rows && out.width == b.width, "shapes of a product");
    multiply(out, a, b.data, (1, b.stride as isize), add, threads);
}

/// `b_strides`: from column to column and from row to row of the right factor.
fn multiply(
    out: RowsMut<'_>,
    a: Rows<'_>,
    b: &[f32],
    b_strides: (isize, isize),
    add: bool,
    threads: Threads,
) {
    if out.rows == 0 || out.width == 0 {
        return;
    }
    if a.width == 0 {
        if !add {
            for row in 0..out.rows {
                out.data[row * out.stride..][..out.width].fill(0.0);
            }
        }
        return;
    }
    // SAFETY: `Rows` and `RowsMut` have checked that every row lies within its slice, the callers that the shapes fit, and the
    // mutable borrow that the output overlaps no input.
    unsafe {
        gemm::gemm(
            out.rows,
            out.width,
            a.width,
            out.data.as_mut_ptr(),
            1,
            out.stride as isize,
            add,
            a.data.as_ptr(),
            1,
            a.stride as isize,
            b.as_ptr(),
            b_strides.0,
            b_strides.1,
            1.0,
            1.0,
            false,
            false,
            false,
            threads.parallelism(),
        );
    }
}

/// `a · b` for `a` of `[rows, inner]` and `b` of `[inner, columns]`.
pub fn product(a: &[f32], b: &[f32], rows: usize, columns: usize, inner: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows * columns];
    let target = RowsMut::new(&mut out, rows, columns, columns);
    times(
        target,
        Rows::new(a, rows, inner, inner),
        Rows::new(b, inner, columns, columns),
        false,
        Threads::All,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition_whatever_the_strides() {
        let (m, n, k, stride) = (5, 7, 11, 13);
        let a: Vec<f32> = (0..m * stride).map(|i| (i % 17) as f32 - 8.0).collect();
        let b: Vec<f32> = (0..n * stride).map(|i| (i % 23) as f32 - 11.0).collect();
        let mut out = vec![1.0; m * stride];
        times_transposed(
            RowsMut::new(&mut out, m, n, stride),
            Rows::new(&a, m, k, stride),
            Rows::new(&b, n, k, stride),
            true,
            Threads::One,
        );
        for row in 0..m {
            for column in 0..n {
                let expected: f32 = (0..k).map(|i| a[row * stride + i] * b[column * stride + i]).sum();
                assert_eq!(out[row * stride + column], 1.0 + expected);
            }
            assert_eq!(out[row * stride + n..(row + 1) * stride], vec![1.0; stride - n]);
        }
        let transposed: Vec<f32> = (0..k * n).map(|i| b[(i % n) * stride + i / n]).collect();
        let dense: Vec<f32> = (0..m * k).map(|i| a[(i / k) * stride + i % k]).collect();
        let plain = product(&dense, &transposed, m, n, k);
        assert_eq!(plain[0] + 1.0, out[0]);
        assert_eq!(plain[m * n - 1] + 1.0, out[(m - 1) * stride + n - 1]);
    }

    #[test]
    #[should_panic(expected = "do not hold")]
    fn a_matrix_must_lie_within_its_slice() {
        Rows::new(&[0.0; 5], 2, 3, 3);
    }
}
