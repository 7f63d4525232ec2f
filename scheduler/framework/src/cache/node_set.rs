//! `NodeSet`, a set of the nodes of one snapshot by their numbers, 64 of them in a word.

use std::ops::Range;

/// Number of nodes in a word.
pub const WORD: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(Vec<u64>);

impl NodeSet {
    /// Returns the empty set for a snapshot of this size.
    pub fn empty(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(WORD)])
    }

    pub fn set(&mut self, node: usize, is_in: bool) {
        let (word, bit) = (node / WORD, bit(node));
        match is_in {
            true => self.0[word] |= bit,
            false => self.0[word] &= !bit,
        }
    }

    #[inline]
    pub fn contains(&self, node: usize) -> bool {
        self.0[node / WORD] & bit(node) != 0
    }

    /// Returns 64 nodes. The lowest bit stands for the node `64 * word`.
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        self.0[word]
    }

    /// Returns the numbers of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| numbers(word, *bits))
    }
}

/// Returns the bit of a node in its word.
#[inline]
pub fn bit(node: usize) -> u64 {
    1 << (node % WORD)
}

/// Returns the bits of some nodes that follow each other in one word.
pub fn bits(nodes: Range<usize>) -> u64 {
    match nodes.len() {
        0 => 0,
        len => (u64::MAX >> (WORD - len)) << (nodes.start % WORD),
    }
}

/// Returns the numbers of the nodes with these bits.
pub fn numbers(word: usize, mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = bits.trailing_zeros() as usize;
        bits &= bits.checked_sub(1)?;
        Some(word * WORD + lowest)
    })
}

/// Returns the ranges of the nodes with these bits.
pub fn runs(word: usize, mut bits: u64) -> impl Iterator<Item = Range<usize>> {
    std::iter::from_fn(move || {
        let start = bits.trailing_zeros();
        let len = (bits.checked_shr(start)?).trailing_ones();
        bits &= u64::MAX.checked_shl(start + len).unwrap_or(0);
        let first = word * WORD + start as usize;
        Some(first..first + len as usize)
    })
}

/// Cuts a list of nodes into ranges of nodes that follow each other.
pub fn ranges(mut nodes: &[usize]) -> impl Iterator<Item = Range<usize>> {
    std::iter::from_fn(move || {
        let first = *nodes.first()?;
        let len = nodes.iter().zip(first..).position(|(node, next)| *node != next).unwrap_or(nodes.len());
        nodes = &nodes[len..];
        Some(first..first + len)
    })
}

/// Cuts a range of nodes where a word of a set ends.
pub fn words(nodes: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let firsts = nodes.start / WORD..nodes.end.div_ceil(WORD);
    firsts.map(move |word| nodes.start.max(word * WORD)..nodes.end.min((word + 1) * WORD)).filter(|cut| !cut.is_empty())
}

/// Returns the lowest `count` of the bits; all, if there are no more.
pub fn lowest(bits: u64, count: usize) -> u64 {
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest.saturating_sub(1);
    }
    bits & !rest
}

/// Returns all bits up to the highest one of these.
pub fn up_to_highest(bits: u64) -> u64 {
    u64::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_nodes() {
        let mut set = NodeSet::empty(130);
        [0, 63, 64, 129].into_iter().for_each(|node| set.set(node, true));
        set.set(63, false);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert_eq!((set.contains(64), set.contains(63)), (true, false));
    }

    #[test]
    fn bits_can_be_cut() {
        assert_eq!((bits(64..64), bits(66..68), bits(64..128)), (0, 0b1100, u64::MAX));
        assert_eq!(
            (lowest(0b1_0110, 2), lowest(0b11, 9), lowest(0b11, 0), lowest(u64::MAX, 64)),
            (0b110, 0b11, 0, u64::MAX)
        );
        assert_eq!(runs(1, 0b1_0110 | 1 << 63).collect::<Vec<_>>(), [65..67, 68..69, 127..128]);
        assert_eq!((runs(0, u64::MAX).next(), runs(3, 0).next()), (Some(0..64), None));
        assert_eq!(ranges(&[7, 8, 9, 3, 4, 6, 5]).collect::<Vec<_>>(), [7..10, 3..5, 6..7, 5..6]);
        assert_eq!((ranges(&[]).count(), words(5..5).count()), (0, 0));
        assert_eq!(words(60..130).collect::<Vec<_>>(), [60..64, 64..128, 128..130]);
        assert_eq!((up_to_highest(0b100), up_to_highest(0), up_to_highest(1 << 63)), (0b111, 0, u64::MAX));
    }
}
