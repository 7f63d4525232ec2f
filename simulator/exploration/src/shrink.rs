//! Delta debugging: finds a smallest part of a list that still fails.
//!
//! Corresponds to the algorithm `ddmin` of Zeller and Hildebrandt.

/// Returns a part of a failing list from which no single item can be left out. `fails` tells whether a part still fails.
pub fn shrink<T: Clone, E>(items: &[T], mut fails: impl FnMut(&[T]) -> Result<bool, E>) -> Result<Vec<T>, E> {
    let mut left = items.to_vec();
    if left.is_empty() || fails(&[])? {
        return Ok(Vec::new());
    }
    let mut parts = 2;
    while left.len() > 1 {
        let size = left.len().div_ceil(parts);
        let mut smaller = None;
        for start in (0..left.len()).step_by(size) {
            let end = (start + size).min(left.len());
            let rest: Vec<T> = left[..start].iter().chain(&left[end..]).cloned().collect();
            if fails(&rest)? {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
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
        let left = shrink(&items, |part| {
            attempts += 1;
            Ok::<bool, Infallible>(needed.iter().all(|item| part.contains(item)))
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
        assert_eq!(
            shrink(&[1, 2], |part| if part.len() == 1 { Err("full disk") } else { Ok(false) }),
            Err("full disk")
        );
    }
}
