//! Reads requests: a command for each environment.

use std::io::{self, BufRead};

/// What an environment is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Answers the decision with the index of a node, or with the number of nodes to let the pod wait.
    Step(i64),
    /// Begins an episode with this seed.
    Reset(u64),
    /// Stays as it is.
    Skip,
}

const STEP: i64 = 0;
const RESET: i64 = 1;
const SKIP: i64 = 2;

/// Bytes of a command.
const SIZE: usize = 16;

/// Reads the next request; `None` at the end of the input.
pub fn read(input: &mut impl BufRead, environments: usize) -> Result<Option<Vec<Command>>, String> {
    let failed = |error: io::Error| format!("standard input: {error}");
    if input.fill_buf().map_err(failed)?.is_empty() {
        return Ok(None);
    }
    let mut bytes = vec![0; environments * SIZE];
    input.read_exact(&mut bytes).map_err(failed)?;
    bytes.chunks_exact(SIZE).map(command).collect::<Result<Vec<_>, _>>().map(Some)
}

fn command(bytes: &[u8]) -> Result<Command, String> {
    let (numbers, _) = bytes.as_chunks::<8>();
    let (operation, value) = (i64::from_le_bytes(numbers[0]), i64::from_le_bytes(numbers[1]));
    match operation {
        STEP => Ok(Command::Step(value)),
        RESET => u64::try_from(value).map(Command::Reset).map_err(|_| format!("seed {value}: must not be negative")),
        SKIP => Ok(Command::Skip),
        _ => Err(format!("operation {operation}: must be {STEP}, {RESET} or {SKIP}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn a_request_has_a_command_for_each_environment() {
        let bytes = request(&[STEP, 5, RESET, 7, SKIP, 0]);
        let mut input = bytes.as_slice();
        let read_one = read(&mut input, 3).unwrap();
        assert_eq!(read_one, Some(vec![Command::Step(5), Command::Reset(7), Command::Skip]));
        assert_eq!(read(&mut input, 3), Ok(None));
        assert!(read(&mut &bytes[..40], 3).is_err(), "half a request");
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert_eq!(read(&mut request(&[3, 0]).as_slice(), 1).unwrap_err(), "operation 3: must be 0, 1 or 2");
        assert_eq!(read(&mut request(&[RESET, -1]).as_slice(), 1).unwrap_err(), "seed -1: must not be negative");
    }
}
