//! `ObservedBody`: the body of a request or an answer that is copied while it is read, or whose end is reported.

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The data that has been read so far.
pub type Copy = Arc<Mutex<Vec<u8>>>;

/// Passes a body on unchanged, and copies it or reports its end.
pub struct ObservedBody {
    body: Body,
    /// The copy, and its limit in bytes.
    copy: Option<(Copy, usize)>,
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl ObservedBody {
    /// Copies a body while it is read, up to `limit` bytes.
    pub fn copied(body: Body, limit: usize) -> (Body, Copy) {
        let copy = Copy::default();
        (Body::new(Self { body, copy: Some((copy.clone(), limit)), end: None }), copy)
    }

    /// Calls `end` when the body is dropped: after its end, or when the client has gone.
    pub fn until_end(body: Body, end: impl FnOnce() + Send + 'static) -> Body {
        Body::new(Self { body, copy: None, end: Some(Box::new(end)) })
    }
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let (Poll::Ready(Some(Ok(frame))), Some((copy, limit))) = (&polled, &self.copy)
            && let Some(data) = frame.data_ref()
        {
            let mut copy = copy.lock();
            let room = limit.saturating_sub(copy.len());
            copy.extend_from_slice(&data[..data.len().min(room)]);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}
