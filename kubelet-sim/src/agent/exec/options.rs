//! The options of `exec` and `attach`: which streams the client wants, and the size of its terminal.
//!
//! Corresponds to Options in pkg/cri/streaming/remotecommand and to TerminalSize.

/// The streams that a client wants to be connected to.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl StreamOptions {
    /// Returns how many streams a SPDY client opens: those of the options, and one for the exit status.
    pub fn stream_count(self) -> usize {
        // With a terminal there is one output, and a stream for its size.
        1 + [self.stdin, self.stdout, self.stderr, self.tty].into_iter().filter(|is_wanted| *is_wanted).count()
    }
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct TerminalSize {
    #[serde(rename = "Width")]
    pub columns: u16,
    #[serde(rename = "Height")]
    pub rows: u16,
}

impl TerminalSize {
    /// Reads a size as clients write it, in JSON.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}
