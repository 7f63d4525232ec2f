//! What a client wants of a command: its streams, and a terminal of some size.
//!
//! Corresponds to Options in pkg/cri/streaming/remotecommand and to TerminalSize.

/// What a client asks to be connected.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl StreamOptions {
    /// How many streams a SPDY client opens for them: one of them tells how it ended.
    pub fn stream_count(self) -> usize {
        // A terminal has one output, and a size.
        1 + [self.stdin, self.stdout, self.stderr, self.tty].into_iter().filter(|wish| *wish).count()
    }
}

/// Of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct TerminalSize {
    #[serde(rename = "Width")]
    pub columns: u16,
    #[serde(rename = "Height")]
    pub rows: u16,
}

impl TerminalSize {
    /// As clients write it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
