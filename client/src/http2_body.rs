//! Bodies of HTTP/2 requests and answers.
//!
//! Corresponds to `clientStream` of golang.org/x/net/http2.

use bytes::Bytes;
use component_base::http::Body;
use futures::FutureExt;
use h2::{Reason, RecvStream, SendStream};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Sends the body of a request. Bytes in memory are sent at once. A body that is still to come has a task of its own, because
/// the answer may come first.
pub(crate) fn send(mut body: Body, mut stream: SendStream<Bytes>) {
    if pipe(&mut body, &mut stream).now_or_never().is_none() {
        TokioExecutor::new().execute(async move { pipe(&mut body, &mut stream).await });
    }
}

/// Sends what is left of a body, as far as the server takes it. Who waits for the answer learns why it does not.
async fn pipe(body: &mut Body, stream: &mut SendStream<Bytes>) {
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
        };
        let (data, is_last) = match frame {
            Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), body.is_end_stream()),
            Some(Err(error)) => {
                tracing::debug!(%error, "the body of a request has ended early");
                return stream.send_reset(Reason::CANCEL);
            }
            None => (Bytes::new(), true),
        };
        if stream.send_data(data, is_last).is_err() || is_last {
            return;
        }
        stream.reserve_capacity(1);
        let Some(Ok(_)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
    }
}

/// The body of an answer. What was read makes room for what follows.
pub(crate) struct AnswerBody(pub RecvStream);

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(data) = ready!(self.0.poll_data(cx)) else { return Poll::Ready(None) };
        let freed = |data: Bytes| self.0.flow_control().release_capacity(data.len()).map(|()| Frame::data(data));
        Poll::Ready(Some(data.and_then(freed)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
