//! Lines of the access logs of web servers, in the common log format.

use crate::network::http::{Request, Response};
use crate::process::network::Connection;
use crate::process::proc::Proc;

/// Returns the line about a request, without its end.
pub fn line(proc: &Proc, request: &Request, connection: &Connection, answer: &Response) -> String {
    let (client, time) = (connection.remote.ip(), proc.now().strftime("%d/%b/%Y:%H:%M:%S +0000"));
    let Request { method, target, version, .. } = request;
    let (status, bytes) = (answer.status, answer.body.len());
    format!("{client} - - [{time}] \"{method} {target} {version}\" {status} {bytes}")
}
