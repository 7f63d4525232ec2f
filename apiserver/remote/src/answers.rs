//! `Answers`: reads the responses of other servers, within a budget of bytes that all of them share.
//!
//! One response may be large, for example a list that a webhook converted, and many may arrive at a time. Each takes
//! from the budget as it grows, and waits while the budget is used up, within the time limit of its request. A decoded
//! response takes several times the room of its bytes, so it counts until it is dropped.

use axum::body::Body;
use futures::StreamExt;
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of the budget.
const PIECE_BYTES: usize = 1 << 10;

/// The budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Answers {
    pieces: Arc<Semaphore>,
    /// The size of the largest response: at most the whole budget, or its reading would wait for ever.
    most_bytes: usize,
}

/// The bytes of a response, or the value decoded from them, with its part of the budget.
#[derive(Debug)]
pub struct Answer<T> {
    content: T,
    _held: Option<OwnedSemaphorePermit>,
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<T> Answer<T> {
    /// Converts the content, which keeps the same part of the budget.
    pub fn map<U, E>(self, make: impl FnOnce(T) -> Result<U, E>) -> Result<Answer<U>, E> {
        Ok(Answer { content: make(self.content)?, _held: self._held })
    }
}

impl Answer<Value> {
    pub fn into_inner(self) -> Value {
        self.content
    }
}

impl Answers {
    /// Creates a budget of `budget_bytes` for all responses together, and of `most_bytes` for one of them.
    pub fn new(budget_bytes: usize, most_bytes: usize) -> Self {
        let pieces = Arc::new(Semaphore::new(budget_bytes / PIECE_BYTES));
        Self { pieces, most_bytes: most_bytes.min(budget_bytes / PIECE_BYTES * PIECE_BYTES) }
    }

    /// Reads a whole body. An error says what is wrong with it.
    pub async fn read(&self, body: Body) -> Result<Answer<Vec<u8>>, String> {
        let mut chunks = body.into_data_stream();
        let mut content = Vec::new();
        let mut held: Option<OwnedSemaphorePermit> = None;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| error.to_string())?;
            let grown = content.len() + chunk.len();
            if grown > self.most_bytes {
                return Err(format!("the answer is larger than {} bytes", self.most_bytes));
            }
            let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let needed = grown.div_ceil(PIECE_BYTES).saturating_sub(has);
            let more = self.pieces.clone().acquire_many_owned(needed as u32).await;
            let more = more.expect("the budget is never closed");
            match &mut held {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            content.extend_from_slice(&chunk);
        }
        Ok(Answer { content, _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures::{FutureExt, stream};
    use std::convert::Infallible;

    /// Returns a body in chunks of one kibibyte.
    fn body(pieces: usize) -> Body {
        let piece = || Ok::<_, Infallible>(Bytes::from_static(&[b'x'; PIECE_BYTES]));
        Body::from_stream(stream::iter((0..pieces).map(move |_| piece())))
    }

    #[test]
    fn an_answer_counts_until_it_is_dropped() {
        let answers = Answers::new(8 * PIECE_BYTES, 6 * PIECE_BYTES);
        let first = answers.read(body(6)).now_or_never().expect("there is room").unwrap();
        assert_eq!(first.len(), 6 * PIECE_BYTES);
        let value = first.map(|bytes| Ok::<_, ()>(Value::from(bytes.len()))).unwrap();
        let mut second = Box::pin(answers.read(body(3)));
        assert!((&mut second).now_or_never().is_none(), "six and three are more than eight");
        let small = answers.read(body(0)).now_or_never();
        assert!(small.is_some(), "what is empty needs no room");
        drop(value);
        assert_eq!((&mut second).now_or_never().expect("there is room again").unwrap().len(), 3 * PIECE_BYTES);
        assert_eq!(answers.pieces.available_permits(), 8, "the budget is whole again");
    }

    #[test]
    fn one_that_is_too_large_is_not_read_to_its_end() {
        let answers = Answers::new(8 * PIECE_BYTES, 6 * PIECE_BYTES);
        let refused = answers.read(body(7)).now_or_never().expect("it does not wait").unwrap_err();
        assert_eq!(refused, "the answer is larger than 6144 bytes");
        assert_eq!(answers.pieces.available_permits(), 8);
    }

    #[test]
    fn no_answer_may_be_larger_than_the_budget() {
        let answers = Answers::new(2 * PIECE_BYTES, 6 * PIECE_BYTES);
        assert!(answers.read(body(3)).now_or_never().expect("it does not wait for ever").is_err());
    }
}
