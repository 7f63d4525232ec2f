//! Signals, and how a process ends.

/// The number of a process.
pub type Pid = u32;

/// A signal that programs know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Hangup = 1,
    Interrupt = 2,
    Quit = 3,
    Abort = 6,
    Kill = 9,
    User1 = 10,
    Segfault = 11,
    User2 = 12,
    Pipe = 13,
    Alarm = 14,
    Terminate = 15,
    Child = 17,
    Continue = 18,
    WindowChange = 28,
}

const NAMES: [(Signal, &str); 14] = [
    (Signal::Hangup, "HUP"),
    (Signal::Interrupt, "INT"),
    (Signal::Quit, "QUIT"),
    (Signal::Abort, "ABRT"),
    (Signal::Kill, "KILL"),
    (Signal::User1, "USR1"),
    (Signal::Segfault, "SEGV"),
    (Signal::User2, "USR2"),
    (Signal::Pipe, "PIPE"),
    (Signal::Alarm, "ALRM"),
    (Signal::Terminate, "TERM"),
    (Signal::Child, "CHLD"),
    (Signal::Continue, "CONT"),
    (Signal::WindowChange, "WINCH"),
];

impl Signal {
    /// Reads a name with or without `SIG`, or a number.
    pub fn parse(text: &str) -> Option<Self> {
        let upper = text.to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        let is_meant = |signal: Signal, name: &str| name == bare || signal.number().to_string() == bare;
        NAMES.into_iter().find(|(signal, name)| is_meant(*signal, name)).map(|(signal, _)| signal)
    }

    /// Returns the name without `SIG`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(signal, _)| *signal == self).map_or("", |(_, name)| name)
    }

    pub fn number(self) -> i32 {
        self as i32
    }

    /// True when a process that does not handle the signal ends by it.
    pub fn ends_by_default(self) -> bool {
        !matches!(self, Self::Child | Self::Continue | Self::WindowChange)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.into_iter().map(|(signal, _)| signal)
    }
}

/// The way a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal(Signal),
}

impl ExitStatus {
    /// Returns the exit code as a shell shows it: 128 and the number of the signal that ended the process.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code & 0xff,
            Self::Signal(signal) => 128 + signal.number(),
        }
    }
}
