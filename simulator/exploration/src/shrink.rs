//! Delta debugging: finds a smallest part of a list that still fails.
//!
//! Corresponds to the algorithm `ddmin` of Zeller and Hildebrandt.

/// Returns a part of a failing list from which no single item can be left out. `first_failing` gets parts in the order in which they
/// are to be tried, and returns the place of the first that still fails: it may try several at the same time.
pub fn shrink<T: Clone, E>(
    items: &[T],
    mut first_failing: impl FnMut(&[Vec<T>]) -> Result<Option<usize>, E>,
) -> Result<Vec<T>, E> {
    let mut left = items.to_vec();
    if left.is_empty() || first_failing(&[Vec::new()])?.is_some() {
        return Ok(Vec::new());
    }
    let mut parts = 2;
    while left.len() > 1 {
        let size = left.len().div_ceil(parts);
        let without = |start: usize| {
            let end = (start + size).min(left.len());
            left[..start].iter().chain(&left[end..]).cloned().collect()
        };
        let rests: Vec<Vec<T>> = (0..left.len()).step_by(size).map(without).collect();
        match first_failing(&rests)?.and_then(|place| rests.into_iter().nth(place)) {
            Some(rest) => {
                left = rest;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(left.len()),
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Shrinks 1..=20, which fails while all of `needed` are there, and returns the rest and the number of attempts.
    fn shrunk(needed: &[u32]) -> (Vec<u32>, usize) {
        let mut attempts = 0;
        let items: Vec<u32> = (1..=20).collect();
        let left = shrink(&items, |rests| {
            let found = rests.iter().position(|part| {
                attempts += 1;
                needed.iter().all(|item| part.contains(item))
            });
            Ok::<_, Infallible>(found)
        });
        (left.unwrap(), attempts)
    }

    #[test]
    fn only_what_is_needed_is_left() {
        for needed in [&[][..], &[7], &[1, 20], &[3, 4, 5], &[2, 9, 14, 19]] {
            let (left, attempts) = shrunk(needed);
            assert_eq!(left, needed);
            assert!(attempts < 100, "{attempts} attempts for {needed:?}");
        }
    }

    #[test]
    fn an_error_ends_it() {
        let failed = shrink(&[1, 2], |parts: &[Vec<i32>]| if parts.len() == 2 { Err("full disk") } else { Ok(None) });
        assert_eq!(failed, Err("full disk"));
    }
}
