//! The channels between a client and a command: input, outputs, terminal size, and exit status.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/remotecommand and pkg/cri/streaming/remotecommand. Over WebSockets the
//! channels are numbered; over SPDY the client opens a stream for each and names it in a header.

use super::options::{StreamOptions, TerminalSize};
use crate::agent::stream::event::StreamEvent;
use crate::agent::stream::multiplex::{Framing, Incoming, Outgoing};
use crate::agent::stream::upgrade::Offers;
use axum::body::Bytes;
use component_base::env::Env;
use serde_json::Value;
use std::time::Duration;

pub const OFFERS: Offers = Offers {
    websocket: &[
        "v5.channel.k8s.io",
        "v4.channel.k8s.io",
        "v4.base64.channel.k8s.io",
        "channel.k8s.io",
        "base64.channel.k8s.io",
        "",
    ],
    spdy: &["v4.channel.k8s.io"],
};

/// The time in which a SPDY client must have opened its streams.
const OPENING_LIMIT: Duration = Duration::from_secs(30);
/// After the exit status, a client gets this long to close the connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const STREAM_TYPE: &str = "streamtype";

/// One of the five channels of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
}

/// All channels, each at the index that is its number over WebSockets.
const CHANNELS: [Channel; 5] = [Channel::Stdin, Channel::Stdout, Channel::Stderr, Channel::Error, Channel::Resize];

impl Channel {
    /// Returns the channel that a SPDY client means by a stream type.
    fn of_type(name: &str) -> Option<Self> {
        Some(match name {
            "stdin" => Self::Stdin,
            "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            "error" => Self::Error,
            "resize" => Self::Resize,
            _ => return None,
        })
    }
}

/// The channel that each stream carries.
#[derive(Clone, Debug, Default)]
struct StreamNumbers(Vec<(u32, Channel)>);

impl StreamNumbers {
    /// Returns the fixed numbers of the channels over WebSockets.
    fn fixed() -> Self {
        Self((0..).zip(CHANNELS).collect())
    }

    fn channel(&self, stream: u32) -> Option<Channel> {
        self.0.iter().find(|(known, _)| *known == stream).map(|(_, channel)| *channel)
    }

    fn stream(&self, channel: Channel) -> Option<u32> {
        self.0.iter().find(|(_, known)| *known == channel).map(|(stream, _)| *stream)
    }
}

/// Input from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Bytes(Bytes),
    Resize(TerminalSize),
    /// The client sends no more input, but still reads output.
    End,
    /// The client has disconnected.
    Gone,
}

/// Translates an event of a stream into input; `None` for events that mean nothing to a command.
fn input(numbers: &StreamNumbers, event: StreamEvent) -> Option<Input> {
    match event {
        StreamEvent::Data { stream, bytes } => match numbers.channel(stream)? {
            Channel::Stdin => Some(Input::Bytes(bytes)),
            Channel::Resize => TerminalSize::read(&bytes).map(Input::Resize),
            _ => None,
        },
        StreamEvent::End(stream) | StreamEvent::Reset(stream) if numbers.channel(stream)? == Channel::Stdin => {
            Some(Input::End)
        }
        _ => None,
    }
}

/// Reads the input from a client.
pub struct Reader {
    incoming: Incoming,
    numbers: StreamNumbers,
}

/// Writes the output and the exit status to a client.
pub struct Writer {
    outgoing: Outgoing,
    numbers: StreamNumbers,
    has_status_object: bool,
}

/// Opens the channels; `None` when the client disconnects, or waits too long, before it has opened its streams.
pub async fn open(
    framing: Framing,
    mut incoming: Incoming,
    outgoing: Outgoing,
    options: StreamOptions,
    env: &Env,
) -> Option<(Reader, Writer)> {
    let has_status_object = !matches!(framing, Framing::Channels(protocol) if !protocol.has_status_object);
    let numbers = match framing {
        Framing::Channels(_) => {
            let numbers = StreamNumbers::fixed();
            outgoing.greet(numbers.stream(lowest_output(options))?).await;
            numbers
        }
        Framing::Spdy => env
            .timeout(OPENING_LIMIT, accept_streams(&mut incoming, &outgoing, options.stream_count()))
            .await
            .ok()??,
    };
    Some((Reader { incoming, numbers: numbers.clone() }, Writer { outgoing, numbers, has_status_object }))
}

/// Returns the output with the lowest number: the first message of a connection is an empty one on it.
fn lowest_output(options: StreamOptions) -> Channel {
    match options {
        StreamOptions { stdout: true, .. } => Channel::Stdout,
        StreamOptions { stderr: true, .. } => Channel::Stderr,
        _ => Channel::Error,
    }
}

