//! The programs of a simulated container, as busybox has them.
//!
//! Corresponds to busybox. Each program has the options that scripts use; it refuses others by name.

pub mod options;
pub mod input;
pub mod printing;
pub mod identity;
pub mod date;
pub mod running;
pub mod text;
pub mod lines;
pub mod translate;
pub mod grep;
pub mod sed;
pub mod awk;
pub mod files;
pub mod attributes;
pub mod paths;
pub mod listing;
pub mod find;
pub mod test_expression;
pub mod expr;
pub mod digest;
pub mod dd;
pub mod system;
pub mod tar;
pub mod web;
pub mod net;

use crate::process::proc::{Proc, Running};

/// Runs a program; its first word is its own name.
pub type Program = for<'a> fn(&'a mut Proc, &'a [String]) -> Running<'a>;

/// Folders in which programs are looked for when PATH is not set.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

macro_rules! programs {
    ($($name:literal => $run:path,)*) => {
        /// The names of all programs.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Returns the program with this name.
        pub fn program(name: &str) -> Option<Program> {
            match name {
                $($name => Some(|proc, argv| Box::pin($run(proc, argv))),)*
                _ => None,
            }
        }
    };
}

programs! {
    "[" => test_expression::test,
    "awk" => awk::awk,
    "base64" => digest::base64,
    "basename" => paths::basename,
    "cat" => text::cat,
    "chgrp" => attributes::chgrp,
    "chmod" => attributes::chmod,
    "chown" => attributes::chown,
    "cp" => files::cp,
    "curl" => net::curl::curl,
    "cut" => lines::cut,
    "date" => date::date,
    "dd" => dd::dd,
    "df" => listing::df,
    "dig" => net::dig::dig,
    "dirname" => paths::dirname,
    "du" => listing::du,
    "echo" => printing::echo,
    "egrep" => grep::grep,
    "env" => identity::env,
    "expr" => expr::expr,
    "false" => printing::no,
    "fgrep" => grep::grep,
    "find" => find::find,
    "getent" => net::nslookup::getent,
    "grep" => grep::grep,
    "head" => text::head,
    "hexdump" => system::hexdump,
    "host" => net::nslookup::host,
    "hostname" => identity::hostname,
    "id" => identity::id,
    "ip" => system::ip,
    "kill" => running::kill,
    "ln" => files::ln,
    "ls" => listing::ls,
    "md5sum" => digest::digest,
    "mkdir" => files::mkdir,
    "mount" => listing::mount,
    "mv" => files::mv,
    "nc" => net::nc::nc,
    "nohup" => running::nohup,
    "nslookup" => net::nslookup::nslookup,
    "nproc" => identity::nproc,
    "printenv" => identity::printenv,
    "printf" => printing::printf,
    "ping" => net::ping::ping,
    "ping6" => net::ping::ping,
    "ps" => running::ps,
    "pwd" => paths::pwd,
    "readlink" => paths::readlink,
    "realpath" => paths::realpath,
    "rm" => files::rm,
    "rmdir" => files::rmdir,
    "sed" => sed::sed,
    "seq" => printing::seq,
    "sha256sum" => digest::digest,
    "sleep" => running::sleep,
    "sort" => lines::sort,
    "stat" => attributes::stat,
    "stty" => identity::stty,
    "sync" => printing::yes_quietly,
    "sysctl" => system::sysctl,
    "tail" => text::tail,
    "tar" => tar::tar,
    "tee" => text::tee,
    "test" => test_expression::test,
    "timeout" => running::timeout,
    "touch" => files::touch,
    "tr" => translate::tr,
    "true" => printing::yes_quietly,
    "tty" => identity::tty,
    "uname" => identity::uname,
    "uniq" => lines::uniq,
    "wc" => text::wc,
    "wget" => net::wget::wget,
    "which" => paths::which,
    "whoami" => identity::whoami,
    "xargs" => running::xargs,
    "yes" => printing::yes,
}
