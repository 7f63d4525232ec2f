//! A POSIX shell.
//!
//! Corresponds to the sh of busybox. Read `syntax` first, then `interpreter`. `words` and `parser` read a script,
//! `expansion` makes fields of words, `builtins` are the commands that change the shell itself.

pub mod syntax;
pub mod scanner;
pub mod words;
pub mod parser;
pub mod variables;
pub mod arithmetic;
pub mod state;
pub mod expansion;
pub mod fields;
pub mod redirection;
pub mod interpreter;
pub mod jobs;
pub mod builtins;
pub mod environment_builtins;
pub mod invocation;
