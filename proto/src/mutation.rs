//! Bounded runs of fuzz targets. The inputs are seeded mutations of examples, so every run has the same ones.
//!
//! A target is a plain function that panics when a property does not hold. Any fuzzer can call it; `run` calls it in
//! ordinary tests.

/// Checks the properties that must hold for an input.
pub type Target = fn(&[u8]);

/// Limit on the length of inputs, except for nested ones.
const MAX_BYTES: usize = 4 << 10;
/// Limit on the repetitions of a piece. It nests deeper than any parser allows.
const MAX_REPEATS: u64 = 20_000;
const MAX_MUTATIONS: u64 = 6;
/// One input of this many is deeply nested or very long, because such inputs take the most time.
const RARELY: u64 = 64;

/// Calls the target with every example, and with `rounds` mutations of the examples and words.
pub fn run(examples: &[&[u8]], words: &[&str], rounds: u32, target: Target) {
    examples.iter().for_each(|example| checked(target, example));
    let mut random = Random { state: 0x9e37_79b9_7f4a_7c15 };
    for _ in 0..rounds {
        checked(target, &random.input(examples, words));
    }
}

/// Calls the target, and prints the input if the target panics.
fn checked(target: Target, input: &[u8]) {
    struct Named<'i>(&'i [u8]);
    impl Drop for Named<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let shown = &self.0[..self.0.len().min(MAX_BYTES)];
                eprintln!("the target fails for {} bytes: b\"{}\"", self.0.len(), shown.escape_ascii());
            }
        }
    }
    let named = Named(input);
    target(named.0);
}

/// A generator of pseudo-random numbers (xorshift).
struct Random {
    state: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Returns a number below a limit. A limit of 0 counts as 1.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or(0)
    }

    fn one_of<'i>(&mut self, inputs: &[&'i [u8]]) -> &'i [u8] {
        inputs.get(self.below(inputs.len())).copied().unwrap_or_default()
    }

    /// Returns the start and the end of a part of an input.
    fn part(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        (from, from + self.below((length - from).min(64) + 1))
    }

    fn input(&mut self, examples: &[&[u8]], words: &[&str]) -> Vec<u8> {
        let mut input = self.one_of(examples).to_vec();
        for _ in 0..=self.next() % MAX_MUTATIONS {
            self.mutate(&mut input, examples, words);
            input.truncate(MAX_BYTES);
        }
        if self.next().is_multiple_of(RARELY) {
            self.nest(&mut input, words);
        }
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>, examples: &[&[u8]], words: &[&str]) {
        let at = self.below(input.len() + 1);
        match self.next() % 8 {
            0 => {
                let bit = 1 << (self.next() % 8);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= bit;
                }
            }
            1 => input.insert(at, self.next().to_le_bytes()[0]),
            2 => {
                let (from, to) = self.part(input.len());
                drop(input.drain(from..to));
            }
            3 => {
                let (from, to) = self.part(input.len());
                let part = input[from..to].to_vec();
                drop(input.splice(at..at, part));
            }
            4 => {
                let other = self.one_of(examples);
                let (from, to) = self.part(other.len());
                drop(input.splice(at..at, other[from..to].iter().copied()));
            }
            5 => input.truncate(at),
            _ => {
                let word = words.get(self.below(words.len())).copied().unwrap_or_default();
                drop(input.splice(at..at, word.bytes()));
            }
        }
    }

    /// Repeats a word or a part of the input many times.
    fn nest(&mut self, input: &mut Vec<u8>, words: &[&str]) {
        let (from, to) = self.part(input.len());
        let piece = match words.get(self.below(words.len() * 2)) {
            Some(word) => word.as_bytes().to_vec(),
            None => input[from..to].to_vec(),
        };
        let times = usize::try_from(self.next() % MAX_REPEATS).unwrap_or(0);
        drop(input.splice(from..from, piece.repeat(times)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time_and_differ_from_each_other() {
        let inputs = |count: usize| -> Vec<Vec<u8>> {
            let mut random = Random { state: 7 };
            (0..count).map(|_| random.input(&[b"abcdefgh", b"12"], &["[", "]"])).collect()
        };
        let found = inputs(500);
        assert_eq!(found, inputs(500));
        let distinct: std::collections::BTreeSet<&Vec<u8>> = found.iter().collect();
        assert!(distinct.len() > 300, "{}", distinct.len());
        assert!(found.iter().any(|input| input.len() > MAX_BYTES), "some are nested deeply");
    }

    #[test]
    #[should_panic(expected = "a bracket")]
    fn a_target_that_fails_is_noticed() {
        run(&[b"abc"], &["["], 100, |input| assert!(!input.contains(&b'['), "a bracket"));
    }
}
