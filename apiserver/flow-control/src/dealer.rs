//! `Dealer`: chooses by shuffle sharding the queues of a priority level in which a flow may wait.
//!
//! Every flow gets a hand of queues by its hash. Two flows rarely have the same hand, so a flow that fills its own queues
//! leaves others at least one that is short. Corresponds to k8s.io/apiserver/pkg/util/shufflesharding.

use sha2::{Digest, Sha256};

/// The largest hand size that validation allows.
pub const MAX_HAND: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    deck: usize,
    hand: usize,
}

impl Dealer {
    pub fn new(deck: usize, hand: usize) -> Self {
        Self { deck, hand: hand.min(deck).min(MAX_HAND) }
    }

    /// Returns distinct queues, in the order in which they were drawn. The hash is read as a number of mixed base: the
    /// remainder by `deck` is the first card, the quotient's remainder by `deck - 1` selects one of the remaining cards, …
    pub fn deal(self, hash: u64) -> Hand {
        let mut cards = [0; MAX_HAND];
        let mut rest = hash;
        for (drawn, card) in cards.iter_mut().enumerate().take(self.hand) {
            let left = (self.deck - drawn) as u64;
            *card = (rest % left) as usize;
            rest /= left;
        }
        // Converts positions among the remaining cards to positions in the whole deck.
        let remainders = cards;
        for (drawn, card) in cards.iter_mut().enumerate().take(self.hand) {
            for earlier in remainders[..drawn].iter().rev() {
                if *card >= *earlier {
                    *card += 1;
                }
            }
        }
        Hand { cards, size: self.hand }
    }
}

/// The queues of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Hand {
    cards: [usize; MAX_HAND],
    size: usize,
}

impl Hand {
    pub fn cards(&self) -> &[usize] {
        &self.cards[..self.size]
    }
}

/// Returns the hash of a flow, from the name of its schema and its distinguisher.
pub fn hash_of(schema: &str, distinguisher: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(schema.as_bytes());
    hash.update([0]);
    hash.update(distinguisher.as_bytes());
    let digest = hash.finalize();
    u64::from_le_bytes(digest[..8].try_into().expect("a SHA-256 has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_hash_is_dealt_as_a_number_of_mixed_base() {
        // 1 + 8 * (3 + 7 * 3): card 1 of 8, card 3 of the 7 others, card 3 of the 6 remaining ones.
        assert_eq!(Dealer::new(8, 3).deal(1 + 8 * (3 + 7 * 3)).cards(), [1, 4, 5]);
        assert_eq!(Dealer::new(4, 4).deal(0).cards(), [0, 1, 2, 3]);
        assert_eq!(Dealer::new(1, 6).deal(u64::MAX).cards(), [0]);
    }

    #[test]
    fn hands_of_many_flows_use_all_queues_alike() {
        let mut dealt = [0_u32; 64];
        for flow in 0..4000 {
            let hand = Dealer::new(64, 6).deal(hash_of("schema", &format!("user-{flow}")));
            hand.cards().iter().for_each(|queue| dealt[*queue] += 1);
        }
        // 375 each on average.
        assert!(dealt.iter().all(|count| (275..475).contains(count)), "{dealt:?}");
    }

    proptest! {
        #[test]
        fn a_hand_has_different_queues(deck in 1_usize..200, hand in 1_usize..=MAX_HAND, hash: u64) {
            let dealt = Dealer::new(deck, hand).deal(hash);
            let different: BTreeSet<_> = dealt.cards().iter().collect();
            prop_assert_eq!(different.len(), hand.min(deck));
            prop_assert!(different.iter().all(|queue| **queue < deck));
        }
    }
}
