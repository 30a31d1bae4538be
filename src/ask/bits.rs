//! A set of a claim's words, small enough to be copied.

/// Positions from 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Bits([u64; 4]);

impl Bits {
    /// The empty set.
    pub const NONE: Bits = Bits([0; 4]);
    /// How many positions there are.
    pub const MOST: usize = 256;

    /// Adds a position. Those beyond the last are left out.
    pub fn insert(&mut self, bit: usize) {
        if bit < Self::MOST {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// What is in one or the other.
    pub fn or(self, other: Bits) -> Bits {
        self.with(other, |own, other| own | other)
    }

    /// What is in both.
    pub fn and(self, other: Bits) -> Bits {
        self.with(other, |own, other| own & other)
    }

    /// What is not in the other.
    pub fn without(self, other: Bits) -> Bits {
        self.with(other, |own, other| own & !other)
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The positions, lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().enumerate().flat_map(|(at, word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
        })
    }

    fn with(self, other: Bits, combine: impl Fn(u64, u64) -> u64) -> Bits {
        Bits(std::array::from_fn(|at| combine(self.0[at], other.0[at])))
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(positions: I) -> Self {
        let mut bits = Bits::NONE;
        positions.into_iter().for_each(|bit| bits.insert(bit));
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_behave_as_sets() {
        let set = |positions: &[usize]| positions.iter().copied().collect::<Bits>();
        assert_eq!(set(&[0, 63, 64, 255]).iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!(set(&[256]), Bits::NONE);
        assert_eq!(set(&[1, 2]).or(set(&[2, 200])), set(&[1, 2, 200]));
        assert_eq!(set(&[1, 2]).and(set(&[2, 200])), set(&[2]));
        assert_eq!(set(&[1, 2]).without(set(&[2, 200])), set(&[1]));
        assert_eq!(set(&[1, 2, 200]).count(), 3);
    }
}