/// Returns what the error channel says of an exit status. Old protocols know only an error's message.
fn status_bytes(status: &Value, has_status_object: bool) -> String {
    match (has_status_object, status["status"].as_str()) {
        (true, _) => status.to_string(),
        (false, Some("Success")) => String::new(),
        (false, _) => status["message"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Waits until the client has opened so many streams, and accepts each one.
async fn accept_streams(incoming: &mut Incoming, outgoing: &Outgoing, count: usize) -> Option<StreamNumbers> {
    let mut numbers = StreamNumbers::default();
    while numbers.0.len() < count {
        let StreamEvent::Open { stream, headers } = incoming.next().await? else { continue };
        let channel = headers.get(STREAM_TYPE).and_then(|name| Channel::of_type(name));
        match channel.filter(|channel| numbers.stream(*channel).is_none()) {
            Some(channel) => {
                numbers.0.push((stream, channel));
                outgoing.reply(stream).await;
            }
            None => drop(outgoing.refuse(stream).await),
        }
    }
    Some(numbers)
}

impl Reader {
    /// Waits for the next input. A client that is silent for too long counts as gone. May be dropped while it waits.
    pub async fn next(&mut self) -> Input {
        loop {
            let Some(event) = self.incoming.next().await else { return Input::Gone };
            if let Some(container) = input(&self.numbers, event) {
                return container;
            }
        }
    }

    /// Reads until the client closes the connection, so that it can still receive the exit status.
    pub async fn finish(self) {
        self.incoming.finish(CLOSE_LIMIT).await;
    }
}

impl Writer {
    /// Sends bytes on a channel; false once the client has gone.
    pub async fn write(&mut self, channel: Channel, bytes: &[u8]) -> bool {
        match self.numbers.stream(channel) {
            Some(stream) => self.outgoing.data(stream, Bytes::copy_from_slice(bytes)).await,
            None => true,
        }
    }

    /// Sends the exit status and closes all streams.
    pub async fn close(mut self, status: &Value) {
        let bytes = status_bytes(status, self.has_status_object);
        self.write(Channel::Error, bytes.as_bytes()).await;
        for (stream, _) in &self.numbers.0 {
            self.outgoing.end(*stream).await;
        }
        self.outgoing.go_away().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_typed_reaches_a_command() {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let data = |stream, text| StreamEvent::Data { stream, bytes: bytes(text) };
        let size = |columns, rows| Some(Input::Resize(TerminalSize { columns, rows }));
        for (event, expected) in [
            (data(0, "ab"), Some(Input::Bytes(bytes("ab")))),
            (data(0, ""), Some(Input::Bytes(bytes("")))),
            (StreamEvent::End(0), Some(Input::End)),
            (StreamEvent::Reset(0), Some(Input::End)),
            (StreamEvent::End(4), None),
            (data(4, r#"{"Width":80,"Height":24}"#), size(80, 24)),
            (data(4, "wide"), None),
            (data(2, "no"), None),
            (data(9, "no"), None),
        ] {
            assert_eq!(input(&StreamNumbers::fixed(), event.clone()), expected, "{event:?}");
        }
    }

    #[test]
    fn the_first_message_is_on_the_lowest_output() {
        for (stdout, stderr, expected) in
            [(true, true, Channel::Stdout), (false, true, Channel::Stderr), (false, false, Channel::Error)]
        {
            assert_eq!(lowest_output(StreamOptions { stdout, stderr, ..StreamOptions::default() }), expected);
        }
    }

    #[test]
    fn an_old_protocol_has_words_for_errors_alone() {
        let failed = json!({"metadata": {}, "status": "Failure", "message": "exit code 3"});
        let ended = json!({"metadata": {}, "status": "Success"});
        for (status, has_status_object, expected) in [
            (&failed, true, failed.to_string()),
            (&ended, true, ended.to_string()),
            (&failed, false, "exit code 3".to_owned()),
            (&ended, false, String::new()),
        ] {
            assert_eq!(status_bytes(status, has_status_object), expected);
        }
    }

    #[test]
    fn a_spdy_client_numbers_its_streams_itself() {
        let numbers = StreamNumbers(vec![(1, Channel::Error), (5, Channel::Stdin)]);
        assert_eq!((numbers.channel(5), numbers.channel(0)), (Some(Channel::Stdin), None));
        assert_eq!((numbers.stream(Channel::Error), numbers.stream(Channel::Stdout)), (Some(1), None));
    }
}
