//! The output of a product, written by several threads at once.

use std::marker::PhantomData;

use super::format::{COLUMNS, Values};

/// A matrix in row order that is written panel by panel.
pub struct Output<'a> {
    data: *mut f32,
    rows: usize,
    width: usize,
    add: bool,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer is only used in `write`, whose callers promise that no two threads write the same panel.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// Rows of `width` values, to be replaced or added to.
    pub fn new(data: &'a mut [f32], width: usize, add: bool) -> Self {
        Self { rows: data.len() / width, width, add, data: data.as_mut_ptr(), borrow: PhantomData }
    }

    /// Writes the results of a panel, one element of `sums` per row.
    ///
    /// # Safety
    /// No other thread writes this panel at the same time.
    ///
    /// # Panics
    /// If there is no such panel, or the number of rows is another.
    pub unsafe fn write(&self, panel: usize, sums: &[Values]) {
        let first = panel * COLUMNS;
        assert!(first < self.width && sums.len() == self.rows, "a panel outside of its output");
        let columns = COLUMNS.min(self.width - first);
        for (row, sums) in sums.iter().enumerate() {
            // SAFETY: `row < rows` and `first + columns <= width`, so the values lie within the slice that `new` borrowed for
            // as long as `self` lives; the caller promises that no other thread touches these columns.
            let target =
                unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.width + first), columns) };
            if self.add {
                target.iter_mut().zip(&sums.0).for_each(|(value, sum)| *value += sum);
            } else {
                target.copy_from_slice(&sums.0[..columns]);
            }
        }
    }
}
